"""Maximum and average pooling over one to three dimensions, with fused pointwise neighbours.

In: `max_pool*`, `avg_pool*` and adaptive nodes of float images, (N, C, ...) or (C, ...), contiguous, channels-last or
strided. Out: units that combine rows into lines (`pool_rows`) or walk pixels (`pool_channels`). Declines: integers,
positions of maxima (`return_indices`) under channels-last, adaptive windows or dilated padding.
"""

from __future__ import annotations

from ....codegen.templates import render
from ....codegen.writer import SOME, Writer
from ....facts import Facts
from ....records import Graph, Region
from ...anchored import Anchor
from ...cpp_anchored import CppAnchored
from ...family import Technique, stream_tunable, tunable, vector_tunable
from ..pool_pattern import PoolingPattern, channels_last
from ..pool_windows import read_pool
from .pool_channels import Channels
from .pool_rows import Rows


class CppPooling(PoolingPattern, CppAnchored):
    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        pool = read_pool(graph, anchor.node) if anchor is not None else None
        if anchor is None or pool is None:
            return []
        common = (vector_tunable(facts), tunable("UNROLL", 2, 1, 4), stream_tunable(graph, region, facts))
        if channels_last(graph, anchor.node, pool):
            why = "pixel by pixel, vectors of channels; the taps inside the image are found once a pixel"
            return [Technique("channels", why, "memory", common)]
        work = (
            "value and position of the maximum" if pool.indices else "rows of a window into one padded line"
        )
        why = f"{work}, then the line's columns: no borders in the inner loops, neighbouring loads"
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
