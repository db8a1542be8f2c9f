"""Losses with integer targets: cross-entropy and negative log-likelihood, and other sums over rows that take one
element of each row at an index (gather).

Losses without targets of that kind (squared, absolute, Huber, hinge, divergences, cosine and triplet margins) are
pointwise work with reductions over one or two levels and belong to the families of those. Declines a gather of
several elements of a row, and rows whose picked element is an integer or a mask.
"""

from __future__ import annotations

from ....records import Graph, Node, Region
from ...facts import Facts
from ..axes import base_name
from ..emit.source import Shape
from ..lower import lower
from ..program import Program, Unsupported
from ..relations import picked_dim
from .base import Technique, grain_tunable, tunable, vector_tunable
from .loops import ReducingFamily, reduction_techniques


class Loss(ReducingFamily):
    """The techniques of softmax rows, since the pick itself costs one element a row; without any pass over the
    rows (log-probabilities are given), the picks alone."""

    def covers(self, graph: Graph, node: Node) -> bool:
        name = base_name(node)
        if name != "gather":
            return name == "nll_loss_forward"
        shape = graph.specs[node.args[2]["v"]].shape
        source = graph.specs[node.uses[0]]
        return bool(shape) and shape[picked_dim(node, source)] == 1

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        try:
            program = lower(graph, region)
        except Unsupported:
            return []
        if not program.reductions:
            return [_direct(program, facts)] if program.mode != "pointwise" else []
        compound = any(base_name(graph.by_name[n]) in COMPOUND for n in region.nodes)
        return reduction_techniques(graph, region, facts, program, compound)


COMPOUND = frozenset({"_softmax", "_log_softmax", "logsumexp", "native_layer_norm", "var", "std", "var_mean"})


def _direct(program: Program, facts: Facts) -> Technique:
    """UNROLL and SWEEP are constants here: the helpers of the emitters want them, but no loop is unrolled."""
    why = "reads one element of each row, at its target; the threads' sums are added in a fixed order"
    loops = (
        [tunable("UNROLL", 1)] if program.mode == "rows" else [tunable("BLOCK", 4, 16), tunable("SWEEP", 1)]
    )
    found = (vector_tunable(facts), grain_tunable(), *loops, tunable("CHUNK", 1024))
    return Technique("direct", why, "latency", found, Shape())


LOSS = Loss("loss", frozenset({"nll_loss_forward", "gather"}), compound=True)
