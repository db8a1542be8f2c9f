"""`Landscape` holds what one machine measured of every unit that the expert can write for a task.

A unit is identified by its coordinates (the nodes it covers, family, technique, values, flags), not by its source: an emitter may be
improved without making the recording worthless. Times of whole candidates come from an additive model: the
measured times of the units alone, of the uncovered operations alone, and the cost of one more call. Some whole candidates were
timed as deployed, too; `correlate_model` says how well the model ranks those.
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
    """The task, target, environment and baselines of a recording."""

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


class Remeasurement(Record):
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


def find_coordinates(unit: Unit) -> Coordinates:
    """Return the key of a unit in a landscape."""
    values = tuple(sorted(unit.current_values.items()))
    return unit.region.nodes, unit.family, unit.technique, values, tuple(sorted(unit.flags))


class Landscape(Record):
    header: Header
    sites: tuple[Site, ...]
    sources: tuple[Source, ...]
    points: tuple[Point, ...]
    wholes: tuple[Whole, ...] = ()
    agains: tuple[Remeasurement, ...] = ()

    @cached_property
    def by_coordinates(self) -> dict[Coordinates, Point]:
        return {self._coordinates_of(p): p for p in self.points}

    def _coordinates_of(self, point: Point) -> Coordinates:
        source = self.sources[point.source]
        values = tuple(sorted(zip(source.names, point.values, strict=True)))
        flags = tuple(sorted((*source.flags, *point.flags)))
        return self.sites[source.site].nodes, source.family, source.technique, values, flags

    def point(self, unit: Unit) -> Point | None:
        """Find or derive the point of a unit; None when it was not recorded. Two kinds are derived: a unit without some of the
        recorded tunables (its source does not use them) takes as long as with any of their values; flags at settings at which
        they were not tried change the time by the factor measured at other settings of the same source.
        """
        exact = self.by_coordinates.get(find_coordinates(unit))
        source = self._spaces.get((unit.region.nodes, unit.family, unit.technique))
        if exact is not None or source is None:
            return exact
        number = self.sources.index(source)
        further_flags = tuple(f for f in unit.flags if f not in source.flags)
        plain = self._find_without_flags(number, unit)
        if plain is None or len(unit.flags) < len(source.flags):
            return None
        if not further_flags:
            return plain
        factor = self.flag_factors.get((number, further_flags))
        scaled = {k: getattr(plain, k) * factor for k in ("us", "low", "high")} if factor else {}
        return plain.model_copy(update={"flags": further_flags, **scaled}) if factor else None

    def _find_without_flags(self, number: int, unit: Unit) -> Point | None:
        """Find the point at the unit's values, without further flags."""
        names, values = self.sources[number].names, unit.current_values.items()
        points = (p for p in self.points if p.source == number and not p.flags)
        return next((p for p in points if values <= dict(zip(names, p.values, strict=True)).items()), None)

    @cached_property
    def flag_factors(self) -> dict[tuple[int, tuple[str, ...]], float]:
        """(source, flags) → geometric mean of the factors on the time where they were tried and worked."""
        plain = {(p.source, p.values): p.us for p in self.points if not p.flags and p.status == "ok"}
        logs: dict[tuple[int, tuple[str, ...]], list[float]] = {}
        for p in self.points:
            plain_us = plain.get((p.source, p.values))
            if p.flags and p.status == "ok" and plain_us:
                logs.setdefault((p.source, p.flags), []).append(math.log(p.us / plain_us))
        return {key: math.exp(sum(logarithms) / len(logarithms)) for key, logarithms in logs.items()}

    def domains(self, unit: Unit) -> dict[str, tuple[int, ...]] | None:
        """Return the settings of a unit's tunables that were recorded, in all combinations; None for a source that was not."""
        source = self._spaces.get((unit.region.nodes, unit.family, unit.technique))
        if source is None:
            return None
        # A unit's text may have earlier names.
        macros = dict(zip(unit.current_values, unit.values, strict=True))
        return {macros.get(n, n): domain for n, domain in zip(source.names, source.domains, strict=True)}

    def merge_remeasurements(self) -> Landscape:
        """Set each point to the median of its measurements: the best of a hundred that were measured once is mostly a lucky one."""
        groups: dict[tuple[int, str], list[int]] = {}
        for i, p in enumerate(self.points):
            key = (self.sources[p.source].site, p.code) if p.code else (-1, str(i))
            groups.setdefault(key, []).append(i)
        members = {i: group for group in groups.values() for i in group}
        remeasurements: dict[int, list[Remeasurement]] = {}
        for remeasurement in self.agains:
            remeasurements.setdefault(members[remeasurement.number][0], []).append(remeasurement)
        points = list(self.points)
        for first, group_remeasurements in remeasurements.items():
            times = {
                k: float(
                    np.median([getattr(points[first], k), *(getattr(a, k) for a in group_remeasurements)])
                )
                for k in ("us", "low", "high")
            }
            for i in members[first]:
                points[i] = points[i].model_copy(update=times)
        return self.model_copy(update={"points": tuple(points), "agains": ()})

    def drop_incomplete(self) -> Landscape:
        """Drop values of which some combinations are missing, and their points: a recording may end early."""
        plain: dict[int, list[tuple[int, ...]]] = {}
        for p in self.points:
            if not p.flags:
                plain.setdefault(p.source, []).append(p.values)
        domains = [
            _find_full_lattice(s.domains, plain.get(number, [])) for number, s in enumerate(self.sources)
        ]
        sources = tuple(
            s.model_copy(update={"domains": d}) for s, d in zip(self.sources, domains, strict=True)
        )
        complete_points = [
            i for i, p in enumerate(self.points)
            if all(v in d for v, d in zip(p.values, domains[p.source], strict=True))
        ]  # fmt: skip
        new_numbers = {old_number: new_number for new_number, old_number in enumerate(complete_points)}
        wholes = tuple(
            w.model_copy(update={"points": tuple(new_numbers[i] for i in w.points)})
            for w in self.wholes
            if new_numbers.keys() >= set(w.points)
        )
        points = tuple(self.points[i] for i in complete_points)
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
        """The fastest baseline that works."""
        return min((b for b in self.header.baselines if b.ok), key=lambda b: b.median_us)

    def whole_us(self, points: Sequence[Point]) -> float:
        """Compute the additive model: units alone, uncovered ATen operations alone, and the calls."""
        covered = {n for p in points for n in self.sites[self.sources[p.source].site].nodes}
        uncovered_us = sum(us for name, us in self.node_us.items() if name not in covered)
        return uncovered_us + sum(hardware_of(self.header.target).in_candidate_us(p.us) for p in points)

    @cached_property
    def best_us(self) -> float:
        """The fastest candidate that the model knows of any cut into the recorded sites, disjoint ones taken greedily."""
        fastest: dict[int, Point] = {}
        for point in self.points:
            site = self.sources[point.source].site
            if point.status == "ok" and (site not in fastest or point.us < fastest[site].us):
                fastest[site] = point
        return _find_best_cover(self, fastest)

    def correlate_model(self) -> float:
        """Compute Spearman's rank correlation between the model and the candidates timed as deployed; NaN for fewer than three."""
        modelled = [self.whole_us([self.points[i] for i in w.points]) for w in self.wholes]
        return rank_correlation(modelled, [w.us for w in self.wholes])


