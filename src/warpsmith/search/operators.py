"""Operators that breed candidates: seed, rewrite, tune, crossover. Each returns candidates with their lineage and hypothesis."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..agents.base import Attempt, Situation
from ..agents.compile import CompileAgent
from ..agents.findings import settled
from ..agents.reasoning import ReasoningAgent
from ..agents.synthesis import SynthesisAgent
from ..records import Candidate, Hypothesis, Lineage, Region, Unit
from .tuner import Tuner, Values


@dataclass(frozen=True)
class Bred:
    candidate: Candidate
    hypothesis: Hypothesis | None = None


def branch_of(units: Sequence[Unit]) -> str:
    """The line of descent a candidate belongs to: which regions, by which techniques; values and flags do not matter."""
    return " + ".join(f"{u.family}/{u.technique}@{u.region.id[:6]}" for u in units)


def assemble(situation: Situation, units: Sequence[Unit], lineage: Lineage) -> Candidate:
    """A candidate of disjoint units in graph order."""
    order = {node.name: i for i, node in enumerate(situation.graph.nodes)}
    ordered = tuple(sorted(units, key=lambda u: order[u.region.nodes[0]]))
    lineage = lineage.model_copy(update={"branch": branch_of(ordered), "round": situation.round})
    return Candidate(task_id=situation.task.id, target=situation.target, units=ordered, lineage=lineage)


def seed(
    situation: Situation, reasoning: ReasoningAgent, synthesis: SynthesisAgent, plans: int, variants: int
) -> list[Bred]:
    """For each competing cut of the graph: every region by its first idea, and variants of it."""
    ideas = reasoning.propose(situation, 1_000)
    bred: list[Bred] = []
    for plan in reasoning.plans(situation, plans):
        columns = [_first_units(situation, synthesis, ideas, region, variants) for region in plan]
        filled = [c for c in columns if c]
        for row in range(max(map(len, filled), default=0)):
            picked = [column[min(row, len(column) - 1)] for column in filled]
            first = picked[0][0]
            lineage = Lineage(
                operator="seed", agent="synthesis", hypothesis=first.id,
                reason="; ".join(dict.fromkeys(e for h, _ in picked for e in h.evidence))[:1200],
            )  # fmt: skip
            bred.append(
                Bred(
                    assemble(situation, [u for _, u in picked], lineage), first if len(picked) == 1 else None
                )
            )
    return bred


def _first_units(
    situation: Situation, synthesis: SynthesisAgent, ideas: Sequence[Hypothesis], region: Region, m: int
) -> list[tuple[Hypothesis, Unit]]:
    """Up to `m` units for a region: the first unit of each of its ideas before second units of any."""
    mine = [h for h in ideas if h.region == region][:m]
    written = [[(h, u) for u in synthesis.write(situation.graph, h, m, situation)] for h in mine]
    depth = max(map(len, written), default=0)
    return [units[i] for i in range(depth) for units in written if i < len(units)][:m]


def rewrite(
    situation: Situation, reasoning: ReasoningAgent, synthesis: SynthesisAgent, k: int, m: int
) -> list[Bred]:
    """New hypotheses, each put into the best candidate so far in place of what covered its region."""
    parent = situation.best
    ideas = reasoning.propose(situation, k) if k else []
    return [
        Bred(place(situation, parent, unit, hypothesis), hypothesis)
        for hypothesis, unit in synthesis.write_all(situation, ideas, m)
    ]


def place(
    situation: Situation, parent: Attempt | None, unit: Unit, hypothesis: Hypothesis, agent: str = "synthesis"
) -> Candidate:
    """The parent's units, less those that overlap, plus `unit`."""
    kept = [u for u in parent.candidate.units if _disjoint(u, unit)] if parent is not None else []
    lineage = Lineage(
        parents=(parent.candidate.id,) if parent is not None else (), operator="rewrite", agent=agent,
        hypothesis=hypothesis.id, reason="; ".join(hypothesis.evidence)[:400],
    )  # fmt: skip
    return assemble(situation, [*kept, unit], lineage)


