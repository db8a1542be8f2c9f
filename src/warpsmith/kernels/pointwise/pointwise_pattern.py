"""Pointwise nodes of a graph."""

from __future__ import annotations

from ...codegen.lowering.axis_relations import VIEWS, base_name
from ...codegen.lowering.ops import pointwise
from ...records import Graph, Node


class PointwisePattern:
    name = "pointwise"

    def covers(self, graph: Graph, node: Node) -> bool:
        return pointwise(node.op) is not None and base_name(node) not in VIEWS
