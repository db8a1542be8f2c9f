"""Keys or values that lie in pages, which a table picks for each sequence, as a server keeps its cache (PagedAttention, arXiv 2309.06180).

In: a graph and the operand of an attention, (sequences, heads, keys, features). Out: the nodes that collect the pages, the pool and the
table. A kernel that looks rows up in the table itself saves a copy of the whole cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import option
from ...records import Graph, Node

VIEWS = {"view", "reshape", "_unsafe_view", "permute", "transpose", "unsqueeze", "squeeze"}
TABLES = ("int64", "int32")
RANK = 4


@dataclass(frozen=True)
class PagedRows:
    """`pool[table]`, seen as heads of rows. `heads`, `rows`, `features`: the pool's dimensions that they run along."""

    nodes: tuple[str, ...]  # that collect and view, in order
    pool: str
    table: str
    heads: int
    rows: int
    features: int
    wraps: bool  # negative entries count from the end


def find_paged_rows(graph: Graph, value: str) -> PagedRows | None:
    """Tell how an operand's rows lie in pages; None where they do not, or where others read what is collected."""
    operand, views = graph.specs[value], []
    while (node := graph.producer.get(value)) is not None and base_name(node) in VIEWS:
        if not graph.is_read_once(value):
            return None
        views.append(node.name)
        value = node.uses[0]
    picked = None if node is None else _read_picking(node)
    if node is None or picked is None or not graph.is_read_once(value) or len(operand.shape) != RANK:
        return None
    pool, table, wraps = picked
    collected, stored, entries = graph.specs[value], graph.specs[pool], graph.specs[table]
    page = len(entries.shape)
    if entries.dtype not in TABLES or not entries.contiguous or not collected.contiguous:
        return None
    if len(stored.shape) != RANK or stored.stride[1:] != collected.stride[page:] or 0 in stored.shape:
        return None
    sizes = list(zip(stored.shape, stored.stride, strict=True))[1:]
    dims = [_find_dim(sizes, operand.shape[d], operand.stride[d], d == 2) for d in (1, 2, 3)]
    if None in dims or len(set(dims)) < len(dims):
        return None
    heads, rows, features = (d + 1 for d in dims if d is not None)
    outermost = stored.stride[rows] * stored.shape[rows] == collected.stride[page - 1]
    sequences = entries.numel * stored.shape[rows] == operand.shape[0] * operand.shape[2]
    if not outermost or not sequences or operand.stride[0] != operand.shape[2] * operand.stride[2]:
        return None
    return PagedRows((node.name, *reversed(views)), pool, table, heads, rows, features, wraps)


def _read_picking(node: Node) -> tuple[str, str, bool] | None:
    """The pool and the table of a node that picks along the first dimension, and whether negative entries are allowed."""
    if base_name(node) == "index_select" and int(option(node, 1, "dim", 0)) == 0:
        return node.args[0]["v"], node.args[2]["v"], False
    if base_name(node) == "index" and len(node.args[1]) == 1:
        return node.args[0]["v"], node.args[1][0]["v"], True
    return None


def _find_dim(sizes: list[tuple[int, int]], size: int, stride: int, divided: bool) -> int | None:
    """The dimension of a page with this stride; its size is a part of what is `divided` into pages, else the whole."""
    for d, (extent, step) in enumerate(sizes):
        if step == stride and (size % extent == 0 if divided else size == extent):
            return d
    return None
