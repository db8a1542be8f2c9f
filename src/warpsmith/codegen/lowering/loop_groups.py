"""The loops of a program: in which order its axes run, and which of them run as one.

In: the operands as the axes see them. Out: groups of axes, outermost first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from ..program import Group, Operand


def loop_groups(
    operands: Sequence[Operand], axes: Collection[int], span: Collection[int], reduced: Collection[int]
) -> tuple[Group, ...]:
    """Neighbouring axes merge where every operand is flat over both. `span`: what an operand must have to span the
    space.
    """
    groups: list[Group] = []
    for axis in _order(operands, axes, span):
        before = groups[-1] if groups and groups[-1].reduced == (axis in reduced) else None
        if before is not None and all(_flat(o, before.axes, axis) for o in operands):
            groups[-1] = Group((*before.axes, axis), before.reduced)
        else:
            groups.append(Group((axis,), axis in reduced))
    return tuple(groups)


def _order(operands: Sequence[Operand], axes: Collection[int], span: Collection[int]) -> list[int]:
    """Axes from outermost to innermost: as memory has them in the first operand that spans the space; first of
    all those of one element that a view has dropped.
    """
    spanning = [o for o in operands if set(span) <= set(o.axes)]
    lacking = sorted(a for a in axes if any(a not in o.axes for o in spanning))
    remaining = [a for a in sorted(axes) if a not in lacking]
    if not spanning:
        return remaining
    first = spanning[0]
    where = {a: d for d, a in enumerate(first.axes) if a is not None}
    return [*lacking, *sorted(remaining, key=lambda a: (-_weight(first, where[a]), where[a]))]


def _weight(operand: Operand, dim: int) -> int:
    """Stride, or for a dimension of size 1 (whose stride means nothing) what its neighbours to the right
    span.
    """
    if operand.shape[dim] != 1:
        return operand.stride[dim]
    right = [
        s * n for s, n in zip(operand.stride[dim + 1 :], operand.shape[dim + 1 :], strict=True) if n != 1
    ]
    return max(right, default=1)


def _flat(operand: Operand, outer: Sequence[int], inner: int) -> bool:
    """Does one stride lead through the axes that run as one so far, and the next? Of neighbours alone it does not follow:
    one of size 1 between two others fits either.
    """
    if (outer[-1] in operand.axes) != (inner in operand.axes):
        return False
    return inner not in operand.axes or runs_on(operand, (*outer, inner))


def runs_on(operand: Operand, axes: Sequence[int]) -> bool:
    """Are these axes of the operand's neighbours, in this order and without gaps? Those of size 1 are left aside."""
    where = [operand.axes.index(a) for a in axes]
    long = [d for d in where if operand.shape[d] != 1]
    return all(
        b == a + 1 and (operand.shape[a] == 1 or operand.stride[a] == operand.stride[b] * operand.shape[b])
        for a, b in pairwise(where)
    ) and all(operand.stride[a] == operand.stride[b] * operand.shape[b] for a, b in pairwise(long))
