"""The constants of an emitted unit: extents of its loops and how far each operand moves in each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .lowering.loop_groups import runs_on
from .lowering.sizes import entries
from .program import Group, Operand, Program
from .writer import Writer


@dataclass(frozen=True)
class Loop:
    """A group of axes as one loop: `extent` names its length, `tag` is the suffix of strides along it."""

    group: Group
    extent: str
    tag: str


class Addresses:
    """How `Express` loads lanes of an operand: from `in0_at` on, `in0_col` apart."""

    def lane_stride(self, operand: Operand) -> str:
        return f"{operand.name}_col"

    def reduce_offset(self, operand: Operand) -> str:
        """From `in0_at` to where the reduced loops outside the lanes are, as the tail of an expression."""
        return ""


class Layout(Addresses):
    """Names of extents and strides. rows/pointwise: `col` is the innermost loop; columns: the lanes are."""

    def __init__(self, program: Program) -> None:
        self.program = program
        outer_groups = [g for g in program.groups if not g.reduced]
        reduced = [g for g in program.groups if g.reduced]
        inner = program.groups[-1]
        outer_kept = [g for g in outer_groups if g is not inner]
        self.inner = Loop(inner, "REDUCE_INNER" if program.mode == "rows" else "COLUMNS", "col")
        several = len(outer_kept) > 1
        self.rows = [
            Loop(g, f"ROWS{i}" if several else "ROWS", f"row{i}" if several else "row")
            for i, g in enumerate(outer_kept)
        ]
        outer = [g for g in reduced if g is not inner]
        self.reduces = [Loop(g, f"REDUCE{i}", f"r{i}") for i, g in enumerate(outer)]
        self._joined = False  # are the reduced loops walked as one just now?
        self._flat: dict[str, Operand] = {}  # operands for which they are in some pass

    @property
    def loops(self) -> list[Loop]:
        return [*self.rows, *self.reduces, self.inner]

    def declare_before(self, w: Writer) -> str:
        """Return the text of `declare`, which goes before what `w` holds; `w` gets the helpers that it calls."""
        constants = Writer()
        self.declare(constants)
        w.helpers |= constants.helpers
        return constants.text()

    def declare(self, w: Writer) -> None:
        """Constants: the extents, the number of rows and of elements a reduction covers, the strides, and
        checks.
        """
        for loop in self.loops:
            w.line(f"constexpr int64_t {loop.extent} = {self._extent(loop.group)};")
        if len(self.rows) != 1:
            w.line(f"constexpr int64_t ROWS = {' * '.join(r.extent for r in self.rows) or '1'};")
        if self.program.mode != "pointwise":
            parts = [loop.extent for loop in self.loops if loop.group.reduced]
            w.line(f"constexpr int64_t REDUCE = {' * '.join(parts)};  // elements of one reduction")
        if self.program.totals:
            row_count = "ROWS" if self.program.mode == "rows" else "ROWS * COLUMNS"
            w.line(f"constexpr int64_t KEPT = {row_count};  // independent reductions")
        self._runs(w)
        for operand in [*self.program.inputs, *(o for o, _ in self.program.outputs)]:
            self._requirements(w, operand)
            self._strides(w, operand)

    def _runs(self, w: Writer) -> None:
        if self.program.mode == "rows" and self.reduces:
            w.line("// Runs of the innermost axes that make a chunk together.")
            w.line("constexpr int64_t runs = REDUCE_INNER * 2 > CHUNK ? 1 : CHUNK / (REDUCE_INNER + 1);")

    @contextmanager
    def assume_joined_loops(self, operands: Sequence[Operand]) -> Iterator[bool]:
        """Inside, all reduced loops are one, REDUCE long, if these operands are flat over them; yields whether."""
        axes = [a for loop in [*self.reduces, self.inner] for a in loop.group.axes]
        self._joined = bool(self.reduces) and all(
            set(axes) <= set(o.axes) and runs_on(o, axes) for o in operands
        )
        if self._joined:
            self._flat |= {o.name: o for o in operands}
        yield self._joined
        self._joined = False

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
        """Return the start of an operand's row as an expression of `row` or of row0, row1 …"""
        terms = [f"{loop.tag} * {operand.name}_{loop.tag}" for loop in self.rows if self.moves(operand, loop)]
        return " + ".join(["", *terms]) if terms else ""

    def reduce_offset(self, operand: Operand) -> str:
        if self._joined:
            return ""
        terms = [
            f"{loop.tag} * {operand.name}_{loop.tag}" for loop in self.reduces if self.moves(operand, loop)
        ]
        return " + ".join(["", *terms]) if terms else ""

    def lane_stride(self, operand: Operand) -> str:
        if self._joined:
            return f"{operand.name}_all"
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
        split_index(w, "row", [(loop.tag, loop.extent) for loop in self.rows], "int64_t")

    def _extent(self, group: Group) -> str:
        return " * ".join(self.program.sizes[axis] for axis in group.axes)

    def _requirements(self, w: Writer, operand: Operand) -> None:
        """Require what holds at the main variant: factors of dimensions, dimensions of 1."""
        name = operand.name
        for dim, own_axes in entries(operand).items():
            axes = [operand.axes[p] for p in own_axes]
            size = " * ".join(self.program.sizes[a] for a in axes if a is not None) or "1"
            if len(own_axes) > 1 or axes[0] is None:
                w.line(
                    f'static_assert({name}_shape[{dim}] == {size}, "requires: {name}_shape[{dim}] == {size}");'
                )
        if not operand.plain:
            sizes, steps = self._factors(operand)
            w.line(
                f"constexpr int64_t {name}_sizes[] = {{{', '.join(sizes)}}};  // dimensions as views split them"
            )
            w.line(f"constexpr int64_t {name}_steps[] = {{{', '.join(steps)}}};")

    def _factors(self, operand: Operand) -> tuple[list[str], list[str]]:
        """Sizes and strides of an operand's entries."""
        sizes: list[str] = []
        steps: list[str] = []
        for dim, dim_axes in entries(operand).items():
            axes = [operand.axes[p] for p in dim_axes]
            dim_size = [f"{operand.name}_shape[{dim}]"]
            factors = (
                dim_size
                if len(dim_axes) == 1
                else ["1" if a is None else self.program.sizes[a] for a in axes]
            )
            sizes += factors
            steps += [
                " * ".join([f"{operand.name}_stride[{dim}]", *factors[i + 1 :]]) for i in range(len(dim_axes))
            ]
        return sizes, steps

    def _strides(self, w: Writer, operand: Operand) -> None:
        shape, stride = ("shape", "stride") if operand.plain else ("sizes", "steps")
        table = f"{operand.name}_{shape}, {operand.name}_{stride}"
        for loop in self.loops:
            dims = [operand.axes.index(a) for a in loop.group.axes if a in operand.axes]
            if not dims:
                continue
            w.use("flat")
            w.line(f"constexpr int64_t {operand.name}_{loop.tag} = pace({table}, {dims[0]}, {dims[-1]});")
            if len(dims) > 1:
                self._require_flat(w, operand, table, dims)
        if operand.name in self._flat:
            reduced = [a for loop in [*self.reduces, self.inner] for a in loop.group.axes]
            dims = [operand.axes.index(a) for a in reduced]
            w.line(f"constexpr int64_t {operand.name}_all = pace({table}, {dims[0]}, {dims[-1]});")
            self._require_flat(w, operand, table, dims)

    def _require_flat(self, w: Writer, operand: Operand, table: str, dims: list[int]) -> None:
        message = f"requires: {operand.name} flat, {dims[0]} to {dims[-1]}"
        w.line(f'static_assert(flat({table}, {dims[0]}, {dims[-1]}), "{message}");')


def split_index(w: Writer, whole: str, parts: Sequence[tuple[str, str]], kind: str, cast: str = "") -> None:
    """Each part's (name, extent) own index from one over all of them, the last part fastest."""
    for i, (name, extent) in enumerate(parts):
        below = " * ".join(size for _, size in parts[i + 1 :])
        quotient = f"{whole} / {cast}({below})" if below else whole
        w.line(f"const {kind} {name} = {quotient}{f' % {cast}{extent}' if i else ''};")
