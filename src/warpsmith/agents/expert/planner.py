"""Cuts a graph into regions that kernels can replace.

In: the graph and what was measured. Out: competing plans, each a tuple of disjoint convex regions, best
first. Families with loops of their own cut theirs (`families.anchored`). Any other region grows from a seed (a
reduction, else a pointwise op) over producers and consumers as long as the whole can be lowered; what is left
stays ATen. Plans differ in which way regions may grow, and in whether only the hottest region is taken.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import TaskError
from ...records import Graph, Node, Region
from ...tasks.regions import make_region, topological_groups
from .axes import VIEWS, base_name
from .facts import Facts
from .families import ANCHORED
from .levels import is_reducing
from .lower import lower
from .ops import pointwise
from .program import Unsupported

MAX_MAKERS = 4  # generations of pointwise nodes taken in with a reduction
MAX_REGION = 64  # nodes; growth tries every neighbour, so it must end
HEAVY = 12  # instructions per element that make a single pointwise op worth a kernel


def plans(graph: Graph, facts: Facts) -> list[tuple[Region, ...]]:
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


def writable(graph: Graph, names: Iterable[str]) -> Region | None:
    """The region of these nodes when the generator can write it."""
    try:
        region = make_region(graph, names)
        lower(graph, region)
    except (TaskError, Unsupported):
        return None
    return region


def _cut(
    graph: Graph, facts: Facts, producers: bool, consumers: bool, anchored: bool = False
) -> tuple[Region, ...]:
    """`anchored`: operations that a family has loops of its own for are covered, and first."""
    regions = _anchored(graph, facts, consumers) if anchored else []
    taken = {n for r in regions for n in r.nodes}
    seeds = [n for n in graph.nodes if is_reducing(n)]
    seeds.sort(key=lambda n: -node_us(graph, n, facts))
    for seed in [*seeds, *(n for n in graph.nodes if _is_pointwise(n))]:
        if seed.name in taken:
            continue
        reduces = is_reducing(seed)
        region = _grow(graph, seed, taken, producers or not reduces, consumers or not reduces)
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


def _grow(graph: Graph, seed: Node, taken: set[str], producers: bool, consumers: bool) -> Region | None:
    """The largest writable region around a seed, found one neighbour at a time; dead-end views are left
    outside.
    """
    best = writable(graph, [seed.name])
    if best is None:
        return None
    refused: set[str] = set()
    while len(best.nodes) < MAX_REGION:
        near = [
            n for n in _neighbours(graph, best, producers, consumers) if n not in taken and n not in refused
        ]
        grown = None
        for name in near:
            grown = _with(graph, best, name, taken)
            if grown is not None:
                break
            refused.add(name)
        if grown is None:
            break
        best, refused = grown, set()
    return _trim(graph, best)


def _with(graph: Graph, region: Region, name: str, taken: set[str]) -> Region | None:
    """The region and a neighbour; a view comes with the node behind it, since alone it may not be worth
    taking.
    """
    grown = writable(graph, [*region.nodes, name])
    if grown is None:
        grown = _with_between(graph, region, name, taken) or _with_makers(graph, region, name, taken)
    if grown is not None or base_name(graph.by_name[name]) not in VIEWS:
        return grown
    for user in graph.users[graph.by_name[name].output.name]:
        if (
            user.name not in taken
            and (grown := writable(graph, [*region.nodes, name, user.name])) is not None
        ):
            return grown
    return None


def _with_between(graph: Graph, region: Region, name: str, taken: set[str]) -> Region | None:
    """The region, a neighbour, and the nodes on the ways from one to the other, which must come along."""
    mine = {*region.nodes, name}
    behind = _reached(graph, mine)
    ahead: set[str] = set(mine)
    for node in reversed(graph.nodes):
        made = (v.name for v in node.outputs if v is not None)
        if any(u.name in ahead for v in made for u in graph.users[v]):
            ahead.add(node.name)
    between = (behind & ahead) - mine
    if not between or between & taken or len(mine) + len(between) > MAX_REGION:
        return None
    return writable(graph, mine | between)


def _reached(graph: Graph, names: set[str]) -> set[str]:
    """The nodes and all that depends on them."""
    reached = set(names)
    for node in graph.nodes:
        if any(v in graph.producer and graph.producer[v].name in reached for v in node.uses):
            reached.add(node.name)
    return reached


def _with_makers(graph: Graph, region: Region, name: str, taken: set[str]) -> Region | None:
    """The region, a reduction, and what makes its argument: only that may show which dimensions they share."""
    if not is_reducing(graph.by_name[name]):
        return None
    extra = [name]
    for _ in range(MAX_MAKERS):
        makers = {graph.producer[v].name for n in extra for v in graph.by_name[n].uses if v in graph.producer}
        fresh = sorted(makers - {*extra, *region.nodes, *taken})
        fresh = [n for n in fresh if _is_pointwise(graph.by_name[n])]
        if not fresh:
            return None
        extra += fresh
        if (grown := writable(graph, [*region.nodes, *extra])) is not None:
            return grown
    return None


def _neighbours(graph: Graph, region: Region, producers: bool, consumers: bool) -> list[str]:
    """Nodes that make an input or read an output, of kinds that could be covered."""
    found: list[str] = []
    if consumers:
        made = [v for n in region.nodes for v in graph.by_name[n].outputs if v is not None]
        found += [u.name for v in made for u in graph.users[v.name]]
    if producers:
        found += [graph.producer[v].name for v in region.inputs if v in graph.producer]
    # What one input feeds is a neighbour, too: two reductions of one tensor read it once.
    found += [
        u.name for v in region.inputs if graph.specs[v].numel > 4096 for u in graph.users[v] if is_reducing(u)
    ]
    mine = set(region.nodes)
    return [n for n in dict.fromkeys(found) if n not in mine and _is_known(graph.by_name[n])]


def _trim(graph: Graph, region: Region) -> Region | None:
    """Without views whose results only go outside: leaving them to ATen costs nothing, writing them costs a
    copy.
    """
    while True:
        mine = set(region.nodes)
        loose = [
            n for n in region.nodes
            if base_name(graph.by_name[n]) in VIEWS
            and not any(u.name in mine for u in graph.users[graph.by_name[n].output.name])
        ]  # fmt: skip
        if not loose:
            return region
        smaller = writable(graph, mine - set(loose)) if mine - set(loose) else None
        if smaller is None:
            return None
        region = smaller


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


def _is_pointwise(node: Node) -> bool:
    return pointwise(node.op) is not None


def _is_known(node: Node) -> bool:
    return is_reducing(node) or _is_pointwise(node) or base_name(node) in VIEWS


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
