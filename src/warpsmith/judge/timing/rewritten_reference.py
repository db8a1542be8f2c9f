"""The rewritten reference: the task's graph with the regions of algebraic units in the ATen operations that they state.

In: a task's graph and a candidate's units. Out: a graph that the judge times as one more baseline, so that fewer
operations are not mistaken for a faster kernel. A rewrite is the word of whoever wrote the unit. Its form is checked
(`runtime.rewrites`) and its values against the oracle, and all it can do is add a baseline: one that is slow changes
no claim, one that is wrong is dropped with a note. A rewrite of a unit whose technique is not algebraic is ignored:
there is nothing to measure apart. So is that of a unit without code: it claims no kernel, and would be timed against
itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...records import Graph, Unit
from ...runtime.rewrites import with_rewrites
from ..labels import ALGEBRAIC

REWRITTEN = "rewritten"


def rewritten_graph(graph: Graph, units: Sequence[Unit]) -> Graph | None:
    """None where no algebraic unit states a rewrite. Raises TaskError for one that does not fit its region."""
    stated = [u for u in units if u.compiled and u.rewrite is not None and ALGEBRAIC in u.technique]
    return with_rewrites(graph, stated) if stated else None
