"""The parts that operators share: the context they work in, what they return, and how units are put together.

In: a situation, the agents, the population, and transfer seeds of other tasks. Out: `Proposal`: candidates with their lineage, the
hypothesis each is to test, and the island that it will live on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...agents.base import Attempt, Situation
from ...records import Candidate, Hypothesis, Lineage, Region, Unit
from ..experience import Experience
from ..layers import list_alike, rebind, share_sources
from ..population import Population, alone_us
from ..selection import By, rank_attempts, reach_of, worth_of
from ..steering import Steering
from ..team import Team

EVERYONE = 1 << 30
MIN_PARENT_SHARE = (
    0.6  # share of what is sure of the best speedup: a candidate that cannot reach it is no parent
)


@dataclass(frozen=True)
class Proposal:
    candidate: Candidate
    hypothesis: Hypothesis | None = None
    island: int = 0


@dataclass(frozen=True)
class TransferSeed:
    """A sound unit of another task. `alike`: 1.0 for a region of the same signature, less for one of like operations."""

    unit: Unit
    candidate_id: str  # that it is from
    alike: float = 1.0
    speedup: float = 0.0  # of that candidate, over its best baseline


TransferSeeds = Callable[[Region], Sequence[TransferSeed]]  # most telling first


def find_no_seeds(region: Region) -> Sequence[TransferSeed]:
    """There is no other task."""
    return ()


@dataclass(frozen=True)
class SearchContext:
    """The view of a search that an operator has in one round. `island`: the one whose parents it takes, where it does not look at all of them."""

    situation: Situation
    team: Team
    population: Population
    steering: Steering
    rng: random.Random
    transfer_seeds: TransferSeeds = find_no_seeds
    by: By = "interval"
    experience: Experience | None = None
    adopted: Sequence[Candidate] = ()  # kernels of others for this task
    island: int = 0
    variants: int = 1  # units a hypothesis
    edits: int | None = None  # that the synthesis agent may be asked for; None: as many as there is room for
    free: bool = False  # no model may be asked
    stalled: bool = False  # the last rounds brought no gain
    opened: dict[str, bool] = field(default_factory=dict, compare=False)

    @property
    def asks(self) -> bool:
        """True if writing a unit costs a question to a model."""
        return self.team.synthesis.asks

    @property
    def writes(self) -> bool:
        """True if the synthesis agent may be asked for units."""
        return not (self.free and self.asks)

    def parents(self, n: int) -> list[Attempt]:
        """At most `n` of the island, without those that are too slow to be worth more work."""
        parents = self.population.parents(self.island, EVERYONE, self.rng, every=self.free)
        return [a for a in parents if self._hopeful(a)][:n]

    def _hopeful(self, attempt: Attempt) -> bool:
        if attempt is self.population.pinned:
            return True
        best = self.population.best()
        return best is not None and reach_of(attempt, self.by) >= MIN_PARENT_SHARE * worth_of(best, self.by)

    def leaders(self) -> list[tuple[int, Attempt]]:
        """The best of each island that has one, best island first."""
        leaders = [
            (number, best)
            for number in range(len(self.population.islands))
            if (best := self.population.best(number)) is not None
        ]
        order = {id(a): i for i, a in enumerate(rank_attempts([a for _, a in leaders], self.by))}
        return sorted(leaders, key=lambda pair: order[id(pair[1])])

    def find_host(self, region: Region) -> tuple[int, Attempt | None]:
        """Island and candidate that a unit for the region fits into: the best leader that covers all of it by one unit for
        the same region, or none of it; else the best of all. (0, None) while nothing works.
        """
        leaders = [(i, a) for i, a in self.leaders() if self._hopeful(a)]
        if self.population.pinned is not None:
            leaders.insert(0, (leaders[0][0] if leaders else 0, self.population.pinned))
        for number, leader in leaders:
            touched = [u for u in leader.candidate.units if set(u.region.nodes) & set(region.nodes)]
            if all(u.region.id == region.id for u in touched):
                return number, leader
        return leaders[0] if leaders else (0, None)

    def open(self, region: Region) -> bool:
        """Return whether the region is worked on. This is asked often, so that the answer is kept for the round."""
        if region.id not in self.opened:
            self.opened[region.id] = self.steering.open(self.situation, region.id)
        return self.opened[region.id]

    def open_units(self, parent: Attempt) -> list[Unit]:
        """The parent's units in regions that are worked on, the one with most time above its limit first."""
        units = [u for u in parent.candidate.units if self.open(u.region)]
        return sorted(units, key=lambda u: -to_gain(parent, u))

    def quotas(self, parent: Attempt, n: int) -> list[tuple[Unit, int]]:
        """`n` places over the parent's open units, by what steering says of their regions; where it knows nothing, all of them
        for the unit with most to gain, and then for the next.
        """
        split = self.steering.split(self.situation, n)
        units = self.open_units(parent)
        steered = [(u, split[u.region.id]) for u in units if split.get(u.region.id, 0) > 0]
        return [*steered, *((u, n) for u in units)]

    def list_judged_keys(self, region: Region) -> set[str]:
        """Code keys of the units for a region that were judged."""
        units = (u for a in self.situation.attempts for u in a.candidate.units)
        return {u.code_key for u in units if u.region.id == region.id}


