"""Cuts a graph into regions that kernels can replace.

In: the graph and what was measured. Out: competing plans, each a tuple of disjoint convex regions, best
first. Families with loops of their own cut theirs (`anchored`). Any other region grows from a seed (a
reduction, else a pointwise op) over producers and consumers as long as the whole can be lowered (`growth`); what is
left stays ATen. Plans differ in which way regions may grow, in whether only the hottest region is taken, in
whether batch norm and the like are folded into linear maps, and in whether the library is asked in another way.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from ...codegen.fusion.growth import is_pointwise, region_around
from ...codegen.lowering.axis_relations import VIEWS, base_name
from ...codegen.lowering.levels import is_reducing
from ...codegen.lowering.lower import lower
from ...codegen.rewrites.folding import match_folded_region
from ...errors import TaskError
from ...facts import Facts
from ...kernels.costs import aten_us, node_us, predict_us
from ...kernels.fold.fold import FOLD
from ...kernels.library.library import LIBRARY
from ...kernels.registry import families_of, family_of, list_anchored_families
from ...records import Graph, Region
from ...tasks.regions import make_region, topological_groups

Plan = tuple[Region, ...]
FIRST_PLANS = 3  # a run begins with about as many
HEAVY = 12  # instructions per element that make a single pointwise op worth a kernel


class Planner:
    """The plans of the last graph and facts that it was asked about: finding them takes up to half a second, and the
    rounds of a search ask with the same ones.
    """

    def __init__(self) -> None:
        self._graph: Graph | None = None
        self._facts: Facts | None = None
        self._plans: list[Plan] = []

    def plans(self, graph: Graph, facts: Facts) -> list[Plan]:
        cutting = replace(facts, total_us=0.0, limit_us=0.0)  # these say nothing of where to cut
        if graph is not self._graph or cutting != self._facts:
            self._graph, self._facts, self._plans = graph, cutting, plans(graph, facts)
        return list(self._plans)


def plans(graph: Graph, facts: Facts) -> list[Plan]:
    """Different plans, those that promise to save most time first; one that folds is second at the latest, since what it
    saves is known, and what kernels save is hoped for; on a GPU one of other calls of the library. Empty when nothing can be covered.
    """
    widest = _cut(graph, facts, producers=True, consumers=True, anchored=True)
    folds, library = tuple(_folds(graph)), _cut_library(graph, facts)
    fusing = any(family.fuses_reductions for family in list_anchored_families(facts.target))
    cuts = [
        *(
            [_cut(graph, facts, producers=True, consumers=True, anchored=True, fuses_reductions=True)]
            if fusing
            else []
        ),
        widest,
        _cut(graph, facts, producers=True, consumers=True),
        _cut(graph, facts, producers=False, consumers=True),
        _cut(graph, facts, producers=True, consumers=False),
        _cut(graph, facts, producers=False, consumers=False, anchored=True),
        _cut(graph, facts, producers=False, consumers=False),
        *(
            _cut(graph, facts, producers=True, consumers=True, anchored=True, before=regions)
            for regions in (folds, library)
            if regions
        ),
        folds,
        library,
        *((r,) for r in sorted(widest, key=lambda r: -saving(graph, (r,), facts))[:2]),
    ]
    unique = {tuple(r.id for r in p): p for p in cuts if p}
    saved = {r.id: saving(graph, (r,), facts) for r in {r.id: r for p in unique.values() for r in p}.values()}
    best = sorted(unique.values(), key=lambda p: -sum(saved[r.id] for r in p))
    folding = next((p for p in best if any(match_folded_region(graph, r) is not None for r in p)), None)
    if folding is not None and folding not in best[:2]:
        best.remove(folding)
        best.insert(1, folding)
    return _with_library_early(graph, facts, best, library)


def _with_library_early(graph: Graph, facts: Facts, best: list[Plan], library: Plan) -> list[Plan]:
    """One of the first plans calls the library otherwise where it has nodes that no kernel covers: they would stay as they are."""
    calls = set(library)
    if not calls or not all(calls.isdisjoint(plan) for plan in best[:FIRST_PLANS]):
        return best
    written = {
        r for plan in best for r in plan if family_of(graph, r, facts.target) not in (FOLD, LIBRARY, None)
    }
    if {n for r in calls for n in r.nodes} <= {n for r in written for n in r.nodes}:
        return best
    ordered = [plan for plan in best if plan != library]
    return [*ordered[: FIRST_PLANS - 1], library, *ordered[FIRST_PLANS - 1 :]]


def saving(graph: Graph, plan: Iterable[Region], facts: Facts) -> float:
    """Microseconds that a plan may save: the regions' ATen time less what units for them take at the least."""
    return sum(aten_us(graph, r, facts) - _unit_us(graph, r, facts) for r in plan)


