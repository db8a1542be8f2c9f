"""Convolutions with little arithmetic per element on a GPU: depthwise ones, those of small groups or few channels, plain and
transposed, in one to three dimensions, with the pointwise nodes after them.

In: a graph and a region around such a convolution (`is_direct`). Out: techniques, which differ in where weights wait: read
through the caches, for a thread of any channel, or in shared memory, for a block that makes the same output channels.
Declines images that are not dense along the last dimension, and kernels too long for a thread's registers. What makes
the image stays outside: each of its elements would be computed for every tap.
"""

from __future__ import annotations

from collections.abc import Collection
from math import gcd, prod

from ....codegen.cuda.cuda_source import Launch
from ....codegen.writer import Writer
from ....facts import Facts
from ....hardware import Hardware
from ....records import Graph, Node, Region
from ...anchored import Anchor, Core
from ...costs import region_bytes
from ...cuda_anchored import CudaAnchored
from ...cuda_unit import in_load, power, stream
from ...family import Bottleneck, Technique
from ..convolution_kinds import MOST_IN_A_ROW, MOST_PHASES, ConvolutionKind, groups_text, is_direct, read_kind
from ..convolution_pattern import ConvolutionPattern, window_of
from ..schedules.direct_convolution_schedule import (
    SUMS,
    DirectConvolutionSchedule,
    arithmetic_us,
    memory_us,
    phases_of,
)
from .direct_convolution import Loops, emit_direct_kernels

REGISTER_TILED, SMEM_TILED = "register-tiled", "smem-tiled"
MAX_REACH, MAX_TAPS = 96, 1024


class DirectConvolution(ConvolutionPattern, CudaAnchored):
    name = "direct_convolution"

    def supports(self, graph: Graph, node: Node) -> bool:
        kind = read_kind(graph, node)
        if kind is None or not is_direct(kind):
            return False
        ends = (str(node.args[0]["v"]), node.output.name)
        dense = all(_dense(graph, v) and graph.specs[v].numel for v in ends)
        reach = (kind.kernel[-1] - 1) * kind.dilation[-1]
        fits = reach <= MAX_REACH and kind.kernel[-1] <= 32 and prod(kind.kernel) <= MAX_TAPS
        return dense and fits and prod(phases_of(kind)) <= MOST_PHASES and kind.stride[-1] <= MOST_IN_A_ROW

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        """Zeros around a transposed convolution's input are not its padding."""
        if node.args[6]:
            return Core((node.name,), node.output.name, (str(node.args[0]["v"]),))
        return super().core(graph, node, within)

    def cut(self, graph: Graph, node: Node, excluded: Collection[str], fuse: bool) -> Region | None:
        if self.supports(graph, node):
            core = self.core(graph, node, {n.name for n in graph.nodes} - set(excluded))
            source = graph.producer.get(core.reads[0])
            excluded = {*excluded, *([source.name] if source is not None else [])}
        return super().cut(graph, node, excluded, fuse)

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        kind = read_kind(graph, anchor.node) if anchor is not None else None
        if anchor is None or kind is None:
            return []
        lone = kind.channels == 1 and kind.made <= 2
        offered = [_register_tiled(facts.hardware, anchor, kind), _smem_tiled(facts.hardware, anchor, kind)]
        return offered if lone else offered[::-1]

    def kernels(self, top: Writer, anchor: Anchor, technique: Technique) -> tuple[list[Launch], str, str]:
        kind = read_kind(anchor.graph, anchor.node)
        assert kind is not None  # supports() refuses others
        window, pack = window_of(anchor), pack_of(anchor)
        groups = groups_text(kind, window.extents[1], window.weight)
        return emit_direct_kernels(
            top, Loops(window, kind.transposed, groups, pack, technique.name == SMEM_TILED)
        )


def _register_tiled(hardware: Hardware, anchor: Anchor, kind: ConvolutionKind) -> Technique:
    why = "output rows below each other share a thread: a row of the image, once read, serves all of them"
    channels = min(power(kind.made), 4)
    slower = 1.0 if kind.channels == 1 and kind.made <= 2 else 1.3  # each weight is read by every thread
    return _technique(hardware, REGISTER_TILED, why, anchor, kind, channels, SUMS // 2, slower)


def _smem_tiled(hardware: Hardware, anchor: Anchor, kind: ConvolutionKind) -> Technique:
    why = "a thread makes several channels and pixels at once, with weights out of shared memory"
    channels = min(power(kind.made), 4 if kind.transposed else 8)
    slower = 1.1 if kind.channels == 1 and kind.made <= 2 else 1.0
    return _technique(hardware, SMEM_TILED, why, anchor, kind, channels, SUMS, slower)


def _technique(
    hardware: Hardware, name: str, why: str, anchor: Anchor, kind: ConvolutionKind, channels: int, sums: int, slower: float
) -> Technique:  # fmt: skip
    graph, region = anchor.graph, anchor.region
    wide, used = _columns(anchor, kind, 4 if name == SMEM_TILED else pack_of(anchor))
    room = sums // (channels * used * prod(phases_of(kind)))
    strip = next((s for s in (8, 4, 2) if s <= room), 1) if len(kind.kernel) > 1 else 1
    tunables = DirectConvolutionSchedule(strip, channels, wide).tunables(
        strip=[s for s in (strip // 2, 2 * strip) if s >= 1 and len(kind.kernel) > 1],
        channels=[c for c in (channels // 2, 2 * channels) if 1 <= c < 2 * kind.made],
        vec=[v for v in (wide // 2, 2 * wide) if v >= 1],
        block=(256,),
    )
    moving = memory_us(hardware, region_bytes(graph, region))
    working = arithmetic_us(hardware, 2 * kind.terms * prod(graph.specs[anchor.value].shape))
    bottleneck: Bottleneck = "memory" if moving > working else "compute"
    tunables = (*tunables, stream(graph, region, hardware))
    return Technique(name, why, bottleneck, tunables, us=slower * max(moving, working))


def _columns(anchor: Anchor, kind: ConvolutionKind, most: int) -> tuple[int, int]:
    """Positions side by side, and how many of them the kernel takes: those that let packs be stored whole."""
    width = anchor.graph.specs[anchor.value].shape[-1]
    full_channels = gcd(width, most)
    if kind.transposed:
        wide = max(1, full_channels // (1 << (kind.stride[-1].bit_length() - 1)))
        return wide, wide
    return most, full_channels


def pack_of(anchor: Anchor) -> int:
    """Elements of the image in 16 bytes."""
    return in_load(anchor.graph.specs[str(anchor.node.args[0]["v"])].dtype)


def _dense(graph: Graph, value: str) -> bool:
    spec = graph.specs[value]
    return spec.shape[-1] == 1 or spec.stride[-1] == 1
