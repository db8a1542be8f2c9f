"""Direct convolutions with what makes less of their results fused into them, as `convolution_tail` has it for tensor cores.

In: a graph and a convolution that `direct_convolution` writes, followed by what `epilogue_pattern` knows. Out: its technique with
weights in shared memory, with parts of whole windows that their threads finish; neighbours may share a place's channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....codegen.cuda.cuda_chain import write_chain, write_operands
from ....codegen.cuda.cuda_source import CudaBody
from ....codegen.program import Unsupported, operand_names
from ....codegen.writer import Writer
from ....facts import Facts
from ....records import Graph, Node, Region, Tunable, Unit
from ...cuda_unit import cuda_unit
from ...family import Technique
from ..convolution_kinds import ConvolutionKind, groups_text, read_kind
from ..convolution_pattern import window_of as loops_of
from ..epilogue_pattern import Follows, window_of
from ..schedules.direct_convolution_schedule import SUMS, DirectConvolutionSchedule, phases_of
from .cuda_direct_convolution import SMEM_TILED, DirectConvolution, pack_of
from .direct_convolution import Loops
from .direct_convolution_epilogue import emit_direct_epilogue_kernels
from .epilogue_family import FusedEpilogueFamily, match_epilogue, result_sizes, write_chains


class DirectConvolutionEpilogue(FusedEpilogueFamily, DirectConvolution):
    name = "direct_tail"

    def can_fuse(
        self, graph: Graph, region: Region, node: Node, kind: ConvolutionKind, consumers: Follows
    ) -> bool:
        return next(_parts(graph, node, kind, consumers), None) is not None

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        kind = read_kind(graph, anchor.node) if anchor is not None else None
        consumers = match_epilogue(graph, region, anchor.node) if anchor is not None else None
        if anchor is None or kind is None or consumers is None:
            return []
        (technique,) = (t for t in super().techniques(graph, region, facts) if t.name == SMEM_TILED)
        tunables = _tunables(list(_parts(graph, anchor.node, kind, consumers)))
        storing = tuple(t for t in technique.tunables if t.name == "NT")
        why = f"{technique.why}; what follows takes them from registers"
        return [replace(technique, why=why, tunables=(*tunables, *storing))]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        anchor = self.anchor(graph, region)
        kind = read_kind(graph, anchor.node) if anchor is not None else None
        if anchor is None or kind is None:
            raise Unsupported(f"not a region of the family {self.name}")
        top, w = Writer(), Writer()
        write_operands(top, list(operand_names(region).values()))
        for i, chain in enumerate(self.chains_before(anchor)):
            write_chain(w, chain, f"prologue{i}", -1)
        epilogue = write_chains(w, anchor)
        window = loops_of(anchor)
        groups = groups_text(kind, window.extents[1], window.weight)
        loops = Loops(window, kind.transposed, groups, pack_of(anchor), True, result_sizes(anchor, kind))
        launches, kernels, workspace = emit_direct_epilogue_kernels(top, loops, epilogue)
        for line in kernels.splitlines():
            w.line(line)
        return cuda_unit(CudaBody(top, w, tuple(launches), workspace), region, technique, self.name)


def _parts(
    graph: Graph, node: Node, kind: ConvolutionKind, consumers: Follows
) -> Iterator[DirectConvolutionSchedule]:
    """Schedules whose parts are whole windows and leave room in registers, the best first."""
    _, high, wide = window_of(consumers)
    down, across = phases_of(kind)
    if consumers.columns and kind.groups > 1:
        return
    width = graph.specs[node.output.name].shape[-1]
    # Threads that share a place compute its own values anew and exchange states: as few of them as registers allow.
    order = (4, 8, 2, 16, 1)
    if consumers.columns:
        order = (16, 8, 4, 2, 1) if consumers.pool is None else (8, 16, 4, 2, 1)
    listed = [c for c in order if c < 2 * kind.made and (not consumers.columns or 32 * c >= kind.made)]
    flat, register_share = len(kind.kernel) == 1, 1 + (1 / (high * wide) if consumers.pool is not None else 0)
    for channels in listed:
        for strip in (8, 4, 2, 1):
            for vec in (1, 2, 4):
                rows, columns = strip * down, vec * across
                schedule = DirectConvolutionSchedule(strip, channels, vec)
                whole_windows = rows % high == 0 and columns % wide == 0 and (not flat or strip == 1)
                dense = kind.transposed or flat or width % vec == 0
                if whole_windows and dense and schedule.sums(kind) * register_share <= 1.5 * SUMS:
                    yield schedule


def _tunables(parts: list[DirectConvolutionSchedule]) -> tuple[Tunable, ...]:
    """Values of each that go with the best of the others."""
    best, first = parts[0], parts[0].values()

    def beside(name: str) -> list[int]:
        values = (p.values() for p in parts)
        return [v[name] for v in values if all(v[n] == first[n] for n in first if n != name)]

    alternatives = {field: beside(name) for field, name in best.names().items()}
    return best.tunables(**alternatives | {"block": [256]})
