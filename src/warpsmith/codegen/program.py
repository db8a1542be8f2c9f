"""A region as loops and expressions: what `lower` makes of a graph's nodes and the kernels' printers write as C++ or CUDA C++.

The iteration space has *axes*, numbered as the dimensions (or their factors) of the region's largest value. Reduced axes are
those a reduction removes; all reductions of a program share them. A value is *full* when it varies over the
reduced axes, else it belongs to a *row* (one point of the kept axes). Expressions are in single-assignment
form. The stage of an expression is the number of reductions that must have finished before it: pass s
computes the reductions of stage s + 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..records import Region

Kind = Literal[
    "f", "m", "i", "l"
]  # float32 in registers, mask, int32 (index of a reduction, cast float), int64
Nibbles = Literal["low first", "high first"]  # which of two values of four bits in a byte is first
REDUCTIONS = ("sum", "count", "max", "min", "prod", "argmax", "argmin", "any", "all", "moments", "softmax")


class Unsupported(Exception):
    """The region cannot be written by this generator; the message says why. Never shown to users."""


def operand_names(region: Region) -> dict[str, str]:
    """Value → in0, in1 …, out0 …, as task.h calls the region's inputs and outputs."""
    outputs = ((v, f"out{i}") for i, v in enumerate(region.outputs))
    return dict([*((v, f"in{i}") for i, v in enumerate(region.inputs)), *outputs])


@dataclass(frozen=True)
class Operand:
    """An input or output of the region: `axes[d]` is the axis of its dimension d (or of the d-th factor of its
    dimensions), None for none."""

    name: str  # in0, out1, …
    value: str  # the graph's name
    dtype: str
    axes: tuple[int | None, ...]
    shape: tuple[int, ...]  # at the main variant: only used to decide which axes are flat together
    stride: tuple[int, ...]
    dims: tuple[int, ...] = ()  # where views split dimensions: the real dimension of each entry above
    nibbles: Nibbles | None = (
        None  # two elements in a byte, neighbours along the last dimension; `shape` counts elements
    )

    @property
    def plain(self) -> bool:
        """Tell whether every entry is a dimension of the value."""
        return self.dims in ((), tuple(range(len(self.axes))))


@dataclass(frozen=True)
class Expr:
    """One named step. `text` has {0}, {1} … for `args`, which are names of earlier steps."""

    name: str
    text: str
    args: tuple[str, ...]
    kind: Kind
    full: bool
    stage: int
    operand: Operand | None = None  # a load
    reduction: str = ""  # one of REDUCTIONS; then args[0] is what is reduced
    part: int = 0  # which part of a compound reduction's state: moments → sum of squares 1; softmax → sum 1
    of: str = ""  # for part > 0: the step that holds part 0
    cost: int = 1  # rough instructions per element
    pick: bool = False  # a row's value: args[0], a full step, at position args[1] of the reduced axis
    total: str = ""  # args[0], a row's value, combined over all rows: sum, max, min or prod
    beyond: bool = False  # known only after all rows: a total, or made of totals

    @property
    def is_reduction(self) -> bool:
        return bool(self.reduction)


@dataclass(frozen=True)
class Group:
    """Neighbouring axes that every operand runs over as if they were one."""

    axes: tuple[int, ...]
    reduced: bool


@dataclass(frozen=True)
class Program:
    inputs: tuple[Operand, ...]
    outputs: tuple[tuple[Operand, str], ...]  # with the step stored there
    steps: tuple[Expr, ...]
    groups: tuple[Group, ...]  # outermost first
    sizes: tuple[str, ...] = ()  # of each axis, in terms of task.h; empty: as the operands' shapes say

    tail: tuple[
        Expr, ...
    ] = ()  # scalar steps after all rows, and what they read that is the same in all rows
    ends: tuple[tuple[Operand, str], ...] = ()  # outputs that are steps of the tail

    @property
    def totals(self) -> tuple[Expr, ...]:
        return tuple(s for s in self.tail if s.total)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Inputs, then outputs, in the order of the region."""
        outputs = sorted((o for o, _ in (*self.outputs, *self.ends)), key=lambda o: int(o.name[3:]))
        return (*self.inputs, *outputs)

    def step(self, name: str) -> Expr:
        return next(s for s in self.steps if s.name == name)

    @property
    def reductions(self) -> tuple[Expr, ...]:
        return tuple(s for s in self.steps if s.is_reduction)

    @property
    def mode(self) -> Literal["pointwise", "rows", "columns"]:
        """rows: the innermost loop is reduced; columns: it is kept, so that each lane has a reduction of its
        own.
        """
        if not any(g.reduced for g in self.groups):
            return "pointwise"
        return "rows" if self.groups[-1].reduced else "columns"

    @property
    def passes(self) -> int:
        """Number of passes that reduce."""
        return max((s.stage for s in self.reductions), default=0)

    @property
    def writes_full(self) -> bool:
        return any(self.step(name).full for _, name in self.outputs)

    def list_needed_steps(self, names: list[str], have: frozenset[str] = frozenset()) -> list[Expr]:
        """The full steps that computing `names` takes, in order, not going past reductions or the names in
        `have`.
        """
        table = {s.name: s for s in self.steps}
        needed_names: set[str] = set()
        todo = list(names)
        while todo:
            step = table[todo.pop()]
            if step.name in needed_names or step.name in have or not step.full:
                continue
            needed_names.add(step.name)
            todo += step.args
        return [s for s in self.steps if s.name in needed_names]
