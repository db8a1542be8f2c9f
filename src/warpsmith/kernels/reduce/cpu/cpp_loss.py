"""Losses with integer targets: cross-entropy and negative log-likelihood, and other sums over rows that take one
element of each row at an index (gather).

Losses without targets of that kind (squared, absolute, Huber, hinge, divergences, cosine and triplet margins) are
pointwise work with reductions over one or two levels and belong to the families of those. Declines a gather of
several elements of a row, and rows whose picked element is an integer or a mask.
"""

from __future__ import annotations

from ....codegen.lowering.axis_relations import base_name
from ....codegen.lowering.lower import try_lower
from ....codegen.program import Program
from ....facts import Facts
from ....records import Graph, Region
from ...family import Shape, Technique, grain_tunable, tunable, vector_tunable
from ..reduction_pattern import COMPOUND
from .cpp_reduction import CppReduction, reduction_techniques


class CppLoss(CppReduction):
    """The techniques of softmax rows, since the pick itself costs one element a row; without any pass over the
    rows (log-probabilities are given), the picks alone."""

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        program = try_lower(graph, region)
        if program is None:
            return []
        if not program.reductions:
            return [_direct(program, facts)] if program.mode != "pointwise" else []
        compound = any(base_name(graph.by_name[n]) in COMPOUND for n in region.nodes)
        return reduction_techniques(graph, region, facts, program, compound)


def _direct(program: Program, facts: Facts) -> Technique:
    """UNROLL and SWEEP are constants here: the helpers of the emitters want them, but no loop is unrolled."""
    why = "reads one element of each row, at its target; the threads' sums are added in a fixed order"
    loops = (
        [tunable("UNROLL", 1)] if program.mode == "rows" else [tunable("BLOCK", 4, 16), tunable("SWEEP", 1)]
    )
    tunables = (vector_tunable(facts), grain_tunable(), *loops, tunable("CHUNK", 1024))
    return Technique("direct", why, "latency", tunables, Shape())
