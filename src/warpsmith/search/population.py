"""The population: islands of attempts that evolve apart, exchange their best now and then, and keep one elite for each behaviour.

In: judged attempts, each with the island that proposed it. Out: parents, pairs of parents, migrations, and what there is to report. An
island keeps the best attempt of each cell (MAP-Elites: Mouret and Clune, https://arxiv.org/abs/1504.04909), so that a slower line of
descent that works differently lives on. Islands form a ring; at a migration each sends its best to the next.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

from ..agents.base import Attempt
from ..agents.findings import findings
from ..records import Elite, IslandUse, Migration, RegionProfile, Unit
from ..records.intervals import find_point
from .selection import By, beats, pick, rank_of

# What a finding says of the bottleneck of a unit; what is not here is as its limit: memory or compute.
CLASS = {
    "uneven": "balance",
    "scalar": "compute",
    "narrow": "compute",
    "short": "overhead",
    "traffic": "memory",
    "arithmetic": "compute",
}
PAIRED = 12  # attempts whose pairs are looked at


@dataclass(frozen=True, order=True)
class Cell:
    """A behaviour: attempts in one cell compete, those in different ones do not."""

    bottleneck: str  # of the unit with most time: memory, compute, balance, overhead, latency, unknown
    technique: str  # of each unit, in graph order
    cover: str  # ids of the regions that have units, in graph order


def cell_of(attempt: Attempt) -> Cell:
    units = attempt.candidate.units
    return Cell(
        bottleneck=_bottleneck(attempt),
        technique=" + ".join(f"{u.family}/{u.technique}" for u in units),
        cover=" + ".join(u.region.id for u in units),
    )


def alone_us(attempt: Attempt, unit: Unit) -> float:
    """Microseconds of one of the candidate's units alone; infinite where that was not timed."""
    timing = attempt.result.timing
    return timing.unit_us.get(unit.region.id, float("inf")) if timing is not None else float("inf")


def sure_alone_us(attempt: Attempt, unit: Unit) -> float:
    """Microseconds of a unit alone that it surely does not exceed: as uncertain as the candidate's time, which was measured in the same minute."""
    timing = attempt.result.timing
    noise = timing.high_us / timing.median_us if timing is not None and timing.median_us > 0 else 1.0
    return alone_us(attempt, unit) * max(1.0, noise)


@dataclass
class Island:
    """The attempts of one island that worked. `cells`: the best of each behaviour."""

    members: dict[str, Attempt] = field(default_factory=dict)  # by content key
    cells: dict[Cell, Attempt] = field(default_factory=dict)

    def add(self, attempt: Attempt, by: By) -> bool:
        """Add an attempt; return whether it was not there."""
        key = attempt.candidate.content_key
        if key in self.members:
            return False
        self.members[key] = attempt
        cell = cell_of(attempt)
        if cell not in self.cells or rank_of(attempt, by) > rank_of(self.cells[cell], by):
            self.cells[cell] = attempt
        return True

    def replace(self, attempts: Mapping[str, Attempt], by: By) -> None:
        """Put these attempts, by content key, in the place of members: their profiles may say something else of them now."""
        members = [attempts.get(key, attempt) for key, attempt in self.members.items()]
        self.members, self.cells = {}, {}
        for attempt in members:
            if attempt.speedup > 0:  # else a verdict went against it
                self.add(attempt, by)