def _find_full_lattice(
    domains: Sequence[Sequence[int]], recorded: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], ...]:
    """Find domains whose combinations were all recorded: drop the value that most missing ones have, until none is missing.
    The values of the first point, the technique's defaults, stay.
    """
    remaining, recorded_set = [list(d) for d in domains], set(recorded)
    while recorded and (missing := [c for c in product(*remaining) if c not in recorded_set]):
        counts = Counter((i, v) for c in missing for i, v in enumerate(c) if v != recorded[0][i])
        index, value = max(counts, key=lambda key: counts[key] * len(remaining[key[0]]))
        remaining[index].remove(value)
    return tuple(map(tuple, remaining))


def _find_best_cover(landscape: Landscape, fastest: Mapping[int, Point]) -> float:
    """Search all sets of disjoint sites, which are few, for the fastest."""
    sites = [(frozenset(landscape.sites[i].nodes), p) for i, p in fastest.items()]
    best = math.inf

    def extend(start: int, covered: frozenset[str], chosen: tuple[Point, ...]) -> None:
        nonlocal best
        if chosen:
            best = min(best, landscape.whole_us(chosen))
        for index in range(start, len(sites)):
            nodes, point = sites[index]
            if not nodes & covered:
                extend(index + 1, covered | nodes, (*chosen, point))

    extend(0, frozenset(), ())
    return best


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Compute Spearman's rank correlation, ties at their mean rank; NaN for fewer than three pairs or a constant side."""
    if len(first) < 3 or len(set(first)) == 1 or len(set(second)) == 1:
        return math.nan
    pair = [np.asarray(side, dtype=np.float64)[:, None] for side in (first, second)]
    ranks = [(side > side.T).sum(axis=1) + (side == side.T).sum(axis=1) / 2 for side in pair]
    return float(np.corrcoef(ranks)[0, 1])
