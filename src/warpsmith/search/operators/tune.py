"""Tune: other values for the tunables of good units. Units near their limit are left alone."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

from ...agents.base import Attempt
from ...records import Lineage, Unit
from ..population import sure_alone_us
from ..tuner import Key, Values, key_of
from .base import EVERYONE, Proposal, SearchContext, changes, swap

PARENTS = 3


class Tune:
    name = "tune"
    everywhere = False

    def applies(self, context: SearchContext) -> bool:
        return context.population.best() is not None

    def propose(self, context: SearchContext, n: int) -> list[Proposal]:
        """Most for the first parent, and of its units most for those with most to gain."""
        parents = context.parents(PARENTS if not context.free else EVERYONE)
        proposals: list[Proposal] = []
        for rank, parent in enumerate(parents):
            quota = max(1, n >> (rank + 1)) if rank + 1 < len(parents) else n - len(proposals)
            proposals += self._tune_units(context, parent, quota)
        return proposals[:n]

    def _tune_units(self, context: SearchContext, parent: Attempt, n: int) -> list[Proposal]:
        proposals: dict[str, Proposal] = {}
        for unit, quota in context.quotas(parent, n):
            tried = list_tried_values(context.situation.attempts, unit)
            for changed in context.team.tuner.propose(
                unit, tried, min(quota, n - len(proposals)), context.rng
            ):
                lineage = Lineage(operator="tune", agent="orchestrator", reason=changes(unit, changed))
                child = swap(context.situation, parent, unit, changed, lineage)
                proposals.setdefault(child.content_key, Proposal(child, None, context.island))
        return list(proposals.values())


def list_tried_values(attempts: Sequence[Attempt], unit: Unit) -> list[tuple[Values, float]]:
    """Settings of the same source that were judged, with what is sure of the unit's speed alone (0 when it failed); of one that was
    measured several times the middle speed, so that many tries make none of them lucky.
    """
    speeds: dict[Key, list[float]] = {}
    for attempt in attempts:
        for sibling in attempt.candidate.units:
            if (
                sibling.region == unit.region
                and sibling.source == unit.source
                and sibling.flags == unit.flags
            ):
                us = sure_alone_us(attempt, sibling)
                worked = [1.0 / us] if 0 < us < float("inf") else []
                speeds.setdefault(key_of(sibling.values), []).extend(worked)
    return [(dict(key), median_low(worked) if worked else 0.0) for key, worked in speeds.items()]
