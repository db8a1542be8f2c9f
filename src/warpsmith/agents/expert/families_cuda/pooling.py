"""Maximum and average pooling over one to three dimensions on a GPU, with fused pointwise neighbours.

Declines what the C++ family declines, and channels-last images, adaptive windows and positions of maxima.
"""

from __future__ import annotations

from collections.abc import Collection

from ....records import Graph, Node, Region
from ..emit.text import Writer
from ..emit_cuda.pooling import pool_kernels
from ..emit_cuda.source import Launch
from ..facts import Facts
from ..families.anchored import Anchor, Core, extents
from ..families.base import Technique, tunable
from ..families.pool_windows import read_pool
from ..families.pooling import Pooling, channels_last
from .anchored import CudaAnchored


class CudaPooling(CudaAnchored):
    def __init__(self) -> None:
        super().__init__(Pooling())

    def supports(self, graph: Graph, node: Node) -> bool:
        pool = read_pool(graph, node)
        if pool is None or pool.indices or any(w.adaptive for w in pool.windows):
            return False
        return not channels_last(graph, node, pool)

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        return Core((node.name,), node.output.name, (node.uses[0],))

    def cut(self, graph: Graph, node: Node, taken: Collection[str], fuse: bool) -> Region | None:
        """What makes the image stays outside where each of its elements would be computed too often."""
        source = graph.producer.get(node.uses[0])
        if source is not None and not self.prologues(graph, node):
            taken = {*taken, source.name}
        return super().cut(graph, node, taken, fuse)

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        pool = read_pool(graph, anchor.node) if anchor is not None else None
        if pool is None:
            return []
        overlap = len(pool.windows) > 1 and pool.windows[-2].kernel > pool.windows[-2].stride
        strip = tunable("STRIP", 4, 1, 2, 8) if overlap else tunable("STRIP", 1, 2, 4)
        large = sum(graph.specs[v].nbytes for v in region.outputs) > 32 << 20
        tunables = (strip, tunable("BLOCK", 256, 128, 512), tunable("NT", int(large), int(not large)))
        why = "outputs below each other share a thread, which combines each row of the image once for all of them"
        return [Technique("strips", why, "memory", tunables)]

    def kernels(self, top: Writer, anchor: Anchor, technique: Technique) -> tuple[list[Launch], str, str]:
        pool = read_pool(anchor.graph, anchor.node)
        assert pool is not None  # supports() refuses others
        rank = len(anchor.node.output.spec.shape)
        return pool_kernels(top, pool, rank, extents(anchor, anchor.node.uses[0]))
