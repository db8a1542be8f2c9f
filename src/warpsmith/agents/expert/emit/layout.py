"""The constants of an emitted unit: extents of its loops and how far each operand moves in each of them."""

from __future__ import annotations

from dataclasses import dataclass

from ..program import Group, Operand, Program, Unsupported
from .text import Writer


@dataclass(frozen=True)
class Loop:
    """A group of axes as one loop: `extent` names its length, `tag` is the suffix of strides along it."""

    group: Group
    extent: str
    tag: str


class Layout:
    """Names of extents and strides. rows/pointwise: `col` is the innermost loop; columns: the lanes are."""

    def __init__(self, program: Program) -> None:
        self.program = program
        kept = [g for g in program.groups if not g.reduced]
        reduced = [g for g in program.groups if g.reduced]
        inner = program.groups[-1]
        outer_kept = [g for g in kept if g is not inner]
        self.inner = Loop(inner, "REDUCE_INNER" if program.mode == "rows" else "COLUMNS", "col")
        several = len(outer_kept) > 1
        self.rows = [
            Loop(g, f"ROWS{i}" if several else "ROWS", f"row{i}" if several else "row")
            for i, g in enumerate(outer_kept)
        ]
        outer = [g for g in reduced if g is not inner]
        self.reduces = [Loop(g, f"REDUCE{i}", f"r{i}") for i, g in enumerate(outer)]

    @property
    def loops(self) -> list[Loop]:
        return [*self.rows, *self.reduces, self.inner]

    def declare(self, w: Writer) -> None:
        """Constants: the extents, the number of rows and of elements a reduction covers, the strides, and
        checks.
        """
        for loop in self.loops:
            w.line(f"constexpr int64_t {loop.extent} = {self._extent(loop.group)};")
        if len(self.rows) != 1:
            w.line(f"constexpr int64_t ROWS = {' * '.join(r.extent for r in self.rows) or '1'};")
        if self.program.reductions:
            parts = [loop.extent for loop in self.loops if loop.group.reduced]
            w.line(f"constexpr int64_t REDUCE = {' * '.join(parts)};  // elements of one reduction")
        for operand in [*self.program.inputs, *(o for o, _ in self.program.outputs)]:
            self._strides(w, operand)

    def expression(self, name: str) -> str:
        """ROWS, REDUCE or the extent of a loop in terms of task.h alone, for what stands before the
        constants.
        """
        if name == "ROWS":
            return " * ".join(f"({self._extent(r.group)})" for r in self.rows) or "1"
        if name == "REDUCE":
            return " * ".join(f"({self._extent(r.group)})" for r in self.loops if r.group.reduced)
        return next(f"({self._extent(r.group)})" for r in self.loops if r.extent == name)

    def moves(self, operand: Operand, loop: Loop) -> bool:
        return bool(set(loop.group.axes) & set(operand.axes))

    def row_offset(self, operand: Operand) -> str:
        """Where a row of the operand starts, as an expression of `row` or of row0, row1 …"""
        terms = [f"{loop.tag} * {operand.name}_{loop.tag}" for loop in self.rows if self.moves(operand, loop)]
        return " + ".join(["", *terms]) if terms else ""

    def reduce_offset(self, operand: Operand) -> str:
        terms = [
            f"{loop.tag} * {operand.name}_{loop.tag}" for loop in self.reduces if self.moves(operand, loop)
        ]
        return " + ".join(["", *terms]) if terms else ""

    def lane_stride(self, operand: Operand) -> str:
        return f"{operand.name}_col" if self.moves(operand, self.inner) else "0"

    def pointers(self, w: Writer) -> None:
        """`in0_at`, `out0_at` …: where each operand's part of this row starts."""
        self.split_row(w)
        for operand in self.program.inputs:
            w.line(f"const {operand.name}_t* const {operand.name}_at = {self._start(operand)};")
        for operand, _ in self.program.outputs:
            w.line(f"{operand.name}_t* const {operand.name}_at = {self._start(operand)};")

    def _start(self, operand: Operand) -> str:
        return f"{operand.name}{self.row_offset(operand)}"

    def split_row(self, w: Writer) -> None:
        """row0, row1 … from `row`, where the kept axes are not one flat run."""
        if len(self.rows) < 2:
            return
        for i, loop in enumerate(self.rows):
            below = " * ".join(r.extent for r in self.rows[i + 1 :])
            quotient = f"row / ({below})" if below else "row"
            w.line(f"const int64_t {loop.tag} = {quotient}{f' % {loop.extent}' if i else ''};")

    def _extent(self, group: Group) -> str:
        return " * ".join(self._size(axis) for axis in group.axes)

    def _size(self, axis: int) -> str:
        operands = [*self.program.inputs, *(o for o, _ in self.program.outputs)]
        found = [
            (o.shape[o.axes.index(axis)], f"{o.name}_shape[{o.axes.index(axis)}]")
            for o in operands
            if axis in o.axes
        ]
        if not found:
            raise Unsupported("an axis that neither an input nor an output has")
        return max(found, key=lambda f: f[0])[1]

    def _strides(self, w: Writer, operand: Operand) -> None:
        for loop in self.loops:
            dims = [operand.axes.index(a) for a in loop.group.axes if a in operand.axes]
            if not dims:
                continue
            name = f"{operand.name}_{loop.tag}"
            table = f"{operand.name}_shape, {operand.name}_stride, {dims[0]}, {dims[-1]}"
            w.use("flat")
            w.line(f"constexpr int64_t {name} = pace({table});")
            if len(dims) > 1:
                w.line(
                    f'static_assert(flat({table}), "requires: {operand.name} flat, {dims[0]} to {dims[-1]}");'
                )
