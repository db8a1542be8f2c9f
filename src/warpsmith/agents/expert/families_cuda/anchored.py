"""Families around an operation with loops of its own, in CUDA C++. They cut the regions that the C++ family of the same
name cuts, and take its chains; the loops are theirs.
"""

from __future__ import annotations

from collections.abc import Collection

from ....records import Graph, Node, Region, Unit
from ..emit.chain import epilogue
from ..emit.text import Writer
from ..emit_cuda.chain import write_chain, write_operands
from ..emit_cuda.source import CudaBody, Launch
from ..families.anchored import Anchor, AnchoredFamily, Core
from ..families.base import Technique
from ..program import Unsupported, operand_names
from .base import cuda_unit


class CudaAnchored(AnchoredFamily):
    """`like`: the C++ family. A subclass has `techniques` and `kernels`."""

    def __init__(self, like: AnchoredFamily) -> None:
        self.like, self.name, self.late = like, like.name, like.late

    def covers(self, graph: Graph, node: Node) -> bool:
        return self.like.covers(graph, node)

    def supports(self, graph: Graph, node: Node) -> bool:
        return self.like.supports(graph, node)

    def prologues(self, graph: Graph, node: Node) -> tuple[str, ...]:
        return self.like.prologues(graph, node)

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        return self.like.core(graph, node, within)

    def run_axis(self, graph: Graph, node: Node) -> int:
        return self.like.run_axis(graph, node)

    def kernels(self, top: Writer, anchor: Anchor, technique: Technique) -> tuple[list[Launch], str, str]:
        """Writes constants, which go before the chains, to `top`. Returns the launches, in order, the kernels, and the
        workspace's bytes as a C++ expression of task.h's constants and tunables, or ""."""
        raise NotImplementedError

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        anchor = self.anchor(graph, region)
        if anchor is None:
            raise Unsupported(f"not a region of the family {self.name}")
        top, w, axis = Writer(), Writer(), self.run_axis(graph, anchor.node)
        write_operands(top, list(operand_names(region).values()))
        for i, chain in enumerate(self._before(anchor)):
            write_chain(w, chain, f"prologue{i}", axis)
        write_chain(w, epilogue(graph, region, anchor.value, anchor.after), "epilogue", axis)
        launches, kernels, workspace = self.kernels(top, anchor, technique)
        for line in kernels.splitlines():
            w.line(line)
        return cuda_unit(CudaBody(top, w, tuple(launches), workspace), region, technique, self.name)
