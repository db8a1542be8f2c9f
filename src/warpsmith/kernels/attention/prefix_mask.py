"""A mask that shows each sequence the first keys of a cache, as many as a length says: `arange(keys) < lengths[:, None, None, None]`.

In: a graph and the mask of an attention. Out: the nodes that make it and the lengths. A kernel that compares with the length itself needs no mask.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...codegen.lowering.axis_relations import base_name
from ...records import Graph, Node

# Comparison → the keys of a query of length n are those below n + this; with the lengths first, the other way round.
KEYS_FIRST = {"lt": 0, "le": 1}
LENGTHS_FIRST = {"gt": 0, "ge": 1}
INTEGERS = ("int64", "int32")


@dataclass(frozen=True)
class PrefixMask:
    """A key is seen where key < lengths[…] + extra. `dims`: for each dimension of the mask, that of the lengths; None: it does not depend on it."""

    nodes: tuple[str, ...]  # in the order of the graph
    lengths: str
    extra: int
    dims: tuple[int | None, ...]


def find_prefix_mask(graph: Graph, mask: str) -> PrefixMask | None:
    """Tell which lengths make a mask; None where it is another one, or where others read it."""
    compared, added = _undo_unsqueezes(graph, mask)
    node = graph.producer.get(compared)
    if node is None or len(node.args) != 2 or not graph.is_read_once(compared):
        return None
    sides = [a["v"] if isinstance(a, dict) and "v" in a else "" for a in node.args]
    for table, (keys, lengths) in ((KEYS_FIRST, sides), (LENGTHS_FIRST, reversed(sides))):
        extra = table.get(base_name(node))
        if extra is not None and keys and lengths:
            return _read_sides(graph, node, keys, lengths, extra, added)
    return None


def _read_sides(
    graph: Graph, node: Node, keys: str, lengths: str, extra: int, behind: list[Node]
) -> PrefixMask | None:
    counted, shape, spec = graph.producer.get(keys), node.output.spec.shape, graph.specs[lengths]
    if counted is None or not _counts_from_zero(counted, shape[-1]) or spec.dtype not in INTEGERS:
        return None
    if len(spec.shape) != len(shape) or spec.shape[-1] != 1:
        return None
    source, before = _undo_unsqueezes(graph, lengths)
    dims: list[int | None] = [d if n != 1 else None for d, n in enumerate(graph.specs[source].shape)]
    for view in (*reversed(before), *reversed(behind)):
        dims.insert(int(view.args[1]) % (len(dims) + 1), None)
    nodes = {
        node.name,
        *(v.name for v in (*before, *behind)),
        *([counted.name] if graph.is_read_once(keys) else []),
    }
    return PrefixMask(tuple(n.name for n in graph.nodes if n.name in nodes), source, extra, tuple(dims))


def _undo_unsqueezes(graph: Graph, value: str) -> tuple[str, list[Node]]:
    """The value before dimensions of one element were added to it, and the nodes that add them, the last first."""
    views: list[Node] = []
    while (node := graph.producer.get(value)) is not None and base_name(node) == "unsqueeze":
        if not graph.is_read_once(value):
            break
        views.append(node)
        value = node.uses[0]
    return value, views


def _counts_from_zero(node: Node, count: int) -> bool:
    """Tell whether a node is `arange(count)`, of integers."""
    if (
        base_name(node) != "arange"
        or node.output.spec.shape != (count,)
        or node.output.spec.dtype not in INTEGERS
    ):
        return False
    bounds = [a for a in node.args if isinstance(a, int)]
    return bounds in ([count], [0, count], [0, count, 1])
