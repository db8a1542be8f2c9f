"""Regions grown one neighbour at a time: the loop, and what joins in where the common lowering writes the region.

In: a graph, a seed, and the nodes that are taken already. Out: the largest region found, None where the seed alone
cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ...errors import TaskError
from ...records import Graph, Node, Region
from ...tasks.regions import list_between, make_region
from ..lowering.axis_relations import VIEWS, base_name
from ..lowering.levels import is_reducing
from ..lowering.lower import lower
from ..lowering.ops import pointwise
from ..program import Unsupported

MAX_MAKERS = 4  # generations of pointwise nodes taken in with a reduction
MAX_REGION = 64  # nodes; growth tries every neighbour, so it must end


def grow(
    start: Region,
    neighbours: Callable[[Region], Iterable[str]],
    joined: Callable[[Region, str], Region | None],
    taken: Collection[str],
    most: int,
) -> Region:
    """Takes the first neighbour that `assume_joined_loops` accepts, then looks anew, until none is accepted or there are `most`
    nodes. Nodes in `taken` are no neighbours.
    """
    region = start
    while len(region.nodes) < most:
        candidates = (n for n in neighbours(region) if n not in taken)
        grown = next((g for n in candidates if (g := joined(region, n)) is not None), None)
        if grown is None:
            break
        region = grown
    return region


def region_around(
    graph: Graph, seed: Node, taken: set[str], producers: bool, consumers: bool
) -> Region | None:
    """The largest writable region around a seed, found one neighbour at a time; dead-end views are left
    outside.
    """
    start = writable(graph, [seed.name])
    if start is None:
        return None
    grown = grow(
        start,
        lambda region: _neighbours(graph, region, producers, consumers),
        lambda region, name: _with(graph, region, name, taken),
        taken,
        MAX_REGION,
    )
    return _trim(graph, grown)


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
    members = {*region.nodes, name}
    nodes = list_between(graph, members)
    behind = _find_dependants(graph, nodes, members)
    ahead: set[str] = set(members)
    for node in reversed(nodes):
        results = (v.name for v in node.outputs if v is not None)
        if any(u.name in ahead for v in results for u in graph.users[v]):
            ahead.add(node.name)
    between = (behind & ahead) - members
    if not between or between & taken or len(members) + len(between) > MAX_REGION:
        return None
    return writable(graph, members | between)


def _find_dependants(graph: Graph, nodes: Iterable[Node], names: set[str]) -> set[str]:
    """The named nodes and what of `nodes` depends on them."""
    reached = set(names)
    for node in nodes:
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
        fresh = [n for n in fresh if is_pointwise(graph.by_name[n])]
        if not fresh:
            return None
        extra += fresh
        if (grown := writable(graph, [*region.nodes, *extra])) is not None:
            return grown
    return None


def _neighbours(graph: Graph, region: Region, producers: bool, consumers: bool) -> list[str]:
    """Nodes that make an input or read an output, of kinds that could be covered."""
    names: list[str] = []
    if consumers:
        results = [v for n in region.nodes for v in graph.by_name[n].outputs if v is not None]
        names += [u.name for v in results for u in graph.users[v.name]]
    if producers:
        names += [graph.producer[v].name for v in region.inputs if v in graph.producer]
    # What one input feeds is a neighbour, too: two reductions of one tensor read it once.
    names += [
        u.name for v in region.inputs if graph.specs[v].numel > 4096 for u in graph.users[v] if is_reducing(u)
    ]
    members = set(region.nodes)
    return [n for n in dict.fromkeys(names) if n not in members and _is_known(graph.by_name[n])]


def _trim(graph: Graph, region: Region) -> Region | None:
    """Without views whose results only go outside: leaving them to ATen costs nothing, writing them costs a
    copy.
    """
    while True:
        members = set(region.nodes)
        loose = [
            n for n in region.nodes
            if base_name(graph.by_name[n]) in VIEWS
            and not any(u.name in members for u in graph.users[graph.by_name[n].output.name])
        ]  # fmt: skip
        if not loose:
            return region
        smaller = writable(graph, members - set(loose)) if members - set(loose) else None
        if smaller is None:
            return None
        region = smaller


def writable(graph: Graph, names: Iterable[str]) -> Region | None:
    """The region of these nodes when the generator can write it."""
    try:
        region = make_region(graph, names)
        lower(graph, region)
    except (TaskError, Unsupported):
        return None
    return region


def _is_known(node: Node) -> bool:
    return is_reducing(node) or is_pointwise(node) or base_name(node) in VIEWS


def is_pointwise(node: Node) -> bool:
    return pointwise(node.op) is not None
