"""Tune: other values for the tunables of good units. Units near their limit are left alone."""

from __future__ import annotations

from collections.abc import Sequence

from ...agents.base import Attempt
from ...records import Lineage, Unit
from ..population import alone_us
from ..tuner import Values
from .base import EVERYONE, Bred, Breeding, changes, swap

PARENTS = 3


class Tune:
    name = "tune"
    everywhere = False

    def applies(self, ground: Breeding) -> bool:
        return ground.population.best() is not None

    def breed(self, ground: Breeding, n: int) -> list[Bred]:
        """Most for the first parent, and of its units most for those with most to gain."""
        parents = ground.parents(PARENTS if not ground.free else EVERYONE)
        bred: list[Bred] = []
        for rank, parent in enumerate(parents):
            quota = max(1, n >> (rank + 1)) if rank + 1 < len(parents) else n - len(bred)
            bred += self._tuned(ground, parent, quota)
        return bred[:n]

    def _tuned(self, ground: Breeding, parent: Attempt, n: int) -> list[Bred]:
        bred: dict[str, Bred] = {}
        for unit, most in ground.quotas(parent, n):
            tried = tried_values(ground.situation.attempts, unit)
            for changed in ground.team.tuner.propose(unit, tried, min(most, n - len(bred)), ground.rng):
                lineage = Lineage(operator="tune", agent="orchestrator", reason=changes(unit, changed))
                child = swap(ground.situation, parent, unit, changed, lineage)
                bred.setdefault(child.content_key, Bred(child, None, ground.island))
        return list(bred.values())


def tried_values(attempts: Sequence[Attempt], unit: Unit) -> list[tuple[Values, float]]:
    """Settings of the same source that were judged, with the speed of the unit alone (0 when it failed)."""
    found: list[tuple[Values, float]] = []
    for attempt in attempts:
        for other in attempt.candidate.units:
            if other.region == unit.region and other.source == unit.source and other.flags == unit.flags:
                us = alone_us(attempt, other)
                found.append((other.values, 1.0 / us if 0 < us < float("inf") else 0.0))
    return found
