"""Convolutions and transposed convolutions with enough arithmetic per element for tensor cores, with the pointwise nodes
after them, in one, two or three dimensions and any stride, padding, dilation and number of groups.

In: float32 images whose rows are dense; others stay the library's, and convolutions of little arithmetic are another
family's (`convolution_kinds`). Products are TF32, as the library's are by default.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ....codegen.cuda.cuda_source import Launch
from ....codegen.writer import Writer
from ....facts import Facts
from ....records import Graph, Node, Region
from ...anchored import Anchor, Core
from ...costs import region_bytes
from ...cuda_anchored import CudaAnchored
from ...cuda_unit import stream
from ...family import Technique
from ..convolution_kinds import NO_LIMITS, ConvolutionKind, Limits, groups_text, is_direct, read_kind
from ..convolution_pattern import ConvolutionPattern, zeros_around
from ..schedules.implicit_gemm_fp16_schedule import EXACT, build_fp16_technique
from ..schedules.implicit_gemm_tf32_schedule import build_tf32_technique, choose_tf32_schedule
from ..schedules.implicit_gemm_warp_specialized_schedule import (
    EACH,
    FullChannels,
    build_warp_specialized_technique,
)
from .implicit_gemm_fp16 import emit_fp16_kernels
from .implicit_gemm_tf32 import Convolved, emit_tf32_kernels
from .implicit_gemm_warp_specialized import emit_warp_specialized_kernels

FEW_CHANNELS = 8  # of a group, up to which libraries tend to compute in float32
WGMMA_ARCH = "sm_90a"  # the instructions are of this architecture alone


class CudaConvolution(ConvolutionPattern, CudaAnchored):
    def supports(self, graph: Graph, node: Node) -> bool:
        kind = read_kind(graph, node)
        if kind is None or is_direct(kind) or any(graph.specs[v].dtype != "float32" for v in node.uses):
            return False
        image = graph.specs[str(node.args[0]["v"])]
        dense = image.stride[-1] == 1 or image.shape[-1] == 1
        return (
            dense
            and 0 not in (*image.shape, *node.output.spec.shape)
            and choose_tf32_schedule(kind, node.output.spec.shape) is not None
        )

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        """Name the core: with zeros put around the input, and with a slice that drops the last columns."""
        if node.args[6]:
            return Core((node.name,), node.output.name, ())
        core = super().core(graph, node, within)
        return Core(core.nodes, core.value, ())

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        kind = read_kind(graph, anchor.node) if anchor is not None else None
        if anchor is None or kind is None:
            return []
        shape, limits = anchor.node.output.spec.shape, self.limits(graph, region, anchor.node, kind)
        hardware, moved = facts.hardware, region_bytes(graph, region)
        storing = stream(graph, region, hardware)
        offered = [build_tf32_technique(hardware, kind, shape, moved, anchor.node.flops, storing, limits)]
        if facts.arch in ("", WGMMA_ARCH):
            offered += [
                build_fp16_technique(hardware, kind, shape, terms, moved, storing, limits) for terms in (1, 3)
            ]
            if (full_channels := self.full_channel_constraint(graph, region, anchor.node, kind)) is not None:
                image_shape = graph.specs[anchor.node.uses[0]].shape
                offered.append(
                    build_warp_specialized_technique(
                        hardware, kind, image_shape, shape, moved, storing, full_channels
                    )
                )
        return _rank_techniques(kind, [t for t in offered if t is not None])

    def limits(self, graph: Graph, region: Region, node: Node, kind: ConvolutionKind) -> Limits:
        """Return what an epilogue requires of tiles."""
        return NO_LIMITS

    def full_channel_constraint(
        self, graph: Graph, region: Region, node: Node, kind: ConvolutionKind
    ) -> FullChannels | None:
        """Return what an epilogue requires of the warp-specialised kernel's channels; None where that cannot fuse it."""
        return EACH

    def kernels(self, top: Writer, anchor: Anchor, technique: Technique) -> tuple[list[Launch], str, str]:
        return self.emit_kernels(top, self.read_convolution(anchor), technique)

    def emit_kernels(
        self, top: Writer, shape: Convolved, technique: Technique, epilogue: str = ""
    ) -> tuple[list[Launch], str, str]:
        """`epilogue`: CUDA C++ that takes a tile of results, see `implicit_gemm_tf32.store_tile`; "": stores them."""
        if technique.name == "implicit-gemm-tf32":
            return emit_tf32_kernels(top, shape, epilogue)
        if technique.name == "implicit-gemm-warp-specialized":
            return emit_warp_specialized_kernels(top, shape)
        return emit_fp16_kernels(top, shape, 3 if technique.name == EXACT else 1, epilogue)

    def read_convolution(self, anchor: Anchor) -> Convolved:
        kind, node = read_kind(anchor.graph, anchor.node), anchor.node
        assert kind is not None  # supports() refuses others
        assert anchor.core is not None
        before = kind.padding
        if not kind.transposed:
            zeros, _ = zeros_around(anchor, len(kind.kernel) + 2)
            before = tuple(p + z for p, z in zip(before, zeros, strict=True))
        source = anchor.graph.by_name[anchor.core.nodes[0]].args[0]["v"]
        x, k = anchor.names[source], anchor.names[node.args[1]["v"]]
        bias = anchor.names[node.args[2]["v"]] if node.args[2] is not None else ""
        return Convolved(
            kind.stride, before, kind.dilation, kind.transposed, groups_text(kind, f"{x}_shape[1]", k), x, k, bias,
        )  # fmt: skip


def _rank_techniques(kind: ConvolutionKind, techniques: list[Technique]) -> list[Technique]:
    """Most promising first. Where the library may well compute in float32, what is less exact comes last."""
    exact = next((t.us for t in techniques if t.name == EXACT), None)
    if exact is not None and kind.channels <= FEW_CHANNELS:
        techniques = [
            t if t.name == EXACT else replace(t, us=max(t.us or 0.0, 1.1 * (exact or 0.0)))
            for t in techniques
        ]
    return sorted(techniques, key=lambda t: t.us or 0.0)
