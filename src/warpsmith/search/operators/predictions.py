"""Candidates that can be put together from all that can be written, and their predicted times.

In: cuts of a graph, techniques for their regions, and the experience with times. Out: covers of the graph, each with the time that is
likeliest, as a sum: of its units, of what it leaves to ATen as measured, and of the calls.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...agents.base import Attempt
from ...archive.timings import TimedUnit, once
from ...hardware import Hardware
from ...kernels.costs import node_us, predict_us, region_bytes
from ...records import Region, Unit
from ...tasks.twins import find_twins
from ..experience import Experience, Floats, Key, Pool, list_timed_units, make_key
from ..layers import rebind
from ..tuner import every_setting, with_values
from .base import SearchContext

MOST = 1_000  # ideas, and settings of a technique, that are looked at
ABOVE = (
    0.5  # of the logarithm of a region's time: by how much it is expected above the least that is hoped for
)
LITTLE = 0.1  # of a candidate's time: below it what ATen takes there is mostly noise
CURIOUS = 0.7  # standard deviations by which a unit that was not measured may be faster than is likeliest
Cover = dict[str, int]  # region → number of a unit in its pool


@dataclass(frozen=True)
class PredictedCandidate:
    log_us: float
    plan: int  # the cut that it began with
    cover: Cover


class CandidateSpace:
    """All that could be written: the cuts, and for each region every technique at every setting, without and with one more flag."""

    def __init__(self, context: SearchContext, experience: Experience) -> None:
        self.graph, self.facts = context.situation.graph, context.situation.facts
        plans = context.team.reasoning.plans(context.situation, MOST)
        self.regions: dict[str, Region] = {r.id: r for plan in plans for r in plan}
        self.plans = [[r.id for r in plan] for plan in plans]
        self.twins = find_twins(self.graph, self.regions.values())
        self._pools: dict[str, Pool] = {}  # by the first of equal regions
        bases = [b for b in _techniques(context) if self.find_first(b.region.id) == b.region.id]
        for region in self.regions.values():
            units = [u for base in bases if base.region.id == region.id for u in _settings(context, base)]
            if units:
                level = math.log(max(1.0, predict_us(self.graph, region, self.facts))) + ABOVE
                self._pools[region.id] = experience.pool(region.id, units, level)

    def find_first(self, region: str) -> str:
        """Return the first of the regions that equal this one, whose times are its times."""
        return self.twins.get(region, region)

    def find_pool(self, region: str) -> Pool | None:
        """Return what could be written for a region, and for all that equal it; None for nothing."""
        return self._pools.get(self.find_first(region))

    def list_covered(self) -> list[str]:
        """List the regions that something could be written for."""
        return [region for region in self.regions if self.find_pool(region) is not None]

    def make_unit(self, region: str, at: int) -> Unit:
        return rebind(self._pools[self.find_first(region)].units[at], self.regions[region])

    def find_least_log_us(self, region: str) -> float:
        """The logarithm of the least microseconds that a region's bytes take."""
        return _log(region_bytes(self.graph, self.regions[region]) / self.facts.bandwidth * 1e6)

    def aten_us(self, attempts: Sequence[Attempt]) -> tuple[float, dict[str, float]]:
        """Return ATen's time for the whole reference, and for each region. Operations take longer in a candidate, where caches are cold, than
        alone: by the factor seen in candidates so far.
        """
        nodes = {n.name: node_us(self.graph, n, self.facts) for n in self.graph.nodes}
        alone = seen_us = sum(nodes.values())
        for attempt in attempts:
            aten_us, us = _left(attempt, nodes, self.facts.hardware)
            alone, seen_us = alone + aten_us, seen_us + us
        scale = seen_us / alone if alone > 0 else 1.0
        regions = {name: scale * sum(nodes[n] for n in r.nodes) for name, r in self.regions.items()}
        return scale * sum(nodes.values()), regions


