"""Scans in a graph: running sums, products and extrema, backwards and exclusive ones, too."""

from __future__ import annotations

from collections.abc import Collection

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import FLOATS, option
from ...records import Graph, Node
from ..anchored import AnchoredFamily, Core
from .scan_forms import Form, form

OPERATIONS = {"cumsum": "sum", "cumprod": "product", "cummax": "maximum", "cummin": "minimum"}
COMBINE = {
    "sum": ("0.0", "a + b"),
    "product": ("1.0", "a * b"),
    "maximum": ("-__builtin_inf()", "((a > b) | (a != a)) ? a : b"),
    "minimum": ("__builtin_inf()", "((a < b) | (a != a)) ? a : b"),
}
FEW_COLUMNS = 4  # below this the lanes of a scan over an outer dimension stay empty


class ScanPattern(AnchoredFamily):
    name = "scan"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) in OPERATIONS

    def supports(self, graph: Graph, node: Node) -> bool:
        result, source = node.output.spec, graph.specs[node.uses[0]]
        if result.dtype not in FLOATS or source.dtype not in (*FLOATS, "bool") or not result.shape:
            return False
        if len(node.outputs) > 1 and node.outputs[1] is not None and _is_needed(graph, node.outputs[1].name):
            return False  # the indices of an extremum
        return axis_of(node, len(result.shape)) == len(result.shape) - 1 or result.shape[-1] >= FEW_COLUMNS

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        return self.form_of(graph, node, within).core

    def form_of(self, graph: Graph, node: Node, within: Collection[str]) -> Form:
        return form(graph, node, axis_of(node, len(node.output.spec.shape)), within)


def axis_of(node: Node, rank: int) -> int:
    return int(option(node, 1, "dim", -1)) % rank


def _is_needed(graph: Graph, value: str) -> bool:
    return bool(graph.users[value]) or value in graph.returned
