"""Searches on a landscape: the package's own, by any settings, and simple ones over the flat space of its units.

In: a landscape, a way to search, a seed, a number of evaluations. Out: a `Trace` of what was asked. The package's search is the
very same as in a run: only the executor answers from the landscape, and the expert is kept to the settings that were
recorded. Stopping rules are off, since the question is when a search finds something, not whether it goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from landscape_flat import FLAT, Flat, facts_of

from warpsmith.agents.base import Attempt, Situation
from warpsmith.agents.expert.brain import ExpertBrain
from warpsmith.agents.expert.ideas import variants
from warpsmith.archive.timings import TimedUnit
from warpsmith.codegen.program import Unsupported
from warpsmith.config import Config
from warpsmith.executors.landscape import LandscapeExecutor
from warpsmith.executors.landscape_data import Landscape, Point, find_coordinates
from warpsmith.kernels.registry import families_of
from warpsmith.pipeline.team import make_team
from warpsmith.records import Budget, Candidate, Graph, Hypothesis, Profile, RegionProfile, Result, Unit
from warpsmith.search.loop import Search
from warpsmith.search.meter import Meter
from warpsmith.search.methods import make_methods
from warpsmith.search.operators import TransferSeeds, find_no_seeds

GOAL = 0.95  # share of the speed of the best candidate that counts as found
NEVER = 10**9
ALL = NEVER  # evaluations that are asked for even when the goal was reached before: every one of the budget


@dataclass
class Trace:
    """True microseconds of each candidate in the order of asking; inf for one that failed."""

    us: list[float] = field(default_factory=list)
    missing: int = 0  # of these, not in the landscape

    def needed(self, landscape: Landscape, goal: float = GOAL) -> int | None:
        """Evaluations until the first candidate at `goal` of the best's speed; None when there was none."""
        good = (i for i, us in enumerate(self.us, 1) if landscape.best_us / us >= goal)
        return next(good, None)


class Enough(Exception):
    """The goal is reached, and so are the evaluations that are wanted in any case."""


class GoalExecutor(LandscapeExecutor):
    """Ends the search by raising Enough: what would be asked for after the goal changes no figure."""

    def __init__(self, landscape: Landscape, seed: int, least: int) -> None:
        super().__init__(landscape, seed)
        self._least = least

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for result in super().run(candidates):
            self._stop()
            yield as_measured(result)

    def draw_speedup(self, points: Sequence[Point]) -> float:
        found = super().draw_speedup(points)
        self._stop()
        return found

    def _stop(self) -> None:
        if len(self.asked) >= self._least and self.landscape.best_us / min(self.asked) >= GOAL:
            raise Enough


def as_measured(result: Result) -> Result:
    """Its profile with the times of units as one measurement gives them, as in a run, where both are the same."""
    if result.profile is None or result.timing is None:
        return result
    us = result.timing.unit_us
    seen = [
        p.model_copy(
            update={
                "seconds": us[p.region] * 1e-6,
                "limit_share": p.limit_share * p.seconds * 1e6 / us[p.region],
            }
        )
        for p in result.profile.regions
    ]
    return result.model_copy(update={"profile": Profile(regions=tuple(seen))})


