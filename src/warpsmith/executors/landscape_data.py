"""What one machine measured of everything the expert can write for a task: records, and what can be asked of them.

A unit is known by its coordinates (the nodes it covers, family, technique, values, flags), not by its source: an emitter may be
improved without making what was recorded worthless. Times of whole candidates are made up by an additive model: the
measured times of the units alone, of the uncovered operations alone, and what one more call costs. Some whole candidates were
timed as deployed, too; `agreement` says how well the model ranks those.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from pydantic import ValidationInfo, field_validator

from ..hardware import hardware_of
from ..records import BaselineTiming, Environment, Limit, Record, Status, Task, Unit
from ..records.technique_names import current_technique, current_values


class Header(Record):
    """What a search stands on."""

    version: int
    task: Task  # its main variant
    target: str
    facts: dict[str, Any]  # `facts.Facts` as a record
    limit: Limit
    baselines: tuple[BaselineTiming, ...]
    environment: Environment
    register_bits: int
    seed: int = 0


class Site(Record):
    """A region of one of the plans, and its speed-of-light floor."""

    nodes: tuple[str, ...]
    limit_us: float
    bound: str
    least_bytes: int
    flops: int


class Source(Record):
    """One technique for one site, and the settings of its tunables that were to be measured."""

    site: int
    family: str
    technique: str
    flags: tuple[str, ...] = ()  # that the unit has by itself
    names: tuple[str, ...] = ()  # of its tunables
    domains: tuple[tuple[int, ...], ...] = ()  # of each, as far as it was recorded
    full: int = 1  # settings of the technique's own domains

    @field_validator("technique")
    @classmethod
    def _current_technique(cls, technique: str, info: ValidationInfo) -> str:
        return current_technique(info.data.get("family", ""), technique)

    @field_validator("names")
    @classmethod
    def _current_names(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """A landscape may have been recorded under earlier names."""
        return tuple(
            current_values(
                info.data.get("family", ""), info.data.get("technique", ""), dict.fromkeys(names, 0)
            )
        )


class Point(Record):
    """One unit as it was measured alone, caches cold."""

    source: int
    values: tuple[int, ...] = ()
    flags: tuple[str, ...] = ()  # beyond the source's own
    status: Status = "ok"
    reason: str = ""
    us: float = 0.0  # median of the calls
    low: float = 0.0  # their tenth percentile
    high: float = 0.0  # their ninetieth
    calls: int = 0
    build: float = 0.0  # seconds
    judge: float = 0.0  # seconds, verification and timing
    balance: float | None = None
    vector_bits: int = 0
    vector_share: float | None = None
    called: tuple[str, ...] = ()
    code: str = ""  # fingerprint of the machine code, shortened: the same code was measured once


class Again(Record):
    """A point measured once more, in another process at another time, and with it all of the same machine code in its region."""

    number: int
    us: float
    low: float
    high: float


class Whole(Record):
    """A candidate of some of the units, timed as deployed."""

    points: tuple[int, ...]  # numbers of the points
    us: float
    low: float
    high: float


Coordinates = tuple[tuple[str, ...], str, str, tuple[tuple[str, int], ...], tuple[str, ...]]


def coordinates(unit: Unit) -> Coordinates:
    """What a unit is known by in a landscape."""
    values = tuple(sorted(unit.current_values.items()))
    return unit.region.nodes, unit.family, unit.technique, values, tuple(sorted(unit.flags))


class Landscape(Record):
    header: Header
    sites: tuple[Site, ...]
    sources: tuple[Source, ...]
    points: tuple[Point, ...]
    wholes: tuple[Whole, ...] = ()
    agains: tuple[Again, ...] = ()

    @cached_property
    def by_coordinates(self) -> dict[Coordinates, Point]:
        return {self._coordinates(p): p for p in self.points}

    def _coordinates(self, point: Point) -> Coordinates:
        source = self.sources[point.source]
        values = tuple(sorted(zip(source.names, point.values, strict=True)))
        flags = tuple(sorted((*source.flags, *point.flags)))
        return self.sites[source.site].nodes, source.family, source.technique, values, flags

    def point(self, unit: Unit) -> Point | None:
        """None for what was not recorded. Two things are told from what was: a unit without some of the recorded tunables (its
        source does not use them) is as with any of their values; flags at settings that they were not tried at change the time
        by the factor that they did at the settings of the same source.
        """
        exact = self.by_coordinates.get(coordinates(unit))
        source = self._spaces.get((unit.region.nodes, unit.family, unit.technique))
        if exact is not None or source is None:
            return exact
        number = self.sources.index(source)
        more = tuple(f for f in unit.flags if f not in source.flags)
        plain = self._plain(number, unit)
        if plain is None or len(unit.flags) < len(source.flags):
            return None
        if not more:
            return plain
        factor = self.flag_factors.get((number, more))
        scaled = {k: getattr(plain, k) * factor for k in ("us", "low", "high")} if factor else {}
        return plain.model_copy(update={"flags": more, **scaled}) if factor else None

    def _plain(self, number: int, unit: Unit) -> Point | None:
        """At the unit's values, without further flags."""
        names, wanted = self.sources[number].names, unit.current_values.items()
        mine = (p for p in self.points if p.source == number and not p.flags)
        return next((p for p in mine if wanted <= dict(zip(names, p.values, strict=True)).items()), None)

    @cached_property
    def flag_factors(self) -> dict[tuple[int, tuple[str, ...]], float]:
        """(source, flags) → geometric mean of what they did to the time where they were tried; without those that failed."""
        plain = {(p.source, p.values): p.us for p in self.points if not p.flags and p.status == "ok"}
        logs: dict[tuple[int, tuple[str, ...]], list[float]] = {}
        for p in self.points:
            before = plain.get((p.source, p.values))
            if p.flags and p.status == "ok" and before:
                logs.setdefault((p.source, p.flags), []).append(math.log(p.us / before))
        return {key: math.exp(sum(found) / len(found)) for key, found in logs.items()}

    def domains(self, unit: Unit) -> dict[str, tuple[int, ...]] | None:
        """The settings of a unit's tunables that were recorded, in all combinations; None for a source that was not."""
        source = self._spaces.get((unit.region.nodes, unit.family, unit.technique))
        if source is None:
            return None
        macros = dict(
            zip(unit.current_values, unit.values, strict=True)
        )  # a unit's text may have earlier names
        return {macros.get(n, n): domain for n, domain in zip(source.names, source.domains, strict=True)}

    def settled(self) -> Landscape:
        """Each point at the median of its measurements: the best of a hundred that were measured once is mostly a lucky one."""
        alike: dict[tuple[int, str], list[int]] = {}
        for i, p in enumerate(self.points):
            key = (self.sources[p.source].site, p.code) if p.code else (-1, str(i))
            alike.setdefault(key, []).append(i)
        members = {i: group for group in alike.values() for i in group}
        more: dict[int, list[Again]] = {}
        for again in self.agains:
            more.setdefault(members[again.number][0], []).append(again)
        points = list(self.points)
        for first, found in more.items():
            times = {
                k: float(np.median([getattr(points[first], k), *(getattr(a, k) for a in found)]))
                for k in ("us", "low", "high")
            }
            for i in members[first]:
                points[i] = points[i].model_copy(update=times)
        return self.model_copy(update={"points": tuple(points), "agains": ()})

    def complete(self) -> Landscape:
        """Without values that some combinations are missing of, and the points that have them: a recording may end early."""
        plain: dict[int, list[tuple[int, ...]]] = {}
        for p in self.points:
            if not p.flags:
                plain.setdefault(p.source, []).append(p.values)
        domains = [_lattice(s.domains, plain.get(number, [])) for number, s in enumerate(self.sources)]
        sources = tuple(
            s.model_copy(update={"domains": d}) for s, d in zip(self.sources, domains, strict=True)
        )
        kept = [
            i for i, p in enumerate(self.points)
            if all(v in d for v, d in zip(p.values, domains[p.source], strict=True))
        ]  # fmt: skip
        place = {old: new for new, old in enumerate(kept)}
        wholes = tuple(
            w.model_copy(update={"points": tuple(place[i] for i in w.points)})
            for w in self.wholes
            if place.keys() >= set(w.points)
        )
        points = tuple(self.points[i] for i in kept)
        return Landscape(header=self.header, sites=self.sites, sources=sources, points=points, wholes=wholes)

    @cached_property
    def _spaces(self) -> dict[tuple[tuple[str, ...], str, str], Source]:
        return {(self.sites[s.site].nodes, s.family, s.technique): s for s in self.sources}

    @cached_property
    def node_us(self) -> dict[str, float]:
        """Microseconds of each operation as ATen, scaled so that all of them take what the reference takes."""
        alone = {
            n.name: float(self.header.facts["node_us"].get(n.name, 0.0)) for n in self.header.task.graph.nodes
        }
        eager = next((b.median_us for b in self.header.baselines if b.ok and b.name == "eager"), 0.0)
        total = sum(alone.values())
        scale = eager / total if eager and total else 1.0
        return {name: us * scale for name, us in alone.items()}

    @property
    def baseline(self) -> BaselineTiming:
        """The fastest that works."""
        return min((b for b in self.header.baselines if b.ok), key=lambda b: b.median_us)

    def whole_us(self, points: Sequence[Point]) -> float:
        """The additive model: units alone, what they leave to ATen alone, and the calls."""
        covered = {n for p in points for n in self.sites[self.sources[p.source].site].nodes}
        rest = sum(us for name, us in self.node_us.items() if name not in covered)
        return rest + sum(p.us + hardware_of(self.header.target).unit_call_us for p in points)

    @cached_property
    def best_us(self) -> float:
        """The fastest candidate that the model knows of any cut into the recorded sites, disjoint ones taken greedily."""
        fastest: dict[int, Point] = {}
        for point in self.points:
            site = self.sources[point.source].site
            if point.status == "ok" and (site not in fastest or point.us < fastest[site].us):
                fastest[site] = point
        return _best_cover(self, fastest)

    def agreement(self) -> float:
        """Spearman's rank correlation between the model and the candidates timed as deployed; NaN for fewer than three."""
        modelled = [self.whole_us([self.points[i] for i in w.points]) for w in self.wholes]
        return rank_correlation(modelled, [w.us for w in self.wholes])


