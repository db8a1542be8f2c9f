"""Regions as authors name them: by number among the proposed ones, by their nodes, or "all".

In: a graph, a target, and what an author wrote. Out: a `Region`. The proposals are the expert planner's for the target,
at what can be known without measuring, so that a number means the same before and after a judge was opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..agents.expert.brain import ExpertBrain
from ..codegen.program import Unsupported
from ..errors import TaskError, UsageError
from ..facts import local_facts
from ..kernels.family import Technique
from ..kernels.registry import family_of
from ..records import Graph, Region, Unit
from ..tasks.regions import make_region

MOST = 12  # regions proposed
WHOLE = "all"


def propose_regions(graph: Graph, target: str = "cpu") -> tuple[Region, ...]:
    """Regions of the planner's cuts, the most promising first, and the whole graph where it is one region. What the
    expert cuts for the CPU alone comes last: an author may write it.
    """
    brain = ExpertBrain()
    plans = [p for t in dict.fromkeys((target, "cpu")) for p in brain.plans(graph, local_facts(t))]
    by_id = {r.id: r for plan in plans for r in plan}
    regions = list(by_id.values())[:MOST]
    try:
        whole_graph = make_region(graph, graph.by_name)
    except TaskError:
        return tuple(regions)
    return tuple(regions if whole_graph.id in {r.id for r in regions} else [*regions, whole_graph])


def resolve(graph: Graph, reference: str, regions: Sequence[Region] | None = None) -> Region:
    """The region that is meant. Empty means "all". Raises UsageError, one line."""
    text = reference.strip()
    proposals = propose_regions(graph) if regions is None else regions
    if text.isdecimal():
        if not 1 <= int(text) <= len(proposals):
            raise UsageError(f"there is no region {text}: the proposed ones are 1 to {len(proposals)}")
        return proposals[int(text) - 1]
    names = list(graph.by_name) if text in ("", WHOLE) else [n for n in re.split(r"[\s,]+", text) if n]
    unknown = [n for n in names if n not in graph.by_name]
    if unknown:
        raise UsageError(
            f"the graph has no node {unknown[0][:80]!r}: name a region by its number, its nodes, or '{WHOLE}'"
        )
    try:
        return make_region(graph, names)
    except TaskError as error:
        raise UsageError(str(error)) from error


def techniques(graph: Graph, region: Region, target: str = "cpu") -> tuple[str, ...]:
    """List what the expert knows for the region on a target, one line each; empty: nothing."""
    return tuple(f"{t.name}: {t.why}" for t in list_techniques(graph, region, target))


def example(graph: Graph, region: Region, target: str = "cpu") -> Unit | None:
    """A unit for the region as the expert writes it; None where it cannot."""
    family = family_of(graph, region, target)
    for technique in list_techniques(graph, region, target):
        try:
            return family.write(graph, region, technique) if family is not None else None
        except Unsupported:
            continue
    return None


def list_techniques(graph: Graph, region: Region, target: str) -> list[Technique]:
    """List what the expert offers for a region on a target; empty: nothing."""
    family = family_of(graph, region, target)
    return family.techniques(graph, region, local_facts(target)) if family is not None else []
