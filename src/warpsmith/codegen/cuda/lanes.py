"""One thread's share of a program: packs of neighbouring elements read into registers, the steps of one element, packs
written.

In: a program. Out: C++ statements. `V` elements make a pack; `task` is the number of a pack in what a row (or the whole
space) has of them; `index` its first element, `j` that element's place in the innermost loop, `r0`, `r1` … in the others.
A pack of operand in0 is `in0_pack[u]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ...records import ITEM_BYTES
from ..addresses import Addresses, Layout, split_index
from ..expressions import SCALAR_TYPE, Express
from ..program import Expr, Operand, Program
from ..writer import Writer

RAGGED = 256  # packs of a row from which on it is cut at aligned packs, wherever it begins
KINDS = {"f": "ws::load_as({})", "m": "(bool){}", "l": "(int64_t){}"}


class Places(Addresses):
    """Addresses of the current pack of each operand."""

    def element(self, operand: Operand) -> str:
        raise NotImplementedError


def bytes_of(operand: Operand) -> int:
    """Return the bytes of one element."""
    return ITEM_BYTES[operand.dtype]


def is_high_first(operand: Operand) -> str:
    """Tell, as C++, whether the upper half of a byte is the first of its two elements."""
    return "true" if operand.nibbles == "high first" else "false"


def writes_across(program: Program) -> bool:
    """Tell whether columns are reduced and then written with neighbours of the reduced loop side by side, as when a norm over channels ends
    in another layout: a thread's packs lie along that loop, for its stores.
    """
    if program.mode != "columns":
        return False
    inner, reduced = program.groups[-1].axes[-1], [g for g in program.groups if g.reduced][-1].axes[-1]
    written = [o for o, name in program.outputs if program.step(name).full]
    return any(_step(o, reduced) == 1 and _step(o, inner) > 1 for o in written)


def runs_along_rows(program: Program) -> bool:
    """Tell whether a pointwise program has an operand with neighbours from row to row, and packs of strangers."""
    if program.mode != "pointwise" or len(program.groups) < 2:
        return False
    inner, row = program.groups[-1].axes[-1], program.groups[-2].axes[-1]
    return any(_step(o, row) == 1 and _step(o, inner) > 1 for o in program.operands)


def _step(operand: Operand, axis: int) -> int:
    """Return how far apart neighbours along an axis are; 0 where there are none."""
    at = operand.axes.index(axis) if axis in operand.axes else -1
    return operand.stride[at] if at >= 0 and operand.shape[at] > 1 else 0


class CudaLayout(Layout, Places):
    """Offsets of a thread: in columns mode each has a column of its own, so that what it walks is the reduced loops; packs are of one element there,
    or along the last of these loops (`writes_across`).

    `lead`: the operand by whose alignment rows are cut into packs, where they are long and no whole number of packs
    (RAGGED); else rows begin with a pack.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.lead = self._lead()
        self.across = writes_across(program)

    def _lead(self) -> Operand | None:
        if self.program.mode != "rows" or self.reduces:
            return None
        axes = self.inner.group.axes
        aligned_tests = [
            o
            for o in self.program.inputs
            if set(axes) <= set(o.axes) and o.stride[o.axes.index(axes[-1])] == 1
        ]
        lead = max(aligned_tests, key=lambda o: prod(o.shape), default=None)
        if lead is None:
            return None
        n, vec = prod(lead.shape[lead.axes.index(a)] for a in axes), 16 // bytes_of(lead)
        return lead if n % vec and n >= RAGGED * vec else None

    def lane_stride(self, operand: Operand) -> str:
        loop = self.reduces[-1] if self.program.mode == "columns" else self.inner
        return f"{operand.name}_{loop.tag}" if self.moves(operand, loop) else "0"

    def split_row(self, w: Writer) -> None:
        if len(self.rows) < 2:
            return
        split_index(w, "row", [(loop.tag, loop.extent) for loop in self.rows], "index_t", "(index_t)")

    def split_task(self, w: Writer, whole: str) -> None:
        """`index`, `j` and `r0` … from `task`; `whole`: the type that they fit."""
        w.line(f"const {whole} index = {'head + ' if self.lead else ''}task * V;")
        loops = [*self.reduces, *([self.inner] if self.program.mode != "columns" else [])]
        parts = [("j" if loop is self.inner else loop.tag, loop.extent) for loop in loops]
        split_index(w, "index", parts, whole, f"({whole})")

    def element(self, operand: Operand) -> str:
        """Return the offset at which the current pack begins, as the tail of an expression."""
        terms = self.reduce_offset(operand)
        if self.program.mode != "columns" and self.moves(operand, self.inner):
            terms += f" + j * {operand.name}_col"
        return f"{operand.name}_at{terms}"

    def width(self) -> str:
        """Elements of a pack: neighbours along the innermost loop; where each thread has a column of its own, one, or along the reduced loop."""
        if self.program.mode == "columns":
            return f"ws::widest({self.reduces[-1].extent}, VEC)" if self.across else "1"
        widest = f"ws::widest({self.inner.extent}, VEC)"
        return f"RAGGED ? VEC : {widest}" if self.lead else widest

    def emit_ragged_test(self, w: Writer) -> None:
        if self.lead:
            n = self.inner.extent
            long = f"{n} >= {RAGGED} * VEC && {self.lead.name}_col == 1"
            w.line(f"constexpr bool RAGGED = {n} % VEC != 0 && {long};  // rows begin anywhere in a pack")

    def cut(self, w: Writer) -> None:
        """`head`, the elements of a row before its first whole pack, and `packs`, how many of these it has."""
        if self.lead:
            name = self.lead.name
            w.line(f"const int head = RAGGED ? (int)(-({name}_at - {name}) & (V - 1)) : 0;")
            w.line("const int packs = RAGGED ? (int)((REDUCE - head) / V) : PACKS;")

    @property
    def end(self) -> str:
        """Return the number of packs in a row."""
        return "packs" if self.lead else "PACKS"

    def declare_aligned(self, w: Writer, operands: Iterable[Operand]) -> None:
        """`in0_whole`: do all packs of an operand start at a multiple of a pack?"""
        outer = (*self.rows, *self.reduces[:-1], self.inner) if self.across else (*self.rows, *self.reduces)
        for operand in operands:
            steps = [r for r in outer if self.moves(operand, r)]
            tests = " && ".join(f"{operand.name}_{r.tag} % V == 0" for r in steps) or "true"
            if self.lead:
                tests = f"RAGGED ? {self._alike(operand, self.lead)} : {tests}"
            w.line(f"constexpr bool {operand.name}_whole = {tests};")

    def _alike(self, operand: Operand, lead: Operand) -> str:
        """Do all rows of both begin at the same place in a pack?"""

        def step(o: Operand, tag: str, moves: bool) -> str:
            return f"{o.name}_{tag}" if moves else "0"

        gaps = [
            f"({step(operand, r.tag, self.moves(operand, r))} - {step(lead, r.tag, self.moves(lead, r))}) % V == 0"
            for r in self.rows
        ]
        return " && ".join(gaps) or "true"

    def _start(self, operand: Operand) -> str:
        column = self.program.mode == "columns" and self.moves(operand, self.inner)
        return super()._start(operand) + (f" + col * {operand.name}_col" if column else "")

    def _runs(self, w: Writer) -> None:
        """None here: a thread's loops are over packs of the whole reduction."""


