"""Reductions over columns that lie side by side, each thread with a pack of them, wherever rows begin.

Rows whose length is no whole number of packs begin anywhere in one. All rows of a thread begin at the same place in a
pack, since they are GROUP rows apart, a multiple of a pack's elements: so a thread has packs of its own, which begin
up to a pack's elements less one (its shift) before those of other threads. Blocks take that many columns less than
their packs have, so that every thread's packs cover all of them. States meet in shared memory, column by column.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....codegen.cuda.cuda_source import CudaBody, Launch, kernel_head
from ....codegen.cuda.lanes import CudaLayout, Lanes
from ....codegen.passes import Pass, passes
from ....codegen.program import Operand, Program
from ....codegen.templates import render
from ....codegen.writer import Writer
from ....hardware import H200
from . import cuda_states as states
from .row_reduction import RowReduction

ROOM = H200.smem_bytes_static


def side_by_side(program: Program) -> Operand | None:
    """The one operand that is walked, where its columns are neighbours and nothing else is read, written or kept on the way."""
    plan = passes(program)
    if program.mode != "columns" or program.ends or len(plan) != 1 or plan[0].last:
        return None
    layout = CudaLayout(program)
    if len(layout.reduces) != 1 or own_values_inside(program, plan[0]):
        return None
    steps = program.list_needed_steps(list(plan[0].sources))
    read = {s.operand.name: s.operand for s in steps if s.operand is not None}
    (operand, *other_operands) = read.values() if read else (None,)
    if operand is None or other_operands or operand.dtype not in ("float32", "bfloat16", "float16"):
        return None
    last = operand.axes.index(layout.inner.group.axes[-1]) if layout.moves(operand, layout.inner) else -1
    contiguous = last >= 0 and operand.stride[last] == 1 and layout.moves(operand, layout.reduces[0])
    return operand if contiguous else None


def own_values_inside(program: Program, p: Pass) -> bool:
    """Does what is reduced, or the program at one place, take a column's own values?"""
    full_steps = {s.name for s in program.steps if s.full or not (s.args or s.operand or s.reduction)}
    steps = program.list_needed_steps(list(p.sources))
    return any(a not in full_steps for s in steps for a in s.args) or any(s.pick for s in program.steps)


def room(program: Program, elements: int) -> int:
    """Bytes of shared memory in which states of so many columns meet, those of all threads that have them counted."""
    return 4 * max(states.words(s) for s in program.reductions if s.part == 0) * elements


def add_column(w: Writer, lanes: Lanes, p: Pass, count: str) -> None:
    """The packs numbered `u`, of `count` columns, of the row with the number `index`, to the columns' states."""
    w.line("#pragma unroll")
    with w.block(f"for (int v = 0; v < {count}; v++)"):
        lanes.element(p.sources)
        for source in p.sources:
            w.line(f"const float {source}_lanes[1] = {{{lanes.value(source)}}};")
        for step in p.reductions:
            w.line(f"{step.name}_states[v].add({step.args[0]}_lanes, index);")


class ColumnVectorized(RowReduction):
    def __init__(self, program: Program) -> None:
        super().__init__(program, "none")
        operand = side_by_side(program)
        assert operand is not None
        self.operand, self.who = operand, "inside"
        self.down = f"{operand.name}_{self.layout.reduces[0].tag}"  # from one row to the next

    def body(self) -> CudaBody:
        w, p = self.w, self.plan[0]
        self._declare()
        with w.block(kernel_head("rows", self.program, "SIZE, RESIDENT")):
            self._place()
            self.row_steps(0)
            w.line(p.headline)
            for step in p.reductions:
                states.declare(w, step, "C", ordered=True)
            self._walk()
            for step in p.reductions:
                w.line(
                    f"const auto {step.name}_state = ws::places_merge<GROUP, PLACES>(room, {step.name}_states, slot, column + C - 1, C - 1);"
                )
                states.values(w, self.program, step)
            self.row_steps(1)
            self._row_outputs()
        return CudaBody(self.top, w, (Launch("rows", "BUNDLES", "SIZE"),))

    def _declare(self) -> None:
        top, name = self.top, self.operand.name
        self.layout.declare(top)
        moving = [r.tag for r in self.layout.rows if self.layout.moves(self.operand, r)]
        aligned = " && ".join(f"{name}_{tag} % C == 0" for tag in (*moving, self.layout.reduces[0].tag))
        words = max(states.words(s) for s in self.plan[0].reductions)
        layout = render(
            "reduce/cuda/column_reduction_vectorized_layout.cuh",
            type=f"{name}_t",
            column_stride=f"{name}_col",
            row_stride=self.down,
            aligned=aligned,
            words=words,
        )
        for line in layout.splitlines():
            top.line(line)

    def _place(self) -> None:
        w, name = self.w, self.operand.name
        for line in render("reduce/cuda/column_reduction_vectorized_place.cuh").splitlines():
            w.line(line)
        self.layout.pointers(w)
        w.line("// The pack of this thread in its first row, and its first column among those of the block.")
        w.line(f"const int64_t first = {name}_at - {name} - col * {name}_col + slot * {self.down} + base;")
        w.line("const int column = (int)(threadIdx.x % BLOCK_COLUMNS) * C - (ALIKE ? 0 : (int)(first % C));")
        w.line(f"const {name}_t* const from = {name} + first + column;")

    def _walk(self) -> None:
        """Packs that reach beyond a row are read element by element, the first one in place of what is not there."""
        w, name, p = self.w, self.operand.name, self.plan[0]
        with w.block("const auto walk = [&](auto whole)", "};"):
            w.line("#pragma unroll 1")
            with w.block("for (int top = slot; top < (int)REDUCE; top += GROUP * UNROLL)"):
                w.line(f"ws::Pack<{name}_t, C> {name}_pack[UNROLL];")
                self._read_rows()
                with self._rows():
                    add_column(w, self.lanes, p, "C")
        w.line("if (base + column + C <= COLUMNS) walk(ws::Flag<true>());")
        w.line("else if (base + column < COLUMNS) walk(ws::Flag<false>());")

    def _read_rows(self) -> None:
        w, name = self.w, self.operand.name
        with self._rows():
            w.line(f"const {name}_t* const at = from + (int64_t)(index - slot) * {self.down};")
            w.line(f"if constexpr (decltype(whole)::value) {name}_pack[u] = ws::load_pack<C>(at);")
            with w.block("else"), w.block("for (int v = 0; v < C; v++)"):
                w.line(f"{name}_pack[u].at[v] = at[base + column + v < COLUMNS ? v : 0];")

    @contextmanager
    def _rows(self) -> Iterator[None]:
        """The loop over the rows that a thread has under way: `index` is the number of the row, which there is."""
        self.w.line("#pragma unroll")
        with self.w.block("for (int u = 0; u < UNROLL; u++)"):
            self.w.line("const int index = top + u * GROUP;")
            self.w.line("if (REDUCE % (GROUP * UNROLL) != 0 && index >= (int)REDUCE) continue;")
            yield