class Population:
    """`islands`: how many. `migrate_every`: rounds from one migration to the next. `elites`: whether parents are the best of each
    cell, or any member. `by`: what ranks go by, see `selection`.
    """

    def __init__(
        self, islands: int = 3, migrate_every: int = 3, elites: bool = True, by: By = "interval"
    ) -> None:
        if islands < 1 or migrate_every < 1:
            raise ValueError(
                "a population has at least one island, and at least one round between migrations"
            )
        self.islands = [Island() for _ in range(islands)]
        self.migrations: list[Migration] = []
        self._every, self._elites, self._by = migrate_every, elites, by
        self.pinned: Attempt | None = None  # the first parent on every island, whatever its rank

    def add(self, attempt: Attempt, island: int) -> None:
        """Add an attempt, unless it failed. `island` counts round: any number will do."""
        if attempt.speedup > 0:
            self.islands[island % len(self.islands)].add(attempt, self._by)

    def pin(self, attempt: Attempt | None) -> None:
        """Make an attempt the first parent; None: let go of the one that is."""
        self.pinned = attempt

    def replace(self, attempts: Mapping[str, Attempt]) -> None:
        """Put these attempts, by content key, in the place of members that are the same candidates."""
        if self.pinned is not None:
            pinned = attempts.get(self.pinned.candidate.content_key, self.pinned)
            self.pinned = pinned if pinned.speedup > 0 else None  # a verdict went against it
        for island in self.islands:
            island.replace(attempts, self._by)

    def best(self, island: int | None = None) -> Attempt | None:
        """Return the best of one island, or of all."""
        candidates = (
            self._everyone() if island is None else self.islands[island % len(self.islands)].members.values()
        )
        return max(candidates, key=lambda a: rank_of(a, self._by), default=None)

    @property
    def cells(self) -> dict[Cell, Attempt]:
        """The best of each behaviour over all islands."""
        cells: dict[Cell, Attempt] = {}
        for island in self.islands:
            for cell, attempt in island.cells.items():
                if cell not in cells or rank_of(attempt, self._by) > rank_of(cells[cell], self._by):
                    cells[cell] = attempt
        return cells

    def parents(self, island: int, n: int, rng: random.Random, every: bool = False) -> list[Attempt]:
        """At most `n` different ones, of distinct branches first. An island without any takes from all the others. `every`: any
        member that works, for when the elites have nothing new to offer.
        """
        pool = list(self.islands[island % len(self.islands)].members.values()) if every else []
        pool = pool or self._pool(island)
        order = pick(pool, len(pool), rng, self._by)
        first = {a.candidate.lineage.branch: a for a in reversed(order)}
        leaders = [a for a in order if first[a.candidate.lineage.branch] is a]
        pinned = [self.pinned] if self.pinned is not None else []
        ranked = [*leaders, *(a for a in order if a not in leaders)]
        return [*pinned, *(a for a in ranked if a not in pinned)][:n]

    def migrate(self, round: int) -> list[tuple[int, int, Attempt]]:
        """The migrations that were made after this round (from 0): (from, to, who). None to an island that has it already."""
        count = len(self.islands)
        if count == 1 or (round + 1) % self._every:
            return []
        bests = [self.best(island) for island in range(count)]
        migrations: list[tuple[int, int, Attempt]] = []
        for source, migrant in enumerate(bests):
            target = (source + 1) % count
            if migrant is not None and self.islands[target].add(migrant, self._by):
                migrations.append((source, target, migrant))
                self.migrations.append(
                    Migration(round=round, source=source, target=target, candidate_id=migrant.candidate.id)
                )
        return migrations

    def pairs(self, island: int, n: int, rng: random.Random) -> list[tuple[Attempt, Attempt]]:
        """At most `n` pairs that complement each other, those first whose units put together promise most; the better parent is
        the first of a pair.
        """
        picked = pick(self._pool(island), PAIRED, rng, self._by)
        pairs = [
            (first, second) if not beats(second, first) else (second, first)
            for first, second in combinations(picked, 2)
        ]
        pairs = [pair for pair in pairs if pair[0].candidate.units != pair[1].candidate.units]
        return sorted(pairs, key=lambda pair: -complement(*pair))[:n]

    def summary(self) -> tuple[IslandUse, ...]:
        """For the run's record."""
        return tuple(self._use(number) for number in range(len(self.islands)))

    def _use(self, number: int) -> IslandUse:
        island = self.islands[number]
        best = self.best(number)
        return IslandUse(
            candidates=len(island.members), best=_find_point(best) if best is not None else 0.0,
            label=best.candidate.lineage.branch if best is not None else "",
            elites=tuple(_elite(cell, a) for cell, a in sorted(island.cells.items())),
            arrived=tuple(m for m in self.migrations if m.target == number),
        )  # fmt: skip

    def _pool(self, island: int) -> list[Attempt]:
        members = self.islands[island % len(self.islands)]
        if not members.members:
            return list(self.cells.values()) if self._elites else self._everyone()
        return list(members.cells.values()) if self._elites else list(members.members.values())

    def _everyone(self) -> list[Attempt]:
        return list({key: a for island in self.islands for key, a in island.members.items()}.values())


def complement(one: Attempt, other: Attempt) -> float:
    """Microseconds that the first parent may save by the other's units: those that are faster alone on the same region, and
    those on nodes that it leaves to ATen, which count with their own time.
    """
    units = {u.region.id: u for u in one.candidate.units}
    covered = {n for u in one.candidate.units for n in u.region.nodes}
    saved = 0.0
    for unit in other.candidate.units:
        us = alone_us(other, unit)
        if unit.region.id in units:
            own_us = alone_us(one, units[unit.region.id])
            saved += max(0.0, own_us - us) if own_us < float("inf") else 0.0
        elif not covered & set(unit.region.nodes) and us < float("inf"):
            saved += us
    return saved


def _find_point(attempt: Attempt) -> float:
    return find_point(attempt.ratio) if attempt.ratio is not None else 0.0


def _bottleneck(attempt: Attempt) -> str:
    """Measured where the candidate was profiled, else what its hypothesis says."""
    profile = attempt.result.profile
    slowest = max(profile.regions, key=lambda p: p.seconds, default=None) if profile is not None else None
    if slowest is not None:
        return _class(slowest)
    return attempt.hypothesis.bottleneck if attempt.hypothesis is not None else "unknown"


def _class(seen: RegionProfile) -> str:
    first = next(iter(findings(seen)), None)
    return CLASS.get(first.kind, seen.bottleneck) if first is not None else seen.bottleneck


def _elite(cell: Cell, attempt: Attempt) -> Elite:
    return Elite(
        bottleneck=cell.bottleneck, technique=cell.technique, cover=cell.cover,
        candidate_id=attempt.candidate.id, speedup=_find_point(attempt),
    )  # fmt: skip