class Lanes(Express):
    """Writes what a thread does with its packs."""

    def __init__(self, program: Program, layout: Places, w: Writer) -> None:
        super().__init__(program, layout, w)
        self.places = layout

    def operands(self, sources: Sequence[str]) -> list[Operand]:
        """List the operands that these steps read element by element."""
        return [s.operand for s in self.program.list_needed_steps(list(sources)) if s.operand is not None]

    def stride(self, operand: Operand) -> str:
        return self.places.lane_stride(operand)

    def packs(self, operands: Iterable[Operand], count: str, what: str = "pack") -> None:
        for operand in operands:
            self.w.line(f"ws::Pack<{operand.name}_t, V> {operand.name}_{what}[{count}];")

    def read(self, operand: Operand) -> str:
        name = operand.name
        if operand.nibbles is not None:
            return (
                f"ws::read_nibbles<V, {name}_whole, {is_high_first(operand)}>({self.places.element(operand)})"
            )
        return f"ws::read<V, {self.stride(operand)}, {name}_whole>({self.places.element(operand)})"

    def element(self, sources: Sequence[str]) -> None:
        """The full steps that `sources` take, for element `v` of the packs numbered `u`."""
        for step in self.program.list_needed_steps(list(sources)):
            if self.constant(step):
                continue
            if step.operand is not None:
                text = KINDS[step.kind].format(f"{step.operand.name}_pack[u].at[v]")
            else:
                text = self._pick_one(step) if step.pick else self._fill(step, self._scalar_arg)
            self.w.line(f"const {SCALAR_TYPE[step.kind]} {step.name} = {text};")

    def value(self, name: str) -> str:
        """A step, or the constant that it is."""
        step: Expr = self.table[name]
        return step.text if self.constant(step) else name

    def write_full(self, outputs: Sequence[tuple[Operand, str]]) -> None:
        """Compute and write the packs numbered `u` of these outputs."""
        w = self.w
        for operand, _ in outputs:
            w.line(f"ws::Pack<{operand.name}_t, V> {operand.name}_made;")
        w.line("#pragma unroll")
        with w.block("for (int v = 0; v < V; v++)"):
            self.element([name for _, name in outputs])
            for operand, name in outputs:
                w.line(f"{operand.name}_made.at[v] = ws::narrowed<{operand.name}_t>({self.value(name)});")
        for operand, _ in outputs:
            name = operand.name
            w.line(
                f"ws::write<V, {self.stride(operand)}, {name}_whole, NT>({self.places.element(operand)}, {name}_made);"
            )

    def write_rows(self, outputs: Iterable[tuple[Operand, str]]) -> None:
        """A row's own outputs."""
        for operand, name in outputs:
            self.w.line(f"*{operand.name}_at = ws::narrowed<{operand.name}_t>({self.value(name)});")