class LandscapeBrain(ExpertBrain):
    """The expert, kept to what a landscape holds. It keeps what it wrote: many searches on one task share it."""

    def __init__(self, landscape: Landscape) -> None:
        super().__init__(facts_of(landscape))
        self._landscape, self._here = landscape, facts_of(landscape)
        self._written: dict[tuple[object, ...], list[Unit]] = {}

    def hypotheses(self, situation: Situation, k: int) -> list[Hypothesis]:
        found = super().hypotheses(situation, NEVER)
        return [h for h in found if self._recorded(self._all_units(situation.graph, h)[:1])][:k]

    def write_units(
        self, graph: Graph, hypothesis: Hypothesis, m: int, situation: Situation | None = None
    ) -> list[Unit]:
        return self._recorded(self._all_units(graph, hypothesis))[:m]

    def edit_unit(self, situation: Situation, parent: Attempt, unit: Unit, m: int) -> list[tuple[Unit, str]]:
        found = super().edit_unit(situation, parent, unit, NEVER)
        return [(u, why) for u, why in found if self._recorded([u])][:m]

    def flag_variants(self, unit: Unit, seen: RegionProfile | None = None) -> list[tuple[str, ...]]:
        offered = super().flag_variants(unit, seen)
        return [f for f in offered if self._recorded([unit.model_copy(update={"flags": f})])]

    def _recorded(self, units: Iterable[Unit]) -> list[Unit]:
        return [u for u in units if self._landscape.point(u) is not None]

    def _all_units(self, graph: Graph, hypothesis: Hypothesis) -> list[Unit]:
        """As the expert writes them, kept for the next search."""
        region, values = hypothesis.region, tuple(sorted(hypothesis.current_values.items()))
        key = (region.id, hypothesis.family, hypothesis.technique, values)
        if key not in self._written:
            self._written[key] = [self._narrow(u) for u in self._fresh_units(graph, hypothesis)]
        return self._written[key]

    def _fresh_units(self, graph: Graph, hypothesis: Hypothesis) -> list[Unit]:
        """A source is written once; its values are set."""
        region, family = hypothesis.region, families_of(self._here.target).get(hypothesis.family)
        offered = family.techniques(graph, region, self._here) if family is not None else []
        technique = next((t for t in offered if t.name == hypothesis.technique), None)
        if family is None or technique is None:
            return []
        try:
            unit = family.write(graph, region, technique)
        except Unsupported:
            return []
        return [
            unit.model_copy(update={"tunables": t.tunables})
            for t in variants(technique.at(hypothesis.current_values))
        ]

    def _narrow(self, unit: Unit) -> Unit:
        kept = self._landscape.domains(unit) or {}
        tunables = tuple(
            t.model_copy(update={"domain": tuple(v for v in t.domain if v in kept.get(t.name, (v,)))})
            for t in unit.tunables
        )
        return unit.model_copy(update={"tunables": tunables})


def settings(**changes: Any) -> Config:
    """The package's own settings with these changed and nothing that stops a run before its budget."""
    return Config(**{"worth": 1e-9, **changes})


def package_search(
    landscape: Landscape,
    brain: LandscapeBrain,
    config: Config,
    seed: int,
    budget: int,
    transfer_seeds: TransferSeeds = find_no_seeds,
    record: Callable[[Attempt], None] = lambda attempt: None,
    least: int = ALL,
    elsewhere: Sequence[TimedUnit] = (),
) -> Trace:
    """The package's search, by these settings. `elsewhere`: units that were timed on other tasks; `least`: evaluations after which it ends once the goal is reached."""
    team = make_team(config, {}, landscape.header.task, None, None)  # type: ignore[arg-type]
    for agent in (team.reasoning, team.synthesis, team.compile, team.correctness):
        agent.brain = brain  # type: ignore[attr-defined]
    team.orchestrator.stop = lambda situation: None  # type: ignore[method-assign]
    executor = GoalExecutor(landscape, seed, least)
    search = Search(
        landscape.header.task, landscape.header.target, facts_of(landscape), landscape.header.limit, team, executor,
        Meter(Budget(evaluations=budget, seconds=None)), record, seed=seed, methods=make_methods(config, transfer_seeds, code_of(landscape), elsewhere=elsewhere),
    )  # fmt: skip
    with suppress(Enough):
        search.run()
    return Trace(executor.asked, executor.missing)


def code_of(landscape: Landscape) -> Callable[[Unit], str]:
    """What a unit's machine code is; "" where that is not known. Flags at new settings are of unknown code."""

    def code(unit: Unit) -> str:
        point = landscape.by_coordinates.get(find_coordinates(unit))
        return point.code if point is not None else ""

    return code


def flat_search(
    landscape: Landscape, flat: Flat, way: str, seed: int, budget: int, least: int = ALL
) -> Trace:
    executor = GoalExecutor(landscape, seed, least)
    with suppress(Enough):
        FLAT[way](flat, lambda c: executor.draw_speedup(flat.placed(c)), random.Random(seed), budget)
    return Trace(executor.asked, executor.missing)
