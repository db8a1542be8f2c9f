"""Attention as one region: products, masks, softmax and the transposition of the result, block by block.

In: a graph and a node of an attention (`attention_pattern`). Out: a region with all its nodes and units for it whose
scores never leave the caches. What it declines is in `attention_parts`.
"""

from __future__ import annotations

from collections.abc import Collection

from ....codegen.cpp_source import Body
from ....codegen.fusion.broadcast_chains import band_step
from ....codegen.program import Expr, Unsupported
from ....codegen.writer import Writer
from ....errors import TaskError
from ....facts import Facts
from ....records import Graph, Node, Region, Unit
from ....tasks.regions import make_region
from ...anchored import AnchoredFamily
from ...family import Technique, register_tunable, tunable, unit_around
from ..attention_heads import Parts
from ..attention_parts import build_parts, check_band, list_nodes_behind
from ..attention_pattern import attention_at
from ..attention_rewrites import Attention
from ..mask_band import band_of
from .online_softmax import WORKSPACE, helpers, macros, write_attention


class CppAttention(AnchoredFamily):
    name = "attention"

    def covers(self, graph: Graph, node: Node) -> bool:
        return attention_at(graph, node) is not None

    def supports(self, graph: Graph, node: Node) -> bool:
        return self.cut(graph, node, (), False) is not None

    def cut(self, graph: Graph, node: Node, taken: Collection[str], fuse: bool) -> Region | None:
        attention = attention_at(graph, node)
        if attention is None or set(attention.nodes) & set(taken):
            return None
        further = list_nodes_behind(graph, attention, {*taken, *attention.nodes}) if fuse else [()]
        for nodes in further:
            try:
                region = make_region(graph, [*attention.nodes, *nodes])
                self._parts(graph, region)
            except (TaskError, Unsupported):
                continue
            return region
        return None

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        try:
            parts = self._parts(graph, region)
        except Unsupported:
            return []
        keys = parts.raw[-1]
        block = 64 if keys <= 64 else 128 if keys <= 512 else 256
        tunables = (
            tunable("QUERIES", 48, 24, 96), tunable("KEYS", block, *(n for n in (64, 128, 256) if n != block)),
            tunable("ROWS", 6, 4), register_tunable(facts),
        )  # fmt: skip
        why = "scores of a block of queries stay in the cache: running maximum and sum over blocks of keys"
        return [Technique("online-softmax", why, "compute", tunables)]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        parts = self._parts(graph, region)
        w = Writer()
        w.use("read")
        w.use("read_bool")
        w.use("write")
        write_attention(w, parts)
        body = Body(w, WORKSPACE, above=macros(parts), before=helpers())
        return unit_around(body, region, technique, self.name)

    def _parts(self, graph: Graph, region: Region) -> Parts:
        """Raises Unsupported for a region that is not an attention, or one that cannot be written."""
        members = set(region.nodes)
        finals = (graph.by_name[n] for n in reversed(region.nodes))
        attention = next(
            (a for n in finals if (a := attention_at(graph, n)) and set(a.nodes) <= members), None
        )
        if attention is None:
            raise Unsupported("not an attention")
        parts = build_parts(graph, region, attention, _compute_band)
        write_attention(Writer(), parts)
        return parts


def _compute_band(graph: Graph, attention: Attention, value: str) -> Expr | None:
    """A mask that the graph spells out, computed from row and column. Raises Unsupported."""
    band = band_of(graph, value)
    if band is None:
        return None
    check_band(graph, attention, value, band)
    kind = "m" if graph.specs[value].dtype == "bool" else "f"
    return band_step(band.limit, band.inside, band.outside, kind, len(attention.shape))
