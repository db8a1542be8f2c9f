"""The loop on a scripted judge: what is bred, what is kept, when it stops."""

from collections import Counter

import pytest

from warpsmith.agents.base import Attempt
from warpsmith.agents.compile import CompileAgent
from warpsmith.agents.correctness import CorrectnessAgent
from warpsmith.agents.orchestrator import OrchestratorAgent
from warpsmith.agents.reasoning import ReasoningAgent
from warpsmith.agents.synthesis import SynthesisAgent
from warpsmith.facts import Facts
from warpsmith.records import Budget, Candidate, Limit
from warpsmith.search.confirmation import confirm
from warpsmith.search.loop import Search, Team
from warpsmith.search.meter import Meter
from warpsmith.search.tuner import HillClimb
from warpsmith.testing import FakeBrain, ScriptedExecutor, chain_task

LIMIT = Limit(
    seconds=1e-6, least_bytes=1, flops=1, bytes_per_second=1e9, flops_per_second=1e9, bound="memory"
)
FACTS = Facts(
    threads=2, vector=16, bandwidth=1e10,
    node_us={}, total_us=100.0, limit_us=1.0,
)  # fmt: skip


def make_search(executor, budget=None, brain=None, known=None, task=None, near_limit=2.0):
    brain = brain or FakeBrain()
    team = Team(
        ReasoningAgent(brain), SynthesisAgent(brain), CompileAgent(brain), CorrectnessAgent(brain),
        OrchestratorAgent(branches=2, variants=1, patience=2, near_limit=near_limit), HillClimb(),
    )  # fmt: skip
    kept: list[Attempt] = []
    search = Search(
        task or chain_task(), "cpu", FACTS, LIMIT, team, executor,
        Meter(budget or Budget(evaluations=30, seconds=None)), kept.append, known=known or {}, seed=7,
    )  # fmt: skip
    return search, kept


def speed_by_values(candidate: Candidate) -> float:
    """The more unrolled and blocked, the faster; `b` beats `a`; two regions beat one."""
    gain = {"a": 1.0, "b": 1.3, "c": 0.7}
    return sum(gain[u.technique] * u.values["UNROLL"] * u.values["BLOCK"] / 64 for u in candidate.units) / 4


def test_finds_the_best_setting_and_records_every_attempt() -> None:
    executor = ScriptedExecutor(speed_by_values)
    search, kept = make_search(executor, Budget(evaluations=80, seconds=None))
    search.run()
    assert kept == search.attempts
    best = search.situation().best
    assert best is not None
    assert best.speedup == max(speed_by_values(c) for c in executor.judged)
    assert best.speedup > 3 * speed_by_values(executor.judged[0])


def test_never_judges_a_duplicate() -> None:
    executor = ScriptedExecutor(speed_by_values)
    make_search(executor)[0].run()
    assert max(Counter(c.content_key for c in executor.judged).values()) == 1


def test_stops_at_the_budget_exactly() -> None:
    executor = ScriptedExecutor(speed_by_values)
    search, _ = make_search(executor, Budget(evaluations=7, seconds=None))
    assert "7 evaluations" in search.run()
    assert len(executor.judged) == 7


def test_stops_near_the_limit() -> None:
    search, _ = make_search(ScriptedExecutor(lambda c: 9.9), near_limit=0.9)
    assert "of the limit" in search.run()


def test_stops_without_progress() -> None:
    executor = ScriptedExecutor(lambda c: 1.0)
    search, _ = make_search(executor, Budget(evaluations=None, seconds=None))
    assert search.run().startswith(("no gain", "no new idea"))


def test_known_results_are_taken_and_not_judged_again() -> None:
    first = ScriptedExecutor(speed_by_values)
    search, _ = make_search(first)
    search.run()
    known = {a.candidate.content_key: a.result for a in search.attempts}
    second = ScriptedExecutor(speed_by_values)
    again, _ = make_search(second, Budget(evaluations=30, seconds=None), known=known)
    again.run()
    assert not {c.content_key for c in second.judged} & set(known)
    here = [a for a in again.attempts if again.is_judged_here(a)]
    assert (
        len(here) == again.meter.evaluations < len(again.attempts)
    )  # what another run judged is counted there


def test_the_same_seed_judges_the_same_candidates() -> None:
    runs = []
    for _ in range(2):
        executor = ScriptedExecutor(speed_by_values)
        make_search(executor)[0].run()
        runs.append([c.content_key for c in executor.judged])
    assert runs[0] == runs[1]


def test_failures_are_kept_and_a_failed_build_is_repaired_once() -> None:
    def outcome(candidate: Candidate) -> float | str:
        return "incorrect" if candidate.units[0].technique == "a" else 1.2

    search, kept = make_search(ScriptedExecutor(outcome))
    search.run()
    assert {a.result.status for a in kept} == {"incorrect", "ok"}


def test_the_review_refuses_before_anything_runs() -> None:
    class Evil(FakeBrain):
        def write_units(self, graph, hypothesis, m, situation=None):
            return [
                u.model_copy(update={"source": "// evil"}) for u in super().write_units(graph, hypothesis, m)
            ]

    executor = ScriptedExecutor(lambda c: 5.0)
    search, kept = make_search(executor, brain=Evil())
    search.run()
    assert executor.judged == []
    assert {a.result.status for a in kept} == {"refused"}
    assert confirm(search, 3, kept.append) is None


def test_a_lucky_measurement_is_not_confirmed() -> None:
    """The search saw 2x; the fresh run sees 0.9x: the next candidate is asked."""

    class Lucky(ScriptedExecutor):
        def confirm(self, candidate):
            saved, self.speed = self.speed, lambda c: 0.9 if c.units[0].technique == "b" else 1.2
            try:
                return super().confirm(candidate)
            finally:
                self.speed = saved

    def speed(candidate: Candidate) -> float:
        return 2.0 if candidate.units[0].technique == "b" else 1.3

    search, _ = make_search(Lucky(speed), Budget(evaluations=12, seconds=None))
    search.run()
    winner = confirm(search, 20, lambda a: None)
    assert winner is not None
    assert winner.candidate.units[0].technique != "b"
    assert winner.result.timing.confirmed


@pytest.mark.parametrize("field", ["evaluations", "seconds", "usd", "tokens"])
def test_each_limit_of_the_meter_ends_a_run(field: str) -> None:
    meter = Meter(Budget.model_validate({"evaluations": None, "seconds": None, field: 0}))
    assert meter.find_reached_limit()
    assert Meter(Budget(evaluations=None, seconds=None)).find_reached_limit() is None
