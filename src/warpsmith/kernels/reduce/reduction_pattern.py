"""Reductions in a graph, by what they leave of a row: sums and extrema, softmax states, moments, a picked element.

RMS norm is a plain sum of squares and belongs to the reductions. Losses without integer targets (squared, absolute, Huber,
hinge, divergences, cosine and triplet margins) are pointwise work with reductions and belong to the families of those.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...codegen.lowering.axis_relations import BATCH_NORMS, GROUP_NORM, REDUCING, base_name, find_picked_dim
from ...records import Graph, Node


@dataclass(frozen=True)
class ReductionPattern:
    """The nodes that a family grows around. `compound`: moments or softmax states, found together by a single pass."""

    name: str
    ops: frozenset[str]
    compound: bool

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) in self.ops and not node.op.endswith(".other")


@dataclass(frozen=True)
class ReductionFamily:
    """A family around a pattern's nodes, whatever the target; a subclass has `techniques` and `write`."""

    pattern: ReductionPattern

    @property
    def name(self) -> str:
        return self.pattern.name

    def covers(self, graph: Graph, node: Node) -> bool:
        return self.pattern.covers(graph, node)


class LossPattern(ReductionPattern):
    """A gather is a loss's where it takes one element of each row."""

    def covers(self, graph: Graph, node: Node) -> bool:
        name = base_name(node)
        if name != "gather":
            return name == "nll_loss_forward"
        shape = graph.specs[node.args[2]["v"]].shape
        source = graph.specs[node.uses[0]]
        return bool(shape) and shape[find_picked_dim(node, source)] == 1


COMPOUND = frozenset({"_softmax", "_log_softmax", "logsumexp", "native_layer_norm", "var", "std", "var_mean"})
LOSS = LossPattern("loss", frozenset({"nll_loss_forward", "gather"}), compound=True)
SOFTMAX = ReductionPattern("softmax", frozenset({"_softmax", "_log_softmax", "logsumexp"}), compound=True)
NORM = ReductionPattern(
    "norm",
    frozenset({"native_layer_norm", GROUP_NORM, *BATCH_NORMS, "var", "std", "var_mean"}),
    compound=True,
)
REDUCTION = ReductionPattern(
    "reduction", frozenset(REDUCING - {"logsumexp", "var", "std", "var_mean"}), compound=False
)
