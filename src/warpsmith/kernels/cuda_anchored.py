"""The CUDA kernels of an anchored family: chains before and after as device functions, the family's kernels between."""

from __future__ import annotations

from ..codegen.cuda.cuda_chain import write_chain, write_operands
from ..codegen.cuda.cuda_source import CudaBody, Launch
from ..codegen.fusion.op_chain import epilogue
from ..codegen.program import Unsupported, operand_names
from ..codegen.writer import Writer
from ..records import Graph, Region, Unit
from ..targets.tensor_maps import TensorMap
from .anchored import Anchor, AnchoredFamily
from .cuda_unit import cuda_unit
from .family import Technique


class CudaAnchored(AnchoredFamily):
    """A subclass has `techniques` and `kernels`."""

    def kernels(self, top: Writer, anchor: Anchor, technique: Technique) -> tuple[list[Launch], str, str]:
        """Writes constants, which go before the chains, to `top`. Returns the launches, in order, the kernels, and the
        workspace's bytes as a C++ expression of task.h's constants and tunables, or ""."""
        raise NotImplementedError

    def write_chains_before(self, w: Writer, anchor: Anchor, axis: int) -> None:
        for i, chain in enumerate(self.chains_before(anchor)):
            write_chain(w, chain, f"prologue{i}", axis)

    def tensor_maps(
        self, anchor: Anchor, technique: Technique
    ) -> tuple[tuple[TensorMap, ...], tuple[str, ...]]:
        """Return the tensor maps of the kernels, and what they require of shapes."""
        return (), ()

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        anchor = self.anchor(graph, region)
        if anchor is None:
            raise Unsupported(f"not a region of the family {self.name}")
        top, w, axis = Writer(), Writer(), self.run_axis(graph, anchor.node)
        write_operands(top, list(operand_names(region).values()))
        self.write_chains_before(w, anchor, axis)
        write_chain(w, epilogue(graph, region, anchor.value, anchor.after, anchor.second), "epilogue", axis)
        launches, kernels, workspace = self.kernels(top, anchor, technique)
        for line in kernels.splitlines():
            w.line(line)
        maps, requires = self.tensor_maps(anchor, technique)
        body = CudaBody(top, w, tuple(launches), workspace, maps=maps, requires=requires)
        return cuda_unit(body, region, technique, self.name)
