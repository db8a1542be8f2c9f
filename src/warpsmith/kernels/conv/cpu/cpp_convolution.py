"""Convolutions where a direct kernel beats the library: depthwise and grouped ones, and dense ones of few channels,
in one, two or three dimensions, with the pointwise nodes before and after them.

The library's convolutions want blocked layouts and reorder the tensors of everyone else; where there is little
arithmetic per element, that is most of their time. Declined are transposed convolutions, and those with so much
arithmetic per element that the library's kernels are faster (`_pays`; see the family's page).
"""

from __future__ import annotations

from math import prod

from ....codegen.lowering.op_builder import FLOATS
from ....codegen.writer import Writer
from ....facts import Facts
from ....records import Graph, Node, Region, Tunable
from ...anchored import Anchor
from ...cpp_anchored import CppAnchored
from ...family import Technique, register_tunable, stream_tunable, tunable, vectors_beside
from ..convolution_pattern import ConvolutionPattern, weight_of, window_of
from .convolution_loops import workspace, write_flat, write_rows

ROWS, FLAT = "row-blocks", "shifted-runs"
# Multiply-adds that make one output element; beyond them the library's blocked kernels are as fast.
MAX_TAPS = 288
MAX_TAPS_SMALL, SMALL_PIXELS = 576, 784  # on images of so few pixels, where reordering weighs more
MAX_TAPS_HALF = 32  # with half precision, for which the library has instructions of its own


class CppConvolution(ConvolutionPattern, CppAnchored):
    def supports(self, graph: Graph, node: Node) -> bool:
        if len(node.args) != 9 or node.args[6] or len(node.uses) < 2:
            return False
        specs = [graph.specs[v] for v in node.uses]
        source, weight = graph.specs[node.args[0]["v"]], graph.specs[node.args[1]["v"]]
        if not 3 <= len(source.shape) <= 5 or any(s.dtype not in FLOATS for s in specs):
            return False
        return 0 not in weight.shape and _pays(graph, node)

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        if anchor is None:
            return []
        techniques = [_flat(anchor, facts)]
        height, width = _plane(anchor)
        if _channels(anchor) == 1 and height >= 4 and graph.specs[weight_of(anchor.node)].shape[-2] > 1:
            techniques.append(_rows(anchor, facts, 1.1 if width >= facts.vector else 0.8))
        return sorted(techniques, key=lambda t: -t.gain)

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        rows = technique.name == ROWS
        window = window_of(anchor)
        (write_rows if rows else write_flat)(w, window)
        return workspace(window, rows)


def _flat(anchor: Anchor, facts: Facts) -> Technique:
    """Output channels in registers at once: a divisor of a group's, so that no lane is idle; and as many vectors as fit
    beside them.
    """
    group = anchor.graph.specs[weight_of(anchor.node)].shape[0] // _groups(anchor.node)
    preferred = (8, 4, 6, 2, 1) if facts.registers >= 32 else (4, 6, 2, 8, 1)
    blocks = [b for b in preferred if group % b == 0 or (b < group and b == 8)]
    best = preferred[0] if group >= 16 else blocks[0]
    unroll = min(3 if best > 4 else 4, vectors_beside(best, facts))
    alternatives = {1: (2,), 2: (1, 3), 3: (2, 4), 4: (2, 6)}
    tunables = (
        register_tunable(facts), stream_tunable(anchor.graph, anchor.region, facts), _band(anchor, facts),
        tunable("BLOCK", best, *blocks[:3]), tunable("UNROLL", unroll, *alternatives[unroll]),
    )  # fmt: skip
    why = "sums shifted runs of packed rows: output channels and vectors in registers, no borders, no gathers"
    return Technique(FLAT, why, "compute", tunables, gain=1.0)


def _rows(anchor: Anchor, facts: Facts, gain: float) -> Technique:
    tall = anchor.graph.specs[weight_of(anchor.node)].shape[-2] > 3
    tunables = (
        register_tunable(facts), stream_tunable(anchor.graph, anchor.region, facts), _band(anchor, facts),
        tunable("BLOCK", 8 if tall and vectors_beside(8, facts) > 1 else 4, 2, 4, 6), tunable("UNROLL", 2, 1, 3),
    )  # fmt: skip
    why = "several output rows of one channel in registers: every loaded vector serves all of them"
    return Technique(ROWS, why, "memory", tunables, gain=gain)


def _band(anchor: Anchor, facts: Facts) -> Tunable:
    """Output rows packed at once: their input stays in the first-level cache, or for many channels in the second."""
    width = max(1, _plane(anchor)[1]) * max(anchor.node.args[3])
    channels = _channels(anchor)
    room = (facts.l1_bytes // 2 if channels == 1 else facts.l2_bytes // 4) // 4
    rows = max(4, room // (width * channels * max(anchor.node.args[3])))
    best = max(b for b in (4, 8, 16, 32, 64) if b <= max(4, rows))
    return tunable("BAND", best, *(b for b in (best // 2, best * 2) if b >= 2))


def _groups(node: Node) -> int:
    return int(node.args[8])


def _channels(anchor: Anchor) -> int:
    """Input channels of a group."""
    return anchor.graph.specs[weight_of(anchor.node)].shape[1]


def _pays(graph: Graph, node: Node) -> bool:
    """Tell whether an element has so little arithmetic that the library's reordering counts."""
    taps = prod(graph.specs[weight_of(node)].shape[1:])
    if graph.specs[node.output.name].dtype != "float32":
        return taps <= MAX_TAPS_HALF
    pixels = prod(graph.specs[node.output.name].shape[2:])
    return taps <= (MAX_TAPS_SMALL if pixels <= SMALL_PIXELS else MAX_TAPS)


def _plane(anchor: Anchor) -> tuple[int, int]:
    """Height and width of the output."""
    shape = anchor.graph.specs[anchor.value].shape
    return (shape[-2] if len(shape) > 3 else 1), shape[-1]