def tune(
    situation: Situation, parents: Sequence[Attempt], tuner: Tuner, compiler: CompileAgent, n: int, flags: int, rng: random.Random
) -> list[Bred]:  # fmt: skip
    """New values for the tunables of each parent's units with most to gain, most for the best parent; then
    flag variants of the best. Units near their limit are left alone.
    """
    closed = settled(a.result for a in situation.attempts)
    bred: list[Bred] = []
    for rank, parent in enumerate(parents):
        quota = max(1, n >> (rank + 1)) if rank + 1 < len(parents) else max(1, n - len(bred))
        for unit in _open_units(parent, closed):
            if quota <= 0:
                break
            tried = _tried(situation.attempts, unit)
            for changed in tuner.propose(unit, tried, quota, rng):
                bred.append(Bred(_swap(situation, parent, unit, changed, _difference(unit, changed))))
                quota -= 1
    judged = {u.code_key for a in situation.attempts for u in a.candidate.units}
    for unit in _open_units(parents[0], closed)[:1] if flags and parents else []:
        offered = compiler.flag_variants(unit, parents[0].seen(unit))
        for changed in [v for v in offered if v.code_key not in judged][:flags]:
            bred.append(Bred(_swap(situation, parents[0], unit, changed, "flags " + " ".join(changed.flags))))
    return bred


def crossover(situation: Situation, n: int) -> list[Bred]:
    """For regions that several candidates cover: the unit that ran fastest alone, from each pair of parents."""
    pool = sorted((a for a in situation.attempts if a.speedup > 0), key=lambda a: -a.speedup)[: 2 * n + 2]
    bred: dict[str, Bred] = {}
    known = {a.candidate.content_key for a in situation.attempts}
    for i, one in enumerate(pool):
        for other in pool[i + 1 :]:
            child = cross(situation, one, other)
            if child is not None and child.content_key not in known:
                bred.setdefault(child.content_key, Bred(child))
    return list(bred.values())[:n]


def cross(situation: Situation, one: Attempt, other: Attempt) -> Candidate | None:
    """One parent's units, each replaced by the other's for the same region where that was faster; regions only the other has are added."""
    units = {u.region.id: u for u in one.candidate.units}
    changed = 0
    for unit in other.candidate.units:
        mine = units.get(unit.region.id)
        if mine is not None and mine.code_key != unit.code_key:
            if _alone(other, unit) < _alone(one, mine):
                units[unit.region.id] = unit
                changed += 1
        elif mine is None and all(_disjoint(unit, u) for u in units.values()):
            units[unit.region.id] = unit
            changed += 1
    if not changed or len(units) < 2:
        return None
    lineage = Lineage(
        parents=(one.candidate.id, other.candidate.id), operator="crossover", agent="orchestrator",
        reason=f"{changed} of {len(units)} units from the second parent, each faster alone",
    )  # fmt: skip
    return assemble(situation, list(units.values()), lineage)


def _alone(attempt: Attempt, unit: Unit) -> float:
    timing = attempt.result.timing
    return timing.unit_us.get(unit.region.id, float("inf")) if timing is not None else float("inf")


def _open_units(attempt: Attempt, closed: Collection[str]) -> list[Unit]:
    """Those whose regions are worked on, the one with most time above its limit first."""
    units = [u for u in attempt.candidate.units if u.region.id not in closed]
    return sorted(units, key=lambda u: -_to_gain(attempt, u))


def _to_gain(attempt: Attempt, unit: Unit) -> float:
    """Microseconds above the unit's limit; all of its time where it was not profiled."""
    seen = attempt.seen(unit)
    return _alone(attempt, unit) * (max(0.0, 1.0 - seen.limit_share) if seen is not None else 1.0)


def _tried(attempts: Sequence[Attempt], unit: Unit) -> list[tuple[Values, float]]:
    """Settings of the same source that were judged, with the speed of the unit alone (0 when it failed)."""
    found: list[tuple[Values, float]] = []
    for attempt in attempts:
        for other in attempt.candidate.units:
            if other.region == unit.region and other.source == unit.source and other.flags == unit.flags:
                seconds = _alone(attempt, other)
                found.append((other.values, 1.0 / seconds if 0 < seconds < float("inf") else 0.0))
    return found


def _swap(situation: Situation, parent: Attempt, old: Unit, new: Unit, reason: str) -> Candidate:
    units = [new if u.region.id == old.region.id else u for u in parent.candidate.units]
    lineage = Lineage(
        parents=(parent.candidate.id,), operator="tune", agent="orchestrator",
        hypothesis=parent.candidate.lineage.hypothesis, reason=reason,
    )  # fmt: skip
    return assemble(situation, units, lineage)


def _difference(old: Unit, new: Unit) -> str:
    return ", ".join(f"{n} {old.values[n]}→{v}" for n, v in new.values.items() if old.values[n] != v)


def _disjoint(one: Unit, other: Unit) -> bool:
    return not set(one.region.nodes) & set(other.region.nodes)