def _unit_us(graph: Graph, region: Region, facts: Facts) -> float:
    """Return the time that the region's fastest technique predicts; its floor where none predicts one."""
    family = family_of(graph, region, facts.target)
    offered = family.techniques(graph, region, facts) if family is not None else []
    return min((t.us for t in offered if t.us is not None), default=predict_us(graph, region, facts))


def _cut(
    graph: Graph, facts: Facts, producers: bool, consumers: bool, anchored: bool = False,
    fuses_reductions: bool = False, before: Iterable[Region] = (),
) -> tuple[Region, ...]:  # fmt: skip
    """`anchored`: operations that a family has loops of its own for are covered, and first; with `fuses_reductions`, along with what
    follows them. `before`: regions that are taken before any other.
    """
    regions = list(before)
    if anchored:
        regions += _cut_anchored(
            graph, facts, consumers, {n for r in regions for n in r.nodes}, fuses_reductions
        )
    covered = {n for r in regions for n in r.nodes}
    seeds = [n for n in graph.nodes if is_reducing(n)]
    seeds.sort(key=lambda n: -node_us(graph, n, facts))
    for seed in [*seeds, *(n for n in graph.nodes if is_pointwise(n))]:
        if seed.name in covered:
            continue
        reduces = is_reducing(seed)
        region = region_around(graph, seed, covered, producers or not reduces, consumers or not reduces)
        if region is not None and _worth(graph, region, facts):
            regions.append(region)
            covered |= set(region.nodes)
    order = {n.name: i for i, n in enumerate(graph.nodes)}
    return _runnable(graph, sorted(regions, key=lambda r: order[r.nodes[0]]))


def _folds(graph: Graph) -> list[Region]:
    return [make_region(graph, FOLD.cut(graph, n)) for n in graph.nodes if FOLD.covers(graph, n)]


def _cut_library(graph: Graph, facts: Facts) -> Plan:
    """Regions that no kernel is written for and the library could do in other calls, where the target has such a family."""
    if LIBRARY.name not in families_of(facts.target):
        return ()
    regions = [make_region(graph, names) for names in LIBRARY.cut(graph)]
    return _runnable(graph, [r for r in regions if family_of(graph, r, facts.target) is LIBRARY])


def _cut_anchored(
    graph: Graph, facts: Facts, fuse: bool, covered: set[str], fuses_reductions: bool
) -> list[Region]:
    """Regions around anchors, those with what follows them before others, the dearest anchor first."""
    regions: list[Region] = []
    dearest = sorted(graph.nodes, key=lambda n: -node_us(graph, n, facts))
    turns = [
        (fusing, late)
        for fusing in ((True, False) if fuses_reductions else (False,))
        for late in (False, True)
    ]
    for turn, node in [(turn, n) for turn in turns for n in dearest]:
        for family in list_anchored_families(facts.target):
            if (family.fuses_reductions, family.late) != turn:
                continue
            if node.name in covered or not family.covers(graph, node):
                continue
            region = family.cut(graph, node, covered, fuse)
            if region is not None and not covered & set(region.nodes):
                regions.append(region)
                covered |= set(region.nodes)
    return regions


def _runnable(graph: Graph, regions: list[Region]) -> tuple[Region, ...]:
    """Drops regions that would wait for each other."""
    with suppress(TaskError):
        topological_groups(graph, regions)
        return tuple(regions)  # so can any of them
    runnable: list[Region] = []
    for region in regions:
        try:
            topological_groups(graph, [*runnable, region])
        except TaskError:
            continue
        runnable.append(region)
    return tuple(runnable)


def _worth(graph: Graph, region: Region, facts: Facts) -> bool:
    """Is there work at all? One cheap elementwise op is as fast in ATen; constants alone are nothing. Where it is all that
    the graph does, and its result is large, stores that pass the cache by may gain.
    """
    program = lower(graph, region)
    covered = {n for n in region.nodes if base_name(graph.by_name[n]) not in VIEWS}
    if program.reductions or len(covered) > 1 or sum(s.cost for s in program.steps) >= HEAVY:
        return True
    large = sum(graph.specs[v].nbytes for v in region.outputs) > facts.l2_bytes
    if not (region.inputs and large):
        return False
    return all(n.name in covered or base_name(n) in VIEWS for n in graph.nodes)