class Predictions:
    """At one moment. `known`: units, by region, that are like others in other words."""

    def __init__(
        self,
        offer: CandidateSpace,
        experience: Experience,
        context: SearchContext,
        known: Collection[tuple[str, Key]],
    ) -> None:
        self._offer, situation = offer, context.situation
        self._total, self._aten = offer.aten_us(situation.attempts)
        first, pools = (
            offer.find_first,
            {r: p for r in offer.regions if (p := offer.find_pool(r)) is not None},
        )
        pools = {region: pool for region, pool in pools.items() if first(region) == region}
        timed = once(_move(u, first(u.group[-1])) for u in list_timed_units(situation.attempts))
        experience.learn(timed, {region: pool.level for region, pool in pools.items()})
        logs = {(u.group[-1], make_key(u)): math.log(u.seconds * 1e6) for u in timed}
        units = [u for a in situation.attempts for u in a.candidate.units]
        judged = {(first(u.region.id), make_key(u)) for u in units} | {(first(r), key) for r, key in known}
        self._judged = {_name_units(a.candidate.units) for a in situation.attempts}
        self._logs: dict[str, Floats] = {}  # by the first of equal regions
        self._new: dict[str, list[int]] = {}  # the same → units that were not measured, most promising first
        for region, pool in pools.items():
            likeliest, spread = experience.log_us(pool)
            estimates = likeliest - CURIOUS * spread
            keys = [(region, key) for key in pool.keys]
            for at, unit_key in enumerate(keys):
                estimates[at] = logs.get(unit_key, math.inf if unit_key in judged else estimates[at])
            order = [int(at) for at in np.argsort(estimates, kind="stable")]
            floor_log_us = offer.find_least_log_us(region)
            for at, unit_key in enumerate(
                keys
            ):  # no promise exceeds the region's limit; what was measured is none
                estimates[at] = estimates[at] if unit_key in logs else max(estimates[at], floor_log_us)
            self._logs[region] = estimates
            self._new[region] = [at for at in order if keys[at] not in logs and estimates[at] < math.inf]

    def best(self, n: int) -> list[PredictedCandidate]:
        """At most `n` that were not judged, best first: each cut at its best, and with one unit that is new."""
        candidates = [p for cover in self._covers() for p in (cover, *self._vary(cover, n))]
        unjudged = {
            name: p
            for p in sorted(candidates, key=lambda p: -p.log_us)
            if (name := self._name(p)) not in self._judged
        }
        return sorted(unjudged.values(), key=lambda p: p.log_us)[:n]

    def log_us(self, units: Iterable[Unit]) -> float:
        """Predict the logarithm of a candidate's time; infinite where one of its units is not on offer."""
        us = self._total
        for unit in units:
            pool, key = self._offer.find_pool(unit.region.id), make_key(unit)
            if pool is None or key not in pool.keys:
                return math.inf
            us -= self._compute_saving(unit.region.id, pool.keys.index(key))
        return _log(us)

    def _covers(self) -> Iterator[PredictedCandidate]:
        """Each cut without the regions that ATen does faster, and with those of other cuts that fit in beside it."""
        first = {region: self._find_first(region) for region in self._offer.list_covered()}
        saved = {region: self._compute_saving(region, at) for region, at in first.items()}
        by_gain = sorted((r for r in saved if saved[r] > 0), key=lambda r: -saved[r])
        for number, plan in enumerate(self._offer.plans):
            cover: Cover = {}
            covered: set[str] = set()
            for region in [*(r for r in plan if saved.get(r, 0.0) > 0), *by_gain]:
                nodes = self._offer.regions[region].nodes
                if not covered.intersection(nodes):
                    cover[region] = first[region]
                    covered.update(nodes)
            if cover:
                yield PredictedCandidate(_log(self._total - sum(saved[r] for r in cover)), number, cover)

    def _find_first(self, region: str) -> int:
        """The fastest unit of a region; of those that are promised the limit the one that would exceed it by most."""
        logs, new = self._logs[self._offer.find_first(region)], self._new[self._offer.find_first(region)]
        fastest = int(np.argmin(logs))
        return new[0] if new and logs[new[0]] == logs[fastest] else fastest

    def _vary(self, promise: PredictedCandidate, n: int) -> Iterator[PredictedCandidate]:
        """With another unit in a region, and in all of the cover that equal it and have the same one."""
        groups: dict[tuple[str, int], list[str]] = {}
        for region, at in promise.cover.items():
            groups.setdefault((self._offer.find_first(region), at), []).append(region)
        for (first, at), regions in groups.items():
            for alternative in self._new[first][:n]:
                us = math.exp(promise.log_us) + sum(
                    self._compute_saving(r, at) - self._compute_saving(r, alternative) for r in regions
                )
                cover = {**promise.cover, **dict.fromkeys(regions, alternative)}
                yield PredictedCandidate(_log(us), promise.plan, cover)

    def _compute_saving(self, region: str, at: int) -> float:
        """Microseconds that a unit saves against ATen."""
        log = float(self._logs[self._offer.find_first(region)][at])
        in_candidate_us = self._offer.facts.hardware.in_candidate_us
        return self._aten[region] - in_candidate_us(math.exp(log)) if log < math.inf else -math.inf

    def _name(self, promise: PredictedCandidate) -> frozenset[tuple[str, Key]]:
        pools = {region: self._offer.find_pool(region) for region in promise.cover}
        return frozenset((r, pool.keys[promise.cover[r]]) for r, pool in pools.items() if pool is not None)


def _left(attempt: Attempt, nodes: Mapping[str, float], hardware: Hardware) -> tuple[float, float]:
    """Microseconds of the operations that a candidate leaves to ATen: alone, and what was seen there. Zeros where it is little."""
    timing, units = attempt.result.timing, attempt.candidate.units
    aten_us = sum(us for name, us in nodes.items() if all(name not in u.region.nodes for u in units))
    if (
        timing is None
        or attempt.screened
        or len(timing.unit_us) < len(units)
        or aten_us < LITTLE * timing.median_us
    ):
        return 0.0, 0.0
    return aten_us, max(0.0, timing.median_us - sum(map(hardware.in_candidate_us, timing.unit_us.values())))


def _techniques(context: SearchContext) -> list[Unit]:
    """One unit for each technique of each region, the most promising first."""
    units: dict[tuple[str, str, str], Unit] = {}
    for idea in context.team.reasoning.propose(context.situation, MOST):
        key = idea.region.id, idea.family, idea.technique
        if key not in units:
            for unit in context.team.synthesis.write(context.situation.graph, idea, 1, context.situation):
                units[key] = unit
    return list(units.values())


def _settings(context: SearchContext, unit: Unit) -> Iterator[Unit]:
    """The unit as it is written, then at its other settings; then each of these with one more flag."""
    variants = (with_values(unit, values) for values in (every_setting(unit) or [])[:MOST])
    plain = [unit, *(u for u in variants if u.values != unit.values)]
    yield from plain
    for variant in plain:
        yield from context.team.compile.flag_variants(variant)


def _move(unit: TimedUnit, region: str) -> TimedUnit:
    """Count a unit's time as that of another region, which equals its own."""
    return replace(unit, group=(*unit.group[:-1], region))


def _name_units(units: Iterable[Unit]) -> frozenset[tuple[str, Key]]:
    return frozenset((u.region.id, make_key(u)) for u in units)


def _log(us: float) -> float:
    return math.log(max(us, 1e-3)) if us < math.inf else math.inf
