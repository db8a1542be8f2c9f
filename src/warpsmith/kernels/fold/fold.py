"""Batch norm in evaluation mode, and scales and shifts by channel, folded into a convolution or linear layer that stays
the library's.

Its unit has no code: it is the same in fewer ATen operations (see `folding`, `rewriting`), which find new weights and a new bias in
every call and need no pass over the activations. The technique is named "algebraic…": fewer operations than the
reference does, so a win is labelled *algorithmic*. Whether the folded weights are accurate enough is for the judge to
say; infinities can differ, where a scale is zero or a product overflows.
"""

from __future__ import annotations

from ...codegen.program import Unsupported
from ...codegen.rewrites.folding import match_folded_region, match_folding
from ...codegen.rewrites.rewriting import build_folded_nodes, region_graph
from ...facts import Facts
from ...records import Graph, Node, Region, Unit
from ..costs import predict_folded_us
from ..family import Technique


class Fold:
    name = "fold"

    def covers(self, graph: Graph, node: Node) -> bool:
        return match_folding(graph, node) is not None

    def cut(self, graph: Graph, node: Node) -> list[str]:
        """The nodes of the region that begins at a node that it covers."""
        folding = match_folding(graph, node)
        return [n.name for n in folding.nodes] if folding is not None else []

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        folding = match_folded_region(graph, region)
        if folding is None:
            return []
        why = "scales and shifts of a linear map go into its weights and bias: no pass over its outputs for them"
        return [Technique("algebraic-fold", why, "memory", (), us=predict_folded_us(graph, folding, facts))]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        folding = match_folded_region(graph, region)
        if folding is None:
            raise Unsupported("nothing to fold")
        return Unit(
            region=region, language="aten", source="", family=self.name, technique=technique.name,
            rewrite=region_graph(graph, region, build_folded_nodes(graph, folding)),
        )  # fmt: skip


FOLD = Fold()
