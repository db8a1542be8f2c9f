"""Keys or values that are a cache and what a step adds to it, joined along the keys: `cat([cache, new], -2)`.

In: a graph and the operand of an attention. Out: the node that joins, and both parts. A kernel that reads both where they are saves a copy of the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import option
from ...records import Graph


@dataclass(frozen=True)
class JoinedRows:
    node: str
    cache: str
    added: str


def find_joined_rows(graph: Graph, value: str) -> JoinedRows | None:
    """Tell of which two parts an operand is made; None where it is not, or where others read the whole."""
    node, rank = graph.producer.get(value), len(graph.specs[value].shape)
    if node is None or base_name(node) != "cat" or len(node.args[0]) != 2 or rank < 2:
        return None
    if int(option(node, 1, "dim", 0)) % rank != rank - 2 or not graph.is_read_once(value):
        return None
    cache, added = (a["v"] for a in node.args[0])
    specs = [graph.specs[v] for v in (cache, added)]
    if any(s.dtype != graph.specs[value].dtype or len(s.shape) != rank or s.stride[-1] != 1 for s in specs):
        return None
    return JoinedRows(node.name, cache, added) if min(s.numel for s in specs) > 0 else None
