"""A linear map and the sum behind it as the map of a sum, on a GPU: in ATen operations, without code.

The regions are those that the C++ family cuts. What is left of the arithmetic is little, a sum of the larger factor that reads
memory once and a thin product, and the library is near the limit in both; so the unit is the rewrite itself, and a win with
it is labelled *algorithmic*.
"""

from __future__ import annotations

from ...codegen.program import Unsupported
from ...codegen.rewrites.rewriting import rewritten_region
from ...facts import Facts
from ...records import Graph, Region, Unit
from ..costs import region_bytes
from ..family import Technique
from .collapse_pattern import CollapsePattern, read_summed_map


class CudaCollapse(CollapsePattern):
    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        if anchor is None:
            return []
        calls_us = facts.hardware.aten_call_us * len(region.nodes)
        return [self.technique(anchor, (), region_bytes(graph, region) / facts.bandwidth * 1e6 + calls_us)]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        anchor = self.anchor(graph, region)
        if anchor is None:
            raise Unsupported("no sum of a linear map")
        return Unit(
            region=region, language="aten", source="", family=self.name, technique=technique.name,
            rewrite=rewritten_region(graph, region, read_summed_map(graph, anchor.node), own=True),
        )  # fmt: skip
