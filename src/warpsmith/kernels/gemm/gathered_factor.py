"""A factor whose matrices are picked from a table by an index, as a mixture of experts picks the weights of each token's experts.

In: a graph and a factor of a product. Out: the node that picks, the table and the index. A kernel that reads the table itself
saves a copy of every matrix that is picked.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...codegen.lowering.axis_relations import base_name
from ...records import Graph
from .product import Factor, Product

INDICES = ("int64", "int32")


@dataclass(frozen=True)
class GatheredFactor:
    """`table[rows]`: values of the graph, and the node that makes it; `rank`: of `rows`."""

    node: str
    table: str
    rows: str
    rank: int


def find_gathered_factor(graph: Graph, product: Product, factor: Factor) -> GatheredFactor | None:
    """Tell what a factor is picked from; None where it is not, where others read it, or where the index is of single rows."""
    node = graph.producer.get(factor.value)
    if node is None or base_name(node) != "index" or len(node.args[1]) != 1:
        return None
    table, rows = node.args[0]["v"], node.args[1][0]["v"]
    rank, factor_spec, table_spec = (
        len(graph.specs[rows].shape),
        graph.specs[factor.value],
        graph.specs[table],
    )
    batch = {factor.dims[d] for d in product.batch}
    if graph.specs[rows].dtype not in INDICES or not set(range(rank)) <= batch:
        return None
    if not graph.is_read_once(factor.value):
        return None
    if table_spec.stride[1:] != factor_spec.stride[rank:] or table_spec.shape[0] == 0:
        return None
    return GatheredFactor(node.name, table, rows, rank)
