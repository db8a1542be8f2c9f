"""The rewritten reference: the task's graph with the regions of algebraic units in the ATen operations that they state.

In: a task's graph and a candidate's units. Out: a graph that the judge times as one more baseline, so that fewer
operations are not mistaken for a faster kernel. A rewrite is the word of whoever wrote the unit. Its form is checked
here and its values against the oracle, and all it can do is add a baseline: one that is slow changes no claim, one
that is wrong is dropped with a note. A rewrite of a unit whose technique is not algebraic is ignored: there is
nothing to measure apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import TaskError
from ..records import Graph, Node, Region, Unit
from ..tasks.regions import topological_groups
from .labels import ALGEBRAIC

REWRITTEN = "rewritten"


def rewritten_graph(graph: Graph, units: Sequence[Unit]) -> Graph | None:
    """None where no algebraic unit states a rewrite. Raises TaskError for one that does not fit its region."""
    stated = {
        u.region.id: (u.region, u.rewrite)
        for u in units
        if u.rewrite is not None and ALGEBRAIC in u.technique
    }
    if not stated:
        return None
    nodes: list[Node] = []
    for step in topological_groups(graph, [region for region, _ in stated.values()]):
        if isinstance(step, Region):
            region, rewrite = stated[step.id]
            _check(graph, region, rewrite)
            nodes += rewrite.nodes
        else:
            nodes.append(step)
    made = [v.name for n in nodes for v in n.outputs if v is not None]
    taken = {i.name for i in graph.inputs}
    if len({n.name for n in nodes}) < len(nodes) or len(taken | set(made)) < len(taken) + len(made):
        raise TaskError("a rewrite uses a name twice, or one that the task's graph uses")
    return graph.model_copy(update={"nodes": tuple(nodes)})


def _check(graph: Graph, region: Region, rewrite: Graph) -> None:
    """It reads what the region reads, and makes what the region makes."""
    for item in rewrite.inputs:
        if item.name not in region.inputs or item.spec != graph.specs[item.name]:
            raise TaskError(f"a rewrite reads {item.name}, which is no such input of its region")
    known = {i.name for i in rewrite.inputs}
    for node in rewrite.nodes:
        if not known.issuperset(node.uses):
            raise TaskError(f"a rewrite's node {node.name} reads what nothing before it makes")
        known.update(v.name for v in node.outputs if v is not None)
    for name in region.outputs:
        true, own = graph.specs[name], rewrite.specs.get(name)
        if name not in rewrite.producer or own is None or (own.shape, own.dtype) != (true.shape, true.dtype):
            raise TaskError(f"a rewrite does not make {name} as its region does")
