"""Fused elementwise chains with broadcasting: one pass, every input read once, every output written once."""

from __future__ import annotations

from ....progress import counted
from ....records import Graph, Node, Region, Unit
from ...facts import Facts
from ..axes import VIEWS, base_name
from ..lower import lower
from ..ops import pointwise
from ..program import Unsupported
from .base import Technique, grain_tunable, stream_tunable, tunable, vector_tunable, write_unit


class Pointwise:
    name = "pointwise"

    def covers(self, graph: Graph, node: Node) -> bool:
        return pointwise(node.op) is not None and base_name(node) not in VIEWS

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        try:
            program = lower(graph, region)
        except Unsupported:
            return []
        if program.mode != "pointwise":
            return []
        heavy = sum(s.cost for s in program.steps) > 40
        tunables = (
            vector_tunable(facts), stream_tunable(graph, region, facts), tunable("UNROLL", 2, 1, 4),
            tunable("TILE", 8192, 1024, 2048, 65536), grain_tunable(),
        )  # fmt: skip
        operations = counted(len(region.nodes), "operation")
        why = f"{operations} in one pass: every input is read once, every output written once"
        return [Technique("fused", why, "compute" if heavy else "memory", tunables)]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        return write_unit(graph, region, technique, self.name)
