"""Local response normalisation: each element divided by a power of the mean square of its channel's neighbours
(Krizhevsky, Sutskever and Hinton 2012).

A window of channels stays in the first-level cache. Every window is summed anew, so that an infinity leaves with its channel.
"""

from __future__ import annotations

from ....codegen.templates import render
from ....codegen.writer import Writer
from ....facts import Facts
from ....records import Graph, Region
from ...anchored import Anchor
from ...cpp_anchored import CppAnchored
from ...family import Technique, stream_tunable, tunable, vector_tunable
from ..lrn_pattern import LrnPattern, window_of


class CppLrn(LrnPattern, CppAnchored):
    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        if self.anchor(graph, region) is None:
            return []
        why = "walks the channels with a window of them in the first-level cache: everything is read and written once"
        tunables = (
            vector_tunable(facts),
            tunable("TILE", 1024, 256, 4096),
            stream_tunable(graph, region, facts),
        )
        return [Technique("window", why, "memory", tunables)]

    def helpers(self, anchor: Anchor, technique: Technique) -> str:
        rank = len(anchor.graph.specs[anchor.value].shape)
        lines = " * ".join(f"out0_shape[{d}]" for d in range(2, rank - 1)) or "1"
        size = window_of(anchor.node)[0]
        return render("lrn/cpu/constants.h", size=size, ahead=(size - 1) // 2, last=rank - 1, lines=lines)

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        rank = len(anchor.graph.specs[anchor.value].shape)
        w.paste(render("lrn/cpu/channel_window.h", index=_index(rank)))
        width = f"(uint64_t)(out0_shape[{rank - 1}] + VEC)"
        size = window_of(anchor.node)[0]
        return f"(uint64_t)THREADS * {size + 1} * ({width} > TILE ? {width} : TILE) * sizeof(float)"


def _index(rank: int) -> str:
    """The index of a line of channel c: the dimensions between channels and the last one from `first + line`."""
    middle = []
    for d in range(2, rank - 1):
        below = " * ".join(f"out0_shape[{k}]" for k in range(d + 1, rank - 1))
        quotient = f"(first + line) / ({below})" if below else "(first + line)"
        middle.append(f"{quotient} % out0_shape[{d}]" if d > 2 else quotient)
    return ", ".join(["task / GROUPS", "c", *middle, "0"])
