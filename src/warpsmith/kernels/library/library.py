"""Alternatives of the library for a region, verified, timed and deployed like any unit.

Its units have no code: each is a rewrite in ATen operations that do what the graph does in another call or layout. The techniques are named
"library-…", so a win is labelled *library*. It covers what no kernel of ours is written for, half-precision products and convolutions above
all, and is one more technique, with the library's own time as its promise, where there is a kernel.
"""

from __future__ import annotations

from ...codegen.lowering.axis_relations import base_name
from ...codegen.program import Unsupported
from ...codegen.rewrites.rewriting import region_graph
from ...facts import Facts
from ...records import Graph, Node, Region, Unit
from ..family import Technique
from .addmm_epilogue import AddmmEpilogue
from .alternative import Alternative
from .batched_as_single import BatchedAsSingle
from .channels_last import ChannelsLast

ALTERNATIVES: tuple[Alternative, ...] = (ChannelsLast(), AddmmEpilogue(), BatchedAsSingle())

CALLS = (
    "convolution",
    "linear",
    "mm",
    "matmul",
    "bmm",
)  # of the library, one of which is in each of its regions


class Library:
    name = "library"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) in CALLS

    def matches(self, graph: Graph, region: Region) -> bool:
        return any(alternative.matches(graph, region) for alternative in ALTERNATIVES)

    def cut(self, graph: Graph) -> list[list[str]]:
        """List the nodes of each region that an alternative could stand for; no node is in two."""
        covered: set[str] = set()
        cuts: list[list[str]] = []
        for names in (names for alternative in ALTERNATIVES for names in alternative.cut(graph)):
            if covered.isdisjoint(names):
                covered.update(names)
                cuts.append(names)
        return cuts

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        return [
            Technique(a.technique, a.why, "memory", (), us=a.predict_us(graph, region, facts))
            for a in ALTERNATIVES
            if a.matches(graph, region)
        ]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        alternative = next((a for a in ALTERNATIVES if a.technique == technique.name), None)
        if alternative is None or not alternative.matches(graph, region):
            raise Unsupported(f"{technique.name} is no alternative for this region")
        return Unit(
            region=region, language="aten", source="", family=self.name, technique=technique.name,
            rewrite=region_graph(graph, region, alternative.write(graph, region)),
        )  # fmt: skip


LIBRARY = Library()
