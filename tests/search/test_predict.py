"""Candidates put together by what is predicted: which cuts, which regions, in which order; and what others do without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scripted_search import searched

from warpsmith.agents.base import Attempt, Situation
from warpsmith.facts import Facts
from warpsmith.records import Candidate, Graph, Hypothesis, Profile, Region, RegionProfile, Result, Unit
from warpsmith.search.loop import Search
from warpsmith.search.rounds import MAX_PER_ROUND, MAX_PREDICTED_PER_ROUND, PREDICTED_BATCH
from warpsmith.testing import FakeBrain, ScriptedExecutor, scripted_result

ATEN = {"n0": 60.0, "n1": 40.0}  # as scripted searches have it
OFF = {"without": ("predict",)}


class Timed(ScriptedExecutor):
    """A judge by the microseconds of a unit alone: what a candidate leaves to ATen takes what it takes alone."""

    def __init__(self, us: Callable[[Unit], float]) -> None:
        super().__init__(lambda c: 100.0 / self._whole(c))
        self._us = us
        self.rounds: list[int] = []  # candidates judged side by side

    def _whole(self, candidate: Candidate) -> float:
        covered = {n for u in candidate.units for n in u.region.nodes}
        rest = sum(us for name, us in ATEN.items() if name not in covered)
        return rest + sum(self._us(u) + 4.0 for u in candidate.units)

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        self.rounds.append(len(candidates))
        for candidate in candidates:
            self.judged.append(candidate)
            result = scripted_result(candidate, self.speed(candidate))
            assert result.timing is not None
            us = {u.region.id: self._us(u) for u in candidate.units}
            timing = result.timing.model_copy(update={"unit_us": us, "median_us": self._whole(candidate)})
            seen = tuple(_seen(u, self._us(u)) for u in candidate.units)
            yield result.model_copy(update={"timing": timing, "profile": Profile(regions=seen)})


def _seen(unit: Unit, us: float) -> RegionProfile:
    return RegionProfile(
        region=unit.region.id, seconds=us * 1e-6, least_bytes=1, flops=1, limit_share=0.1, bottleneck="memory",
        family=unit.family, technique=unit.technique, values=unit.values, flags=unit.flags,
    )  # fmt: skip


def unrolled(unit: Unit) -> float:
    return 24.0 / unit.values["UNROLL"]


def shown(us: Callable[[Unit], float] = unrolled, **settings: Any) -> list[Attempt]:
    return searched(Timed(us), **{"evaluations": 12, "patience": 9, **settings}).attempts


def test_a_region_that_the_library_does_faster_is_left_to_it() -> None:
    def slow_there(unit: Unit) -> float:
        return 200.0 if unit.region.nodes == ("n1",) else unrolled(unit)

    def second(**settings: Any) -> list[tuple[str, ...]]:
        return [u.region.nodes for u in shown(slow_there, **settings)[1].candidate.units]

    assert second() == [("n0",)]
    assert second(**OFF) == [("n0",), ("n1",)]


class Apart(FakeBrain):
    """A cut for each node."""

    def plans(self, graph: Graph, facts: Facts) -> list[tuple[Region, ...]]:
        (both,) = super().plans(graph, facts)
        return [both[:1], both[1:]]

    def hypotheses(self, situation: Situation, k: int) -> list[Hypothesis]:
        return FakeBrain(self.techniques).hypotheses(situation, k)


def test_a_cut_is_filled_up_with_regions_of_others() -> None:
    assert len(shown(brain=Apart())[1].candidate.units) == 2
    assert len(shown(brain=Apart(), **OFF)[1].candidate.units) == 1


def test_several_regions_change_at_once() -> None:
    def most(**settings: Any) -> int:
        """Units of a candidate that none of those before it had."""
        first, *rest = [{u.code_key for u in a.candidate.units} for a in shown(**settings)]
        found, before = 0, first
        for keys in rest:
            found, before = max(found, len(keys - before)), before | keys
        return found

    assert most(without=("seed", "restart")) == 2
    assert most(without=("seed", "restart", "predict")) == 1


def test_fewer_evaluations_are_needed() -> None:
    def needed(**settings: Any) -> int:
        best = 100.0 / (2 * (24.0 / 4 + 4.0))
        found = shown(evaluations=80, **settings)
        return next((i for i, a in enumerate(found) if a.speedup > 0.99 * best), 80)

    assert needed() < needed(**OFF)


def test_predictions_follow_one_another_and_the_others_have_the_rest_of_a_round() -> None:
    executor = Timed(unrolled)
    found = searched(executor, evaluations=2 * MAX_PER_ROUND, patience=9)
    assert executor.rounds[:MAX_PREDICTED_PER_ROUND] == [1] * MAX_PREDICTED_PER_ROUND
    second = [a.candidate.lineage.operator for a in found.attempts if a.candidate.lineage.round == 1]
    assert second[:MAX_PREDICTED_PER_ROUND] == ["tune"] * MAX_PREDICTED_PER_ROUND
    assert 0 < len(second[MAX_PREDICTED_PER_ROUND:]) <= MAX_PER_ROUND - MAX_PREDICTED_PER_ROUND


def test_where_time_is_short_some_are_judged_side_by_side() -> None:
    executor = Timed(unrolled)
    searched(executor, evaluations=None, patience=1)  # type: ignore[arg-type]
    assert set(executor.rounds[1 : MAX_PREDICTED_PER_ROUND // PREDICTED_BATCH]) == {PREDICTED_BATCH}


def test_what_is_known_in_other_words_is_not_offered_again() -> None:
    def code(unit: Unit) -> str:
        return f"{unit.region.id} {unit.technique} {unit.values['UNROLL']}"  # neither BLOCK nor flags change anything

    def judged(search: Search) -> list[tuple[str, ...]]:
        return [tuple(code(u) for u in a.candidate.units) for a in search.attempts]

    found = searched(Timed(unrolled), assembly=code, evaluations=30, patience=9)
    assert len(judged(found)) == len(set(judged(found)))
    assert found.methods.novelty.rejected["same assembly"] > 0
    assert any(a.candidate.lineage.operator == "tune" for a in found.attempts[5:MAX_PREDICTED_PER_ROUND])


def test_nothing_is_predicted_where_units_are_not_timed() -> None:
    found = searched(lambda c: 1.5, evaluations=12)
    other = searched(lambda c: 1.5, evaluations=12, **OFF)
    assert [a.candidate.content_key for a in found.attempts] == [
        a.candidate.content_key for a in other.attempts
    ]