def _lattice(
    domains: Sequence[Sequence[int]], recorded: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], ...]:
    """Domains whose combinations were all recorded: without the values that most missing ones have, until none is missing. Those
    of the first that was recorded, the technique's own, stay.
    """
    left, known = [list(d) for d in domains], set(recorded)
    while recorded and (missing := [c for c in product(*left) if c not in known]):
        counts = Counter((i, v) for c in missing for i, v in enumerate(c) if v != recorded[0][i])
        index, value = max(counts, key=lambda key: counts[key] * len(left[key[0]]))
        left[index].remove(value)
    return tuple(map(tuple, left))


def _best_cover(landscape: Landscape, fastest: Mapping[int, Point]) -> float:
    """Exact search over sets of disjoint sites: they are few."""
    sites = [(frozenset(landscape.sites[i].nodes), p) for i, p in fastest.items()]
    best = math.inf

    def extend(at: int, taken: frozenset[str], chosen: tuple[Point, ...]) -> None:
        nonlocal best
        if chosen:
            best = min(best, landscape.whole_us(chosen))
        for index in range(at, len(sites)):
            nodes, point = sites[index]
            if not nodes & taken:
                extend(index + 1, taken | nodes, (*chosen, point))

    extend(0, frozenset(), ())
    return best


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's, ties at their mean rank; NaN for fewer than three pairs or a constant side."""
    if len(one) < 3 or len(set(one)) == 1 or len(set(other)) == 1:
        return math.nan
    pair = [np.asarray(side, dtype=np.float64)[:, None] for side in (one, other)]
    ranks = [(side > side.T).sum(axis=1) + (side == side.T).sum(axis=1) / 2 for side in pair]
    return float(np.corrcoef(ranks)[0, 1])
