"""A linear map and the sum behind it as the map of a sum, on a GPU: in ATen operations, without code.

The regions are those that the C++ family cuts. What is left of the arithmetic is little, a sum of the larger factor that reads
memory once and a thin product, and the library is near the limit in both; so the unit is the rewrite itself, and a win with
it is labelled *algorithmic*.
"""

from __future__ import annotations

from dataclasses import replace

from ....records import Graph, Region, Unit
from ...facts import Facts
from ..costs import region_bytes
from ..families.base import Technique
from ..families.collapse import Collapse, pattern
from ..program import Unsupported
from ..rewriting import rewritten_region


class CudaCollapse(Collapse):
    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        us = region_bytes(graph, region) / facts.bandwidth * 1e6 + facts.hardware.aten_call_us * len(
            region.nodes
        )
        return [replace(t, tunables=(), us=us) for t in super().techniques(graph, region, facts)]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        anchor = self.anchor(graph, region)
        if anchor is None:
            raise Unsupported("no sum of a linear map")
        return Unit(
            region=region, language="aten", source="", family=self.name, technique=technique.name,
            rewrite=rewritten_region(graph, region, pattern(graph, anchor.node), own=True),
        )  # fmt: skip
