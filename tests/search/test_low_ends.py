"""Noise decides nothing along the way: the best so far, parents, the tuner, promises and when to stop go by what is sure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from made_attempts import TASK, attempt, failure, situation, unit
from scripted_search import ground_of, searched

from warpsmith.agents.base import Attempt
from warpsmith.agents.orchestrator import OrchestratorAgent
from warpsmith.agents.reasoning import ReasoningAgent
from warpsmith.records import Hypothesis
from warpsmith.search.operators.base import MIN_PARENT_SHARE
from warpsmith.search.operators.predictions import CandidateSpace, Predictions
from warpsmith.search.operators.tune import list_tried_values
from warpsmith.search.selection import rank_attempts, reach_of
from warpsmith.testing import FakeBrain, chain_region

STEADY = attempt(1.5, [unit(technique="steady")], low=1.45, high=1.55)
LUCKY = attempt(3.0, [unit(technique="lucky")], low=0.8, high=9.0)


def waited(speed: float, technique: str) -> Attempt:
    """One that was measured on a busy machine: its interval begins at 0."""
    made = attempt(speed, [unit(technique=technique)])
    timing = made.result.timing
    assert timing is not None
    ratios = tuple(r.model_copy(update={"low": 0.0}) for r in timing.ratios)
    return replace(
        made, result=made.result.model_copy(update={"timing": timing.model_copy(update={"ratios": ratios})})
    )


def test_the_best_so_far_is_the_surest_not_the_luckiest() -> None:
    assert situation([LUCKY, STEADY, failure()]).best is STEADY


def test_where_nothing_is_sure_medians_decide_and_what_is_sure_goes_before() -> None:
    slow, fast = waited(1.1, "a"), waited(1.4, "b")
    assert situation([slow, fast]).best is fast
    assert rank_attempts([slow, fast, STEADY]) == [STEADY, fast, slow]


def test_what_is_unknown_may_be_a_parent_for_what_it_may_reach_within_the_limit() -> None:
    unknown = attempt(1.0, [unit(technique="b")], low=0.3, high=8.0, limit_share=0.5)
    assert reach_of(unknown) == pytest.approx(2.0)  # at half of the limit no more is possible
    assert reach_of(failure()) == 0.0
    assert reach_of(attempt(0.5)) < MIN_PARENT_SHARE * 1.45 < reach_of(unknown)


def hypothesis(gain: float) -> Hypothesis:
    return Hypothesis(
        region=chain_region(TASK.graph, 0, 1), family="fake", technique=f"t{gain}", bottleneck="memory",
        expected_gain=gain, evidence=("seen",),
    )  # fmt: skip


class Promising(FakeBrain):
    def hypotheses(self, situation: object, k: int) -> list[Hypothesis]:
        return [hypothesis(1000.0), hypothesis(20.0), hypothesis(900.0)]


def test_no_promise_exceeds_what_the_limit_leaves_and_the_order_stays() -> None:
    """The best baseline takes 100 µs, the limit is 4 µs."""
    ideas = ReasoningAgent(Promising()).propose(situation([], limit_us=4.0), 3)
    assert [(h.technique, h.expected_gain) for h in ideas] == [
        ("t1000.0", 25.0), ("t900.0", 25.0), ("t20.0", 20.0)
    ]  # fmt: skip


def test_a_limit_that_was_beaten_caps_nothing() -> None:
    beaten = attempt(1.5, limit_share=1.4)
    assert situation([beaten], limit_us=4.0).most_gain == math.inf
    assert situation([STEADY], limit_us=4.0).most_gain == pytest.approx(25.0)


def test_a_unit_that_was_not_measured_is_promised_no_less_than_its_bytes_take() -> None:
    search = searched(lambda c: 1.2, evaluations=3)
    context = ground_of(search)
    slow_memory = replace(context.situation.facts, bandwidth=1e6)
    context = replace(context, situation=replace(context.situation, facts=slow_memory))
    assert search.methods.experience is not None
    space = CandidateSpace(context, search.methods.experience)
    predictions = Predictions(space, search.methods.experience, context, ())
    for region, logs in predictions._logs.items():
        assert min(logs) >= space.find_least_log_us(region) - 1e-9


def tuned(us: float, high: float = 1.0, **values: int) -> Attempt:
    """A unit at these values that takes so long alone, in a candidate whose time may be `high` times its median."""
    made = attempt(1.5, [unit(source="same", **values)], us={0: us})
    timing = made.result.timing
    assert timing is not None
    timing = timing.model_copy(update={"high_us": high * timing.median_us})
    return replace(made, result=made.result.model_copy(update={"timing": timing}))


def scores(*attempts: Attempt) -> Sequence[tuple[dict[str, int], float]]:
    return [
        (dict(v), pytest.approx(s)) for v, s in list_tried_values(attempts, unit(source="same", UNROLL=1))
    ]  # fmt: skip


def test_the_tuner_is_told_what_is_sure_and_the_middle_of_what_was_measured_often() -> None:
    assert scores(tuned(10.0, UNROLL=1), tuned(8.0, high=2.0, UNROLL=2)) == [
        ({"UNROLL": 1}, 1 / 10), ({"UNROLL": 2}, 1 / 16)
    ]  # fmt: skip
    lucky = [tuned(us, UNROLL=4) for us in (12.0, 5.0, 11.0)]
    assert scores(*lucky, failure([unit(source="same", UNROLL=4)])) == [({"UNROLL": 4}, 1 / 11)]
    assert scores(failure([unit(source="same", UNROLL=8)])) == [({"UNROLL": 8}, 0.0)]


def test_a_limit_that_is_only_reached_by_luck_stops_no_run() -> None:
    agent = OrchestratorAgent(2, 1, 3, near_limit=0.9)
    near = attempt(1.5, limit_share=0.95)
    timing = near.result.timing
    assert timing is not None
    noisy = near.result.model_copy(
        update={"timing": timing.model_copy(update={"high_us": 1.2 * timing.median_us})}
    )
    assert agent.stop(situation([near])) == "the best reached 95% of the limit"
    assert agent.stop(situation([replace(near, result=noisy)])) is None


def test_a_round_with_nothing_but_luck_made_no_progress() -> None:
    agent = OrchestratorAgent(2, 1, 1, near_limit=9.0)
    agent.end_round(situation([STEADY]))
    agent.end_round(situation([STEADY, LUCKY]))
    assert agent.stop(situation([STEADY, LUCKY])) == "no gain in 1 round"
