"""Convolutions where a direct kernel beats the library: depthwise and grouped ones, and dense ones of few channels,
in one, two or three dimensions, with the pointwise nodes before and after them.

The library's convolutions want blocked layouts and reorder the tensors of everyone else; where there is little
arithmetic per element, that is most of their time. Declined are transposed convolutions, and those with so much
arithmetic per element that the library's kernels are faster (`_pays`; see the family's page).
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from ....records import Graph, Node, Region, Tunable
from ...facts import Facts
from ..axes import base_name
from ..emit.convolution import Window, workspace, write_flat, write_rows
from ..emit.text import Writer
from ..ops import FLOATS
from .anchored import Anchor, AnchoredFamily, Core, extents
from .base import Technique, register_tunable, stream_tunable, tunable, vectors_beside

ROWS, FLAT = "row-blocks", "shifted-runs"
# Multiply-adds that make one output element; beyond them the library's blocked kernels are as fast.
MAX_TAPS = 288
MAX_TAPS_SMALL, SMALL_PIXELS = 576, 784  # on images of so few pixels, where reordering weighs more
MAX_TAPS_HALF = 32  # with half precision, for which the library has instructions of its own


class Convolution(AnchoredFamily):
    name = "convolution"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) == "convolution"

    def supports(self, graph: Graph, node: Node) -> bool:
        if len(node.args) != 9 or node.args[6] or len(node.uses) < 2:
            return False
        specs = [graph.specs[v] for v in node.uses]
        given, weight = graph.specs[node.args[0]["v"]], graph.specs[node.args[1]["v"]]
        if not 3 <= len(given.shape) <= 5 or any(s.dtype not in FLOATS for s in specs):
            return False
        return 0 not in weight.shape and _pays(graph, node)

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        """With zeros put around the input, and with a slice that drops the last columns (causal convolutions)."""
        source, nodes, value = str(node.args[0]["v"]), [node.name], node.output.name
        pad = graph.producer.get(source)
        if pad is not None and pad.name in within and _pads_zeros(graph, pad):
            source, nodes = str(pad.args[0]["v"]), [pad.name, *nodes]
        cut = graph.users[value][0] if len(graph.users[value]) == 1 and value not in graph.returned else None
        if cut is not None and cut.name in within and _drops_columns(graph, cut):
            value, nodes = cut.output.name, [*nodes, cut.name]
        return Core(tuple(nodes), value, (source,))

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        if anchor is None:
            return []
        found = [_flat(anchor, facts)]
        height, width = _plane(anchor)
        if _channels(anchor) == 1 and height >= 4 and graph.specs[_weight(anchor.node)].shape[-2] > 1:
            found.append(_rows(anchor, facts, 1.1 if width >= facts.vector else 0.8))
        return sorted(found, key=lambda t: -t.gain)

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        rows = technique.name == ROWS
        window = window_of(anchor)
        (write_rows if rows else write_flat)(w, window)
        return workspace(window, rows)


def _flat(anchor: Anchor, facts: Facts) -> Technique:
    """Output channels in registers at once: a divisor of a group's, so that no lane is idle; and as many vectors as fit
    beside them.
    """
    group = anchor.graph.specs[_weight(anchor.node)].shape[0] // _groups(anchor.node)
    preferred = (8, 4, 6, 2, 1) if facts.registers >= 32 else (4, 6, 2, 8, 1)
    blocks = [b for b in preferred if group % b == 0 or (b < group and b == 8)]
    best = preferred[0] if group >= 16 else blocks[0]
    unroll = min(3 if best > 4 else 4, vectors_beside(best, facts))
    near = {1: (2,), 2: (1, 3), 3: (2, 4), 4: (2, 6)}
    tunables = (
        register_tunable(facts), stream_tunable(anchor.graph, anchor.region, facts), _band(anchor, facts),
        tunable("BLOCK", best, *blocks[:3]), tunable("UNROLL", unroll, *near[unroll]),
    )  # fmt: skip
    why = "sums shifted runs of packed rows: output channels and vectors in registers, no borders, no gathers"
    return Technique(FLAT, why, "compute", tunables, gain=1.0)


def _rows(anchor: Anchor, facts: Facts, gain: float) -> Technique:
    tall = anchor.graph.specs[_weight(anchor.node)].shape[-2] > 3
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


def window_of(anchor: Anchor) -> Window:
    """Raises Unsupported when no operand tells an extent of the input."""
    node, graph = anchor.node, anchor.graph
    assert anchor.core is not None
    (source,) = anchor.core.reads
    rank = len(graph.specs[source].shape)

    def per_dimension(numbers: list[int]) -> tuple[int, ...]:
        return tuple(numbers) if len(numbers) == rank - 2 else (numbers[0],) * (rank - 2)

    padding, (before, after) = per_dimension(node.args[4]), zeros_around(anchor, rank)
    cut = any(base_name(graph.by_name[n]) == "slice" for n in anchor.core.nodes)
    return Window(
        stride=per_dimension(node.args[3]), before=tuple(p + z for p, z in zip(padding, before, strict=True)),
        after=tuple(p + z for p, z in zip(padding, after, strict=True)), dilation=per_dimension(node.args[5]),
        extents=tuple(extents(anchor, source)), width=f"out0_shape[{rank - 1}]" if cut else "",
        weight=anchor.names[_weight(node)],
        bias=anchor.names[node.args[2]["v"]] if node.args[2] is not None else "",
    )  # fmt: skip


def zeros_around(anchor: Anchor, rank: int) -> tuple[list[int], list[int]]:
    """What a padding node of the core adds before and after each spatial dimension."""
    pads = [anchor.graph.by_name[n] for n in (anchor.core.nodes if anchor.core is not None else ())]
    widths = next((list(p.args[1]) for p in pads if base_name(p) == "constant_pad_nd"), [])
    widths += [0] * (2 * (rank - 2) - len(widths))
    return widths[-2::-2], widths[::-2]


def _pads_zeros(graph: Graph, node: Node) -> bool:
    """Zeros around the spatial dimensions, for one reader."""
    if base_name(node) != "constant_pad_nd" or (len(node.args) > 2 and node.args[2] not in (0, None)):
        return False
    widths, rank, made = node.args[1], len(node.output.spec.shape), node.output.name
    alone = len(graph.users[made]) == 1 and made not in graph.returned
    return alone and not node.kwargs and len(widths) <= 2 * (rank - 2) and all(n >= 0 for n in widths)


def _drops_columns(graph: Graph, node: Node) -> bool:
    """A slice of the last dimension, from its first element, each one."""
    if base_name(node) != "slice" or node.kwargs:
        return False
    arguments = [*node.args[1:], *[0, None, None, 1][len(node.args) - 1 :]]
    dim, start, step = arguments[0], arguments[1], arguments[3]
    shape = graph.specs[node.uses[0]].shape
    return bool(dim % len(shape) == len(shape) - 1 and start in (0, None) and step == 1)


def _weight(node: Node) -> str:
    return str(node.args[1]["v"])


def _groups(node: Node) -> int:
    return int(node.args[8])


def _channels(anchor: Anchor) -> int:
    """Input channels of a group."""
    return anchor.graph.specs[_weight(anchor.node)].shape[1]


def _pays(graph: Graph, node: Node) -> bool:
    """Is the arithmetic of an element so little that the library's reordering counts?"""
    taps = prod(graph.specs[_weight(node)].shape[1:])
    if graph.specs[node.output.name].dtype != "float32":
        return taps <= MAX_TAPS_HALF
    pixels = prod(graph.specs[node.output.name].shape[2:])
    return taps <= (MAX_TAPS_SMALL if pixels <= SMALL_PIXELS else MAX_TAPS)


def _plane(anchor: Anchor) -> tuple[int, int]:
    """Height and width of the output."""
    shape = anchor.graph.specs[anchor.value].shape
    return (shape[-2] if len(shape) > 3 else 1), shape[-1]
