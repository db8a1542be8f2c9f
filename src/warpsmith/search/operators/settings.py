"""Settings that did well elsewhere: for each region every technique, value and flag on offer, by what is known of their times.

In: the ground, with its experience. Out: candidates. In the first round whole cuts, each region by what promises most; later the
best candidate with all of its regions so, and then by draws of what may be. Nothing is offered that promises less than what is there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...agents.base import Attempt
from ...records import Lineage, Region, Unit
from ..tuner import every_setting, with_values
from .base import Bred, Breeding, assemble, changes, insert

MOST = 1_000  # settings of a technique that are looked at


class Settings:
    """Of one search: it keeps what is on offer."""

    def __init__(self) -> None:
        self._offered: dict[tuple[str, str, str], list[Unit]] = {}

    def first_cuts(self, ground: Breeding) -> list[Bred]:
        """Each cut of the graph by what promises most, the best cut first."""
        bred: list[Bred] = []
        team, experience = ground.team, ground.experience
        plans = team.reasoning.plans(ground.situation, team.orchestrator.branches)
        for number, plan in enumerate(plans if experience is not None else ()):
            pools = [pool for region in plan if (pool := self._pool(ground, region))]
            best = (
                [pool[int(np.argmin(experience.log_us(pool)[:, 0]))] for pool in pools] if experience else []
            )
            if best:
                made = _lineage("of all settings those that promise most, by other tasks")
                bred.append(Bred(assemble(ground.situation, best, made), None, number))
        return bred

    def next_steps(self, ground: Breeding, n: int) -> list[Bred]:
        """Of the best candidate: all its regions at what promises most, then by draws."""
        leaders = ground.leaders()
        if ground.experience is None or not leaders:
            return []
        island, leader = leaders[0]
        columns: list[list[tuple[Unit, Unit] | None]] = []  # a region, of each draw what is to change
        for unit in ground.open_units(leader):
            pool = [unit, *self._pool(ground, unit.region)]
            best = ground.experience.log_us(pool, 2 * n, ground.rng).argmin(axis=0)
            columns.append(
                [(unit, pool[int(i)]) if pool[int(i)].code_key != unit.code_key else None for i in best]
            )
        bred: dict[str, Bred] = {}
        for row in zip(*columns, strict=True):
            changed = [pair for pair in row if pair is not None]
            if changed:
                one = _child(ground, island, leader, changed)
                bred.setdefault(one.candidate.content_key, one)
        return list(bred.values())

    def _pool(self, ground: Breeding, region: Region) -> list[Unit]:
        return [u for base in _techniques(ground, region) for u in self._settings(ground, base)]

    def _settings(self, ground: Breeding, unit: Unit) -> list[Unit]:
        """At every setting of its tunables, each without and with one more flag."""
        key = (unit.region.id, unit.family, unit.technique)
        if key not in self._offered:
            plain = [with_values(unit, v) for v in (every_setting(unit) or [unit.values])[:MOST]]
            flagged = (f for u in plain for f in ground.team.compile.flag_variants(u))
            self._offered[key] = [*plain, *flagged]
        return self._offered[key]


def _techniques(ground: Breeding, region: Region) -> Iterator[Unit]:
    """One unit for each: as it worked in this run, or as it is written."""
    found: dict[tuple[str, str], Unit] = {}
    for attempt in ground.situation.attempts:
        for unit in attempt.candidate.units if attempt.speedup > 0 else ():
            if unit.region.id == region.id and unit.compiled:
                known = found.get((unit.family, unit.technique))
                if known is None or len(unit.flags) < len(known.flags):
                    found[unit.family, unit.technique] = unit
    for idea in ground.team.reasoning.propose(ground.situation, 1_000):
        key = (idea.family, idea.technique)
        if idea.region.id == region.id and key not in found:
            for unit in ground.team.synthesis.write(ground.situation.graph, idea, 1, ground.situation):
                found[key] = unit
    return iter(found.values())


def _child(ground: Breeding, island: int, leader: Attempt, pairs: list[tuple[Unit, Unit]]) -> Bred:
    made = _lineage("; ".join(changes(old, new) for old, new in pairs))
    return Bred(insert(ground.situation, leader, [new for _, new in pairs], made), None, island)


def _lineage(reason: str) -> Lineage:
    return Lineage(operator="transplant", agent="orchestrator", reason=reason[:400])
