"""Which axes each reduction of a region removes, and at which of two levels.

A region may reduce twice: first along the rows (the reduced axes proper, the same for all its reductions), then
what the rows yielded over all kept axes to one number. A mean over all elements counts as both. In: the axes and
the nodes. Out: the reduced axes, and for each reducing node the axes that it removes. Raises Unsupported when the
reductions do not fit two levels.
"""

from __future__ import annotations

from ...records import Node
from ..program import Unsupported
from .axes import Axes
from .axis_relations import KEEPING, PICKING, REDUCING, base_name, find_picked_dim


def is_reducing(node: Node) -> bool:
    """Does the node reduce, or reduce inside (a norm), or take one element of a row?"""
    name = base_name(node)
    return name in KEEPING or name in PICKING or (name in REDUCING and not node.op.endswith(".other"))


def find_removed_axes(axes: Axes, nodes: list[Node]) -> dict[str, frozenset[int]]:
    """Map each reducing node's name to the axes that it removes."""
    removed: dict[str, frozenset[int]] = {}
    for node in nodes:
        if base_name(node) in PICKING:
            source = node.uses[0]
            picked = (
                a for a in axes.dim(source, find_picked_dim(node, axes.graph.specs[source])) if a is not None
            )
            removed[node.name] = frozenset(picked)
        elif is_reducing(node):
            removed[node.name] = axes.find_reduced_axes(node)
    return removed


def row_axes(axes: Axes, removed: dict[str, frozenset[int]]) -> frozenset[int]:
    """The axes reduced at the first level: those of the first reduction that leaves some."""
    sets = list(dict.fromkeys(removed.values()))
    if not sets:
        return frozenset()
    first = next((s for s in sets if s != axes.all), sets[0])
    if any(s not in (first, axes.all, axes.all - first) for s in sets):
        raise Unsupported("reductions over different axes")
    return first
