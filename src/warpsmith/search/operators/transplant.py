"""Transplant: stepping stones, units that were sound on regions of other tasks, made to fit regions of this one.

A stone's technique is written anew for the region, from the stone's values; a general source for a region of the very same
signature is moved over as it is where nobody can write it. Whatever comes of it is judged like any other candidate before it
counts. Its lineage names the candidate that the stone is from. Where units of other tasks were timed, and writing costs no question,
what these promise takes the place of stones (`predict.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from ...records import Hypothesis, Lineage, Region, Unit
from .base import Bred, Breeding, Stone, assemble, insert
from .seed import first_units

STONES = 4  # for a region
Grown = tuple[Unit, Stone]


class Transplant:
    name = "transplant"
    everywhere = True

    def applies(self, ground: Breeding) -> bool:
        if ground.experience is not None and ground.experience.elsewhere and not ground.asks:
            return False
        return any(ground.stones(region) for plan in self._plans(ground) for region in plan)

    def breed(self, ground: Breeding, n: int) -> list[Bred]:
        """Whole cuts of the graph in the first round, so that all stones are tried together; then one at a time."""
        first = not (ground.situation.round and ground.population.best()) and not ground.asks
        bred = self._cuts(ground) if first else []
        return (bred or self._singly(ground))[:n]

    def _cuts(self, ground: Breeding) -> list[Bred]:
        """Each cut that has stones, filled with the first of each region; then with the second."""
        ideas = ground.team.reasoning.propose(ground.situation, 1_000)
        bred: list[Bred] = []
        for number, plan in enumerate(self._plans(ground)):
            columns = {region: list(grown(ground, region)) for region in plan}
            for row in range(max(map(len, columns.values()), default=0)):
                picked = [c[min(row, len(c) - 1)] for c in columns.values() if c]
                rest = [first_units(ground, ideas, r, 1) for r, c in columns.items() if not c]
                units = [*(u for u, _ in picked), *(u for found in rest for _, u in found)]
                lineage = _lineage([stone for _, stone in picked])
                bred.append(Bred(assemble(ground.situation, units, lineage), None, number))
        return sorted(bred, key=lambda b: -len(b.candidate.lineage.parents))

    def _singly(self, ground: Breeding) -> list[Bred]:
        regions = {r.id: r for plan in self._plans(ground) for r in plan if ground.open(r)}
        bred: list[Bred] = []
        columns = [self._new(ground, region) for region in regions.values()]
        for row in zip_longest(*columns):
            for unit, stone in (found for found in row if found is not None):
                island, parent = ground.host(unit.region)
                child = insert(ground.situation, parent, [unit], _lineage([stone]))
                bred.append(Bred(child, None, island))
        return bred

    def _new(self, ground: Breeding, region: Region) -> list[Grown]:
        judged = ground.judged_for(region)
        return [(unit, stone) for unit, stone in grown(ground, region) if unit.code_key not in judged]

    def _plans(self, ground: Breeding) -> list[tuple[Region, ...]]:
        return ground.team.reasoning.plans(ground.situation, ground.team.orchestrator.branches)


def grown(ground: Breeding, region: Region) -> Iterator[Grown]:
    """Different units for the region, from its most telling stones that something can be made of."""
    seen: set[str] = set()
    for stone in _fitting(ground, region):
        unit = respecialised(ground, stone, region) or moved(stone, region)
        if unit is not None and unit.code_key not in seen:
            seen.add(unit.code_key)
            yield unit, stone
        if len(seen) >= STONES:
            return


def _fitting(ground: Breeding, region: Region) -> list[Stone]:
    """Where units cost no question: those of a family that the agents themselves would take for the region."""
    stones = list(ground.stones(region))
    if ground.asks or not stones:
        return stones
    families = {
        h.family for h in ground.team.reasoning.propose(ground.situation, 1_000) if h.region == region
    }
    return [s for s in stones if s.unit.family in families or s.alike >= 1.0]


def respecialised(ground: Breeding, stone: Stone, region: Region) -> Unit | None:
    """The stone's technique written for this region; None where that is not possible, or costs a question."""
    if ground.asks:
        return None
    unit, situation = stone.unit, ground.situation
    idea = Hypothesis(
        region=region, family=unit.family, technique=unit.technique, bottleneck="unknown",
        expected_gain=max(1.0, stone.speedup), evidence=(told(stone),), values=unit.values,
    )  # fmt: skip
    written = ground.team.synthesis.write(situation.graph, idea, 1, situation)
    return _flagged(ground, written[0], stone) if written else None


def _flagged(ground: Breeding, unit: Unit, stone: Stone) -> Unit:
    """With the stone's compiler flags, where they are on offer for this unit."""
    wanted = set(stone.unit.flags)
    same = (u for u in ground.team.compile.flag_variants(unit) if set(u.flags) == wanted)
    return next(same, unit)


def moved(stone: Stone, region: Region) -> Unit | None:
    """The stone's own source, where it is general and the region has the same operands."""
    unit = stone.unit
    if stone.alike < 1.0 or unit.requires or not unit.compiled or unit.region.signature != region.signature:
        return None
    return unit.model_copy(update={"region": region})


def told(stone: Stone) -> str:
    values = " ".join(f"{n}={v}" for n, v in stone.unit.values.items())
    how = f"{stone.unit.family}/{stone.unit.technique} {values}".strip()
    where = "a region of the same signature" if stone.alike >= 1.0 else f"a region {stone.alike:.0%} alike"
    return f"{how} was sound on {where} of another task, in a candidate at {stone.speedup:.2f}x"


def _lineage(stones: list[Stone]) -> Lineage:
    return Lineage(
        operator="transplant", agent="orchestrator", parents=tuple(dict.fromkeys(s.candidate_id for s in stones)),
        reason="; ".join(dict.fromkeys(told(s) for s in stones))[:1200],
    )  # fmt: skip
