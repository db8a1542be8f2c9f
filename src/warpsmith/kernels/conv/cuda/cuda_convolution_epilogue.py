"""Convolutions on tensor cores with what makes less of their results fused into them: pooling over windows that lie side by
side, reductions over channels, sums and means over all places.

In: a graph and a convolution that `convolution` writes, followed by what `epilogue_pattern` knows. Out: techniques of tiles that
hold whole windows, and all channels where those are reduced; units whose blocks finish their tiles in shared memory.
"""

from __future__ import annotations

from dataclasses import replace

from ....codegen.cuda.cuda_chain import write_operands
from ....codegen.cuda.cuda_source import CudaBody
from ....codegen.program import Unsupported, operand_names
from ....codegen.writer import Writer
from ....records import Graph, Node, Region, Unit
from ...anchored import Anchor
from ...cuda_unit import cuda_unit
from ...family import Technique
from ..convolution_kinds import NO_LIMITS, ConvolutionKind, Limits, read_kind, side_by_side
from ..epilogue_pattern import Follows, window_of
from ..schedules.implicit_gemm_tf32_schedule import WIDTHS, choose_tf32_schedule
from ..schedules.implicit_gemm_warp_specialized_schedule import FullChannels
from .convolution_epilogue import constants, finish, finish_launch, render_epilogue, sums_bytes
from .cuda_convolution import CudaConvolution
from .epilogue_family import FusedEpilogueFamily, match_epilogue, result_sizes, write_chains
from .implicit_gemm_tf32 import Convolved
from .implicit_gemm_warp_specialized import columns, emit_warp_specialized_kernels


class ConvolutionEpilogue(FusedEpilogueFamily, CudaConvolution):
    name = "convolution_tail"

    def can_fuse(
        self, graph: Graph, region: Region, node: Node, kind: ConvolutionKind, consumers: Follows
    ) -> bool:
        """Rows of other phases are other blocks'."""
        phases = (1, 1, 1, *(kind.stride if kind.transposed else (1,) * len(kind.stride)))[-3:]
        together = zip(window_of(consumers), phases, (1, 1, side_by_side(kind)), strict=True)
        whole_windows = all(n == 1 or p == q for n, p, q in together)
        channels = not consumers.columns or (kind.groups == 1 and kind.made <= max(WIDTHS))
        return (
            whole_windows
            and channels
            and choose_tf32_schedule(kind, node.output.spec.shape, _limits(kind, consumers)) is not None
        )

    def limits(self, graph: Graph, region: Region, node: Node, kind: ConvolutionKind) -> Limits:
        consumers = match_epilogue(graph, region, node)
        return NO_LIMITS if consumers is None else _limits(kind, consumers)

    def full_channel_constraint(
        self, graph: Graph, region: Region, node: Node, kind: ConvolutionKind
    ) -> FullChannels | None:
        consumers = match_epilogue(graph, region, node)
        if consumers is None or not consumers.columns or consumers.pool is not None or kind.groups > 1:
            return None
        # Softmax: its maximum, its sum, its results.
        softmax = any(graph.specs[v].shape[1] == kind.made for v in region.outputs)
        return FullChannels(kind.made, 2 if softmax else 0)

    def read_convolution(self, anchor: Anchor) -> Convolved:
        kind = read_kind(anchor.graph, anchor.node)
        assert kind is not None  # supports() refuses others
        return replace(super().read_convolution(anchor), made=result_sizes(anchor, kind))

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        anchor = self.anchor(graph, region)
        if anchor is None:
            raise Unsupported(f"not a region of the family {self.name}")
        top, w = Writer(), Writer()
        write_operands(top, list(operand_names(region).values()))
        epilogue = write_chains(w, anchor)
        shape = self.read_convolution(anchor)
        if technique.name == "implicit-gemm-warp-specialized" and epilogue.columns is not None:
            reduced = columns(epilogue.columns, epilogue.before_pool)
            launches, kernels, workspace = emit_warp_specialized_kernels(
                top, shape, reduced, full_channels=True
            )
        else:
            launches, kernels, workspace = self.emit_kernels(top, shape, technique, render_epilogue(epilogue))
            for line in constants(epilogue).splitlines():
                top.line(line)
            kernels += "\n" + finish(epilogue)
            if epilogue.summed:
                launches = [*launches, finish_launch(epilogue, "(const char*)workspace + SPARE_AT")]
                workspace = f"{workspace} + {sums_bytes(shape, technique.name == 'implicit-gemm-tf32')}"
        for line in kernels.splitlines():
            w.line(line)
        return cuda_unit(CudaBody(top, w, tuple(launches), workspace), region, technique, self.name)


def _limits(kind: ConvolutionKind, consumers: Follows) -> Limits:
    """Tiles of whole windows, and of all channels where those are reduced."""
    return Limits(window_of(consumers), kind.made if consumers.columns else 0)
