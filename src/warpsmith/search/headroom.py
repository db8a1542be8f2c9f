"""The time that the best candidate spends, region by region, and how much of that could still go.

In: a situation whose best candidate was profiled. Out: a `Room` for each region that some correct candidate has a unit for, one for
what the best leaves to ATen, and the factor that is possible at the most. A region's limit is the speed of light that the judge
measured for it; what is left to ATen could at the least move its operands once and do its arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..agents.base import Attempt, Situation
from ..agents.expert.ideas import Place
from ..agents.findings import BEATEN, fastest, is_near, list_settled
from ..kernels.costs import floor_us, node_us
from ..records import Graph, Limit, Region, RegionProfile
from ..tasks.regions import boundary

REST = ""  # stands for what the best candidate leaves to ATen


@dataclass(frozen=True)
class Room:
    region: str  # id; REST for what has no unit
    share: float  # of the best candidate's time
    gain_left: float  # factor on the whole task that is still possible there; 1.0 near the limit


class Headroom:
    """`steered`: whether a region near its limit counts as done; otherwise it counts with all there is up to the limit."""

    def __init__(self, situation: Situation, best: Attempt, steered: bool = True) -> None:
        results = [a.result for a in situation.attempts]
        self.seen = fastest(results)
        self.closed = list_settled(results) if steered else {}
        worked = [u for a in situation.attempts if a.speedup > 0 for u in a.candidate.units]
        self.regions = {u.region.id: u.region for u in worked if u.region.id in self.seen}
        self._graph, self._facts, self._best = situation.graph, situation.facts, best
        self._place = Place(self._graph, self._facts, self.regions, best.result)
        self._total = self._place.total
        self._floor = _floor_us(situation.limit, self._total)
        self._rest_us, self._rest_saves = self._rest()

    def rooms(self) -> list[Room]:
        """Most to gain first."""
        rooms = [
            Room(key, min(1.0, self._place.spent(region) / self._total), self._gain(self._saves(region)))
            for key, region in self.regions.items()
        ]
        if self._rest_us > 0:
            rooms.append(Room(REST, self._rest_us / self._total, self._gain(self._rest_saves)))
        return sorted(rooms, key=lambda r: -r.gain_left)

    def possible(self) -> float:
        """Every region of the best at its limit and the best of the other cuts as well, never beyond the limit of the whole."""
        covered = {u.region.id for u in self._best.candidate.units}
        saved = sum(self._saves(r) for key, r in self.regions.items() if key in covered)
        elsewhere = max(
            (self._saves(r) for key, r in self.regions.items() if key not in covered), default=0.0
        )
        return self._gain(saved + elsewhere + self._rest_saves)

    def _gain(self, saved: float) -> float:
        """Amdahl's law; `saved`: microseconds."""
        return max(1.0, self._total / max(self._total - saved, self._floor, 1e-9))

    def _saves(self, region: Region) -> float:
        """Microseconds off the whole with the region at its limit; near it already, with the fastest unit that it has."""
        profiles = self.seen[region.id]
        us = profiles.seconds * 1e6
        if region.id not in self.closed:
            us = self._limit_us(profiles)
        elif self._near_now(region):
            return 0.0
        return max(0.0, self._total - self._place.whole_us(region, us))

    def _near_now(self, region: Region) -> bool:
        profile = self._best.result.profile
        profiles = profile.regions if profile is not None else ()
        return any(p.region == region.id and is_near(p) for p in profiles)

    def _limit_us(self, seen: RegionProfile) -> float:
        """A region's limit; one that is beaten counted arithmetic that need not be done, so only its bytes limit it."""
        us = seen.seconds * 1e6
        if seen.limit_share > BEATEN:
            return min(us, seen.least_bytes / self._facts.bandwidth * 1e6)
        return us * min(1.0, seen.limit_share)

    def _rest(self) -> tuple[float, float]:
        """Microseconds in ATen's operations, as far as the measured whole has them, and how many of these could go."""
        covered = {n for u in self._best.candidate.units for n in u.region.nodes}
        names = [n.name for n in self._graph.nodes if n.name not in covered]
        if not names:
            return 0.0, 0.0
        alone = sum(node_us(self._graph, self._graph.by_name[n], self._facts) for n in names)
        us = min(alone, max(0.0, self._total - sum(us for _, us in self._place.units)))
        return us, max(0.0, us - floor_us(self._graph, _as_one(self._graph, names), self._facts))


def _floor_us(limit: Limit, total_us: float) -> float:
    """The limit of the whole; of its bytes alone where the best candidate beats it."""
    if total_us * BEATEN < limit.seconds * 1e6:
        return limit.least_bytes / limit.bytes_per_second * 1e6
    return limit.seconds * 1e6


def headroom(situation: Situation, steered: bool = True) -> Headroom | None:
    """None before the best candidate was profiled."""
    best = situation.best
    if best is None or best.result.profile is None or not best.result.profile.regions:
        return None
    return Headroom(situation, best, steered)


def _as_one(graph: Graph, names: list[str]) -> Region:
    """The nodes as if one kernel did them all, connected or not: the least that they must move."""
    inputs, outputs = boundary(graph, tuple(graph.by_name[n] for n in names))
    return Region(nodes=tuple(names), inputs=inputs, outputs=outputs, signature="")
