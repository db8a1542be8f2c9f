"""Columns that are read once, reduced and written again: each thread keeps packs of neighbouring columns in registers, of
some rows each. What `reducing` does with a column a thread, for programs that reduce once and then write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....codegen.addresses import split_index
from ....codegen.cuda.cuda_source import CudaBody, Launch, kernel_head
from ....codegen.cuda.lanes import CudaLayout, Lanes, bytes_of
from ....codegen.passes import Pass, passes
from ....codegen.program import Operand, Program
from ....codegen.templates import render
from . import cuda_states as states
from .column_vectorized import add_column, own_values_inside
from .row_reduction import MOST, RowReduction


def in_columns(program: Program) -> list[Operand]:
    """List the operands that are read and written along columns, where the program reduces once, writes, and keeps nothing else; else nothing."""
    plan = passes(program)
    if program.mode != "columns" or program.ends or len(plan) != 2 or not plan[1].last:
        return []
    layout = CudaLayout(program)
    full = [s.operand for s in program.steps if s.full and s.operand is not None]
    written = [o for o, name in program.outputs if program.step(name).full]
    contiguous = [o for o in (*full, *written) if layout.moves(o, layout.inner)]
    return [] if own_values_inside(program, plan[0]) else contiguous


class Columns(CudaLayout):
    """A pack is of columns."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.across = False

    def lane_stride(self, operand: Operand) -> str:
        return f"{operand.name}_col" if self.moves(operand, self.inner) else "0"

    def width(self) -> str:
        widest = max(bytes_of(o) for o in in_columns(self.program))
        return f"ws::widest({self.inner.extent}, {16 // widest})"


class ColumnRegisterResident(RowReduction):
    def __init__(self, program: Program) -> None:
        super().__init__(program, "none")
        self.layout, self.who = Columns(program), "slot == 0 && inside"
        self.lanes = Lanes(program, self.layout, self.w)
        self.written = [(o, n) for o, n in program.outputs if program.step(n).full]

    def body(self) -> CudaBody:
        w, (reduces, writes) = self.w, self.plan
        self._declare()
        with w.block(kernel_head("rows", self.program, "SIZE")):
            self._place()
            read = {o.name: o for p in self.plan for o in self.lanes.operands(p.sources)}.values()
            self.lanes.packs(read, "ITEMS")
            with self._rows():
                for operand in read:
                    w.line(f"{operand.name}_pack[u] = {self.lanes.read(operand)};")
            self._reduce(reduces)
            self.lanes.packs([o for o, _ in self.written], "ITEMS", "made")
            self._columns(writes)
            with w.block("if (inside)"), self._rows():
                for operand, _ in self.written:
                    name = operand.name
                    arguments = f"{self.lanes.stride(operand)}, {name}_whole, NT"
                    w.line(f"ws::write<V, {arguments}>({self.layout.element(operand)}, {name}_made[u]);")
        return CudaBody(self.top, w, (Launch("rows", "BUNDLES", "SIZE"),))

    def _declare(self) -> None:
        self.layout.declare(self.top)
        words = max(states.words(s) for s in self.plan[0].reductions)
        layout = render(
            "reduce/cuda/column_reduction_register_resident_layout.cuh",
            pack=self.layout.width(),
            most=MOST,
            words=words,
        )
        for line in layout.splitlines():
            self.top.line(line)
        self.layout.declare_aligned(self.top, self._operands())

    def _place(self) -> None:
        for line in render("reduce/cuda/column_reduction_register_resident_place.cuh").splitlines():
            self.w.line(line)
        self.layout.pointers(self.w)

    @contextmanager
    def _rows(self) -> Iterator[None]:
        """The loop over a thread's rows; `index`: the number of the row, which there is."""
        w = self.w
        w.line("#pragma unroll")
        with w.block("for (int u = 0; u < ITEMS; u++)"):
            w.line("const int index = slot + u * GROUP;")
            w.line("if (REDUCE % GROUP != 0 && index >= (int)REDUCE) continue;")
            split_index(w, "index", [(r.tag, r.extent) for r in self.layout.reduces], "int", "(int)")
            yield

    def _reduce(self, p: Pass) -> None:
        w = self.w
        w.line(p.headline)
        for step in p.reductions:
            states.declare(w, step, "V")
        with self._rows():
            add_column(w, self.lanes, p, "V")
        for step in p.reductions:
            w.line(f"ws::packs_merge<GROUP, BLOCK_COLUMNS>(room, {step.name}_states, slot, lane);")

    def _columns(self, p: Pass) -> None:
        """Write the results of each column, and its elements."""
        w = self.w
        w.line(p.headline)
        w.line("#pragma unroll")
        with w.block("for (int v = 0; v < V; v++)"):
            start = len(w.lines)
            w.line("const int64_t col = begin + v;")
            self.layout.pointers(w)
            self.row_steps(0)
            for step in self.plan[0].reductions:
                w.line(f"const auto {step.name}_state = {step.name}_states[v];")
                states.values(w, self.program, step)
            self.row_steps(1)
            with self._rows():
                self.lanes.element(p.sources)
                for operand, name in self.written:
                    value = f"ws::narrowed<{operand.name}_t>({self.lanes.value(name)})"
                    w.line(f"{operand.name}_made[u].at[v] = {value};")
            self._row_outputs()
            w.prune(start)
