"""Two products that pointwise nodes join: the gate and the other half of SwiGLU, `silu(x @ g) * (x @ u)`.

In: a graph and a product in it. Out: the `DualProduct` that it is a half of. One kernel computes both (a dual GEMM): the left factor is read
once, and neither product goes through memory. Source: CUTLASS, example 45_dual_gemm.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...codegen.lowering.axis_relations import VIEWS, base_name
from ...codegen.lowering.ops import pointwise
from ...codegen.rewrites.algebra import only_user
from ...records import Graph, Node
from .product import PRODUCTS

MOST_BETWEEN = 8  # nodes from a product to where it meets the other


@dataclass(frozen=True)
class DualProduct:
    """`first`: the product that has an activation, if one has; `joining`: the activation's nodes, then the one that reads both."""

    first: Node
    second: Node
    joining: tuple[str, ...]

    @property
    def nodes(self) -> set[str]:
        return {self.first.name, self.second.name, *self.joining}


def find_dual(graph: Graph, node: Node) -> DualProduct | None:
    """Find the pair that a product belongs to, whichever of the two it is; None where it belongs to none."""
    meeting = _find_meeting(graph, node)
    if meeting is None:
        return None
    halves = [_trace(graph, value) for value in _list_operands(graph, meeting)]
    traced = sorted((h for h in halves if h is not None), key=lambda h: -len(h[1]))
    if len(traced) != 2:
        return None
    (first, activation), (second, another) = traced
    if another or node.name not in (first.name, second.name):
        return None
    return DualProduct(first, second, (*reversed(activation), meeting.name))


def _find_meeting(graph: Graph, node: Node) -> Node | None:
    """The first node behind a product, along its only readers, that reads two values of its shape."""
    for _ in range(MOST_BETWEEN):
        reader = only_user(graph, node)
        if reader is None or not _is_pointwise(reader):
            return None
        if len(_list_operands(graph, reader)) == 2:
            return reader
        node = reader
    return None


def _trace(graph: Graph, value: str) -> tuple[Node, list[str]] | None:
    """The product that a value is made of by pointwise nodes that read nothing else of its shape; these nodes, the last first."""
    between: list[str] = []
    while (node := graph.producer.get(value)) is not None and graph.is_read_once(value):
        if base_name(node) in PRODUCTS:
            return node, between
        operands = _list_operands(graph, node)
        if not _is_pointwise(node) or len(operands) != 1:
            break
        between.append(node.name)
        value = operands[0]
    return None


def _list_operands(graph: Graph, node: Node) -> list[str]:
    shape = node.output.spec.shape
    return [v for v in dict.fromkeys(node.uses) if graph.specs[v].shape == shape]


def _is_pointwise(node: Node) -> bool:
    return pointwise(node.op) is not None and base_name(node) not in VIEWS