class Operator(Protocol):
    """`everywhere`: it looks at all islands at once, so that it is asked once a round."""

    name: str
    everywhere: bool

    def applies(self, context: SearchContext) -> bool:
        """Return whether it could have anything to offer; cheap, asks no model."""
        ...

    def propose(self, context: SearchContext, n: int) -> list[Proposal]:
        """At most `n` candidates, the most promising first. What they share with those judged is sorted out behind them."""
        ...


def branch_of(units: Sequence[Unit]) -> str:
    """The line of descent a candidate belongs to: which regions, by which techniques; values and flags do not matter."""
    return " + ".join(f"{u.family}/{u.technique}@{u.region.id[:6]}" for u in units)


def assemble(situation: Situation, units: Iterable[Unit], lineage: Lineage) -> Candidate:
    """A candidate of disjoint units in graph order; those for equal layers have one source."""
    order = {node.name: i for i, node in enumerate(situation.graph.nodes)}
    ordered = share_sources(situation.graph, sorted(units, key=lambda u: order[u.region.nodes[0]]))
    lineage = lineage.model_copy(update={"branch": branch_of(ordered), "round": situation.round})
    return Candidate(task_id=situation.task.id, target=situation.target, units=ordered, lineage=lineage)


def insert(
    situation: Situation, parent: Attempt | None, units: Sequence[Unit], lineage: Lineage
) -> Candidate:
    """The parent's units, less those that overlap, plus `units`; the parent comes first in the lineage."""
    units_kept = parent.candidate.units if parent is not None else ()
    units_kept = tuple(u for u in units_kept if all(disjoint(u, inserted) for inserted in units))
    parent_ids = (parent.candidate.id,) if parent is not None else ()
    lineage = lineage.model_copy(update={"parents": (*parent_ids, *lineage.parents)})
    return assemble(situation, [*units_kept, *units], lineage)


def swap(situation: Situation, parent: Attempt, old: Unit, new: Unit | None, lineage: Lineage) -> Candidate:
    """The parent with one unit replaced, or dropped, in all layers that have it. Its hypothesis is the parent's."""
    alike = list_alike(situation.graph, parent.candidate.units, old)
    units = [
        (None if new is None else rebind(new, u.region)) if u.region.id in alike else u
        for u in parent.candidate.units
    ]
    update = {"parents": (parent.candidate.id,), "hypothesis": parent.candidate.lineage.hypothesis}
    return assemble(situation, [u for u in units if u is not None], lineage.model_copy(update=update))


def disjoint(one: Unit, other: Unit) -> bool:
    return not set(one.region.nodes) & set(other.region.nodes)


def to_gain(attempt: Attempt, unit: Unit) -> float:
    """Microseconds above the unit's limit; all of its time where it was not profiled."""
    profile = attempt.find_profile(unit)
    return alone_us(attempt, unit) * (max(0.0, 1.0 - profile.limit_share) if profile is not None else 1.0)


def changes(old: Unit, new: Unit) -> str:
    """Describe what differs between two units for one region, in a line."""
    differences = (
        [] if old.technique == new.technique else [f"{old.technique or 'unit'}→{new.technique or 'unit'}"]
    )
    if not differences and old.source != new.source:
        differences.append("source edited")
    differences += [f"{n} {old.values[n]}→{v}" for n, v in new.values.items() if old.values.get(n, v) != v]
    if old.flags != new.flags:
        differences.append(f"flags {' '.join(f for f in new.flags if f not in old.flags) or 'fewer'}")
    return ", ".join(differences)
