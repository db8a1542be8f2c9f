"""Matrix products in a graph, with the triangle that is kept of one, and their sizes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...codegen.lowering.axis_relations import base_name
from ...records import Graph, Node
from ..anchored import Anchor, AnchoredFamily, Core
from .product import PRODUCTS, Product, product_of

TRIANGLES = ("tril", "triu")


@dataclass(frozen=True)
class Sizes:
    """The sizes of a product at the main variant."""

    batch: int
    rows: int
    columns: int
    depth: int

    @property
    def outputs(self) -> int:
        return self.batch * self.rows * self.columns


class MatMulPattern(AnchoredFamily):
    name = "matmul"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) in PRODUCTS

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        """A triangle that is all that is kept of the product is part of it."""
        reads = self.prologues(graph, node)
        triangle = _triangle(graph, node, product_of(graph, node))
        if triangle is None or triangle.name not in within:
            return Core((node.name,), node.output.name, reads)
        return Core((node.name, triangle.name), triangle.output.name, reads)


def _triangle(graph: Graph, node: Node, product: Product) -> Node | None:
    """The node that keeps one triangle of the product, when it is all that reads the product."""
    users = graph.users[node.output.name]
    if len(users) != 1 or node.output.name in graph.returned or base_name(users[0]) not in TRIANGLES:
        return None
    return users[0] if product.rows == (product.rank - 2,) else None


def triangle_of(anchor: Anchor) -> Node | None:
    nodes = [] if anchor.core is None else [anchor.graph.by_name[n] for n in anchor.core.nodes]
    return next((n for n in nodes if base_name(n) in TRIANGLES), None)
