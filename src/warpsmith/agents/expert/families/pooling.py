"""Maximum and average pooling over one to three dimensions, with fused pointwise neighbours.

In: `max_pool*`, `avg_pool*` and adaptive nodes of float images, (N, C, ...) or (C, ...), contiguous, channels-last or
strided. Out: units that combine rows into lines (`pool_rows`) or walk pixels (`pool_channels`). Declines: integers,
positions of maxima (`return_indices`) under channels-last, adaptive windows or dilated padding.
"""

from __future__ import annotations

from ....kernels.templates import render
from ....records import Graph, Node, Region, TensorSpec
from ...facts import Facts
from ..axes import base_name
from ..emit.text import SOME, Writer
from .anchored import Anchor, AnchoredFamily
from .base import Technique, stream_tunable, tunable, vector_tunable
from .pool_channels import Channels
from .pool_rows import Rows
from .pool_windows import SPATIAL, Pool, read_pool

RECOMPUTED = 2.5  # visits of an input element up to which a fused producer is computed anew at each


class Pooling(AnchoredFamily):
    name = "pooling"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) in SPATIAL

    def supports(self, graph: Graph, node: Node) -> bool:
        pool = read_pool(graph, node)
        return pool is not None and not (pool.indices and channels_last(graph, node, pool))

    def prologues(self, graph: Graph, node: Node) -> tuple[str, ...]:
        """The input, where computing it anew for each window that covers it is cheaper than a round trip."""
        pool = read_pool(graph, node)
        if pool is None:
            return ()
        count = len(pool.windows)
        size, made = graph.specs[node.uses[0]].shape[-count:], node.output.spec.shape[-count:]
        dims = range(count) if channels_last(graph, node, pool) else range(count - 1)
        return (node.uses[0],) if pool.reads(size, made, dims) <= RECOMPUTED else ()

    def run_axis(self, graph: Graph, node: Node) -> int:
        pool = read_pool(graph, node)
        return -1 if pool is None or not channels_last(graph, node, pool) else -len(pool.windows) - 1

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        pool = read_pool(graph, anchor.node) if anchor is not None else None
        if anchor is None or pool is None:
            return []
        common = (vector_tunable(facts), tunable("UNROLL", 2, 1, 4), stream_tunable(graph, region, facts))
        if channels_last(graph, anchor.node, pool):
            why = "pixel by pixel, vectors of channels; the taps inside the image are found once a pixel"
            return [Technique("channels", why, "memory", common)]
        what = (
            "value and position of the maximum" if pool.indices else "rows of a window into one padded line"
        )
        why = f"{what}, then the line's columns: no borders in the inner loops, neighbouring loads"
        return [Technique("lines", why, "memory", (tunable("BLOCK", 1024, 256, 4096), *common))]

    def helpers(self, anchor: Anchor, technique: Technique) -> str:
        return SOME + render("pool/cpu/windows.h")

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        pool = read_pool(anchor.graph, anchor.node)
        assert pool is not None  # anchor() refuses others
        rank = len(anchor.node.output.spec.shape)
        if technique.name == "channels":
            return Channels(w, anchor, pool, rank - len(pool.windows) - 1).write()
        return Rows(w, anchor, pool, rank - 1).write()


def channels_last(graph: Graph, node: Node, pool: Pool) -> bool:
    """Do channels lie next to each other in what is read and in what is written?"""
    specs = (graph.specs[node.uses[0]], node.output.spec)
    return all(_dense_channels(s, len(pool.windows)) for s in specs)


def _dense_channels(spec: TensorSpec, count: int) -> bool:
    channel = len(spec.shape) - count - 1
    return spec.shape[channel] > 1 and spec.stride[channel] == 1 and spec.stride[-1] != 1
