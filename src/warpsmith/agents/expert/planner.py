"""Cuts a graph into regions that kernels can replace.

In: the graph and what was measured. Out: competing plans, each a tuple of disjoint convex regions, best
first. Families with loops of their own cut theirs (`families.anchored`). Any other region grows from a seed (a
reduction, else a pointwise op) over producers and consumers as long as the whole can be lowered (`growth`); what is
left stays ATen. Plans differ in which way regions may grow, and in whether only the hottest region is taken.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import TaskError
from ...records import Graph, Node, Region
from ...tasks.regions import topological_groups
from .axes import VIEWS, base_name
from .facts import Facts
from .families import ANCHORED
from .growth import is_pointwise, region_around
from .levels import is_reducing
from .lower import lower

Plan = tuple[Region, ...]
HEAVY = 12  # instructions per element that make a single pointwise op worth a kernel


class Planner:
    """The plans of the last graph and times that it was asked about: finding them takes up to half a second, and the
    rounds of a search ask with the same ones.
    """

    def __init__(self) -> None:
        self._graph: Graph | None = None
        self._measured: tuple[object, ...] = ()
        self._plans: list[Plan] = []

    def plans(self, graph: Graph, facts: Facts) -> list[Plan]:
        measured = (facts.node_us, facts.bandwidth, facts.flop_rate)  # all that `plans` reads of the facts
        if graph is not self._graph or measured != self._measured:
            self._graph, self._measured, self._plans = graph, measured, plans(graph, facts)
        return list(self._plans)


def plans(graph: Graph, facts: Facts) -> list[Plan]:
    """Different plans, those that promise to save most time first. Empty when nothing can be covered."""
    widest = _cut(graph, facts, producers=True, consumers=True, anchored=True)
    found = [
        widest,
        _cut(graph, facts, producers=True, consumers=True),
        _cut(graph, facts, producers=False, consumers=True),
        _cut(graph, facts, producers=True, consumers=False),
        _cut(graph, facts, producers=False, consumers=False, anchored=True),
        _cut(graph, facts, producers=False, consumers=False),
        *((r,) for r in sorted(widest, key=lambda r: -saving(graph, (r,), facts))[:2]),
    ]
    unique = {tuple(r.id for r in p): p for p in found if p}
    return sorted(unique.values(), key=lambda p: -saving(graph, p, facts))


def saving(graph: Graph, plan: Iterable[Region], facts: Facts) -> float:
    """Microseconds that a plan may save: the regions' ATen time less the time to move their inputs and
    outputs once.
    """
    return sum(aten_us(graph, r, facts) - floor_us(graph, r, facts) for r in plan)


def aten_us(graph: Graph, region: Region, facts: Facts) -> float:
    """Measured time of the region's nodes; for those not measured, what moving their operands takes."""
    return sum(node_us(graph, graph.by_name[name], facts) for name in region.nodes)


def node_us(graph: Graph, node: Node, facts: Facts) -> float:
    """Measured time of a node; until it is measured, what moving its operands takes."""
    return facts.node_us.get(node.name, _node_bytes(graph, node) / facts.bandwidth * 1e6)


def region_bytes(graph: Graph, region: Region) -> int:
    """Inputs read once, outputs written once."""
    return sum(graph.specs[v].nbytes for v in (*region.inputs, *region.outputs))


def floor_us(graph: Graph, region: Region, facts: Facts) -> float:
    """Time to move the region's operands once, or to do its arithmetic, whichever is longer."""
    flops = sum(graph.by_name[n].flops for n in region.nodes)
    return max(region_bytes(graph, region) / facts.bandwidth, flops / facts.flop_rate) * 1e6


def _cut(
    graph: Graph, facts: Facts, producers: bool, consumers: bool, anchored: bool = False
) -> tuple[Region, ...]:
    """`anchored`: operations that a family has loops of its own for are covered, and first."""
    regions = _anchored(graph, facts, consumers) if anchored else []
    taken = {n for r in regions for n in r.nodes}
    seeds = [n for n in graph.nodes if is_reducing(n)]
    seeds.sort(key=lambda n: -node_us(graph, n, facts))
    for seed in [*seeds, *(n for n in graph.nodes if is_pointwise(n))]:
        if seed.name in taken:
            continue
        reduces = is_reducing(seed)
        region = region_around(graph, seed, taken, producers or not reduces, consumers or not reduces)
        if region is not None and _worth(graph, region):
            regions.append(region)
            taken |= set(region.nodes)
    order = {n.name: i for i, n in enumerate(graph.nodes)}
    return _runnable(graph, sorted(regions, key=lambda r: order[r.nodes[0]]))


def _anchored(graph: Graph, facts: Facts, fuse: bool) -> list[Region]:
    """Regions around anchors, the dearest anchor first."""
    taken: set[str] = set()
    regions: list[Region] = []
    dearest = sorted(graph.nodes, key=lambda n: -node_us(graph, n, facts))
    for node, late in [(n, late) for late in (False, True) for n in dearest]:
        for family in ANCHORED:
            if family.late != late or node.name in taken or not family.covers(graph, node):
                continue
            region = family.cut(graph, node, taken, fuse)
            if region is not None and not taken & set(region.nodes):
                regions.append(region)
                taken |= set(region.nodes)
    return regions


def _runnable(graph: Graph, regions: list[Region]) -> tuple[Region, ...]:
    """Drops regions that would wait for each other."""
    kept: list[Region] = []
    for region in regions:
        try:
            topological_groups(graph, [*kept, region])
        except TaskError:
            continue
        kept.append(region)
    return tuple(kept)


def _worth(graph: Graph, region: Region) -> bool:
    """Is there work at all? One cheap elementwise op is as fast in ATen; constants alone are nothing."""
    program = lower(graph, region)
    if program.reductions or len([n for n in region.nodes if base_name(graph.by_name[n]) not in VIEWS]) > 1:
        return True
    return sum(s.cost for s in program.steps) >= HEAVY


def _node_bytes(graph: Graph, node: Node) -> int:
    if base_name(node) in VIEWS:
        return 0
    made = sum(v.spec.nbytes for v in node.outputs if v is not None)
    return made + sum(graph.specs[v].nbytes for v in node.uses)
