"""Fused elementwise chains with broadcasting: one pass, every input read once, every output written once."""

from __future__ import annotations

from ....codegen.cpp_source import Body
from ....codegen.lowering.lower import lower, try_lower
from ....facts import Facts
from ....progress import counted
from ....records import Graph, Region, Unit
from ...family import Technique, grain_tunable, stream_tunable, tunable, unit_around, vector_tunable
from ..pointwise_pattern import PointwisePattern
from .pointwise_loops import PointwiseLoops


class CppPointwise(PointwisePattern):
    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        program = try_lower(graph, region)
        if program is None or program.mode != "pointwise":
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
        loops = PointwiseLoops(lower(graph, region))
        loops.write()
        return unit_around(
            Body(loops.w, before=loops.layout.declare_before(loops.w)), region, technique, self.name
        )
