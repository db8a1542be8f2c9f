"""The loop with agents that may fail: limits and lost models end it in order, and repairs are followed up."""

from __future__ import annotations

from test_loop import make_search, speed_by_values

from warpsmith.errors import ModelError
from warpsmith.llm.chat import BudgetSpent
from warpsmith.records import Budget, Candidate, Result, Unit
from warpsmith.search.confirmation import confirm
from warpsmith.search.loop import Search
from warpsmith.testing import FakeBrain, ScriptedExecutor


class Failing(FakeBrain):
    """Writes `good` units, then raises."""

    def __init__(self, error: Exception, good: int) -> None:
        super().__init__()
        self.error, self.good = error, good

    def write_units(self, graph, hypothesis, m, situation=None):
        if self.good <= 0:
            raise self.error
        self.good -= 1
        return super().write_units(graph, hypothesis, m)


def unseeded(search: Search) -> Search:
    search.team.orchestrator.seeds = False
    return search


def test_a_limit_of_the_models_ends_the_search_and_keeps_what_was_paid_for() -> None:
    search = unseeded(
        make_search(ScriptedExecutor(speed_by_values), brain=Failing(BudgetSpent("tokens spent"), 1))[0]
    )
    assert search.run() == "tokens spent"
    assert search.fault == ""
    assert search.situation().best is not None


def test_a_lost_model_ends_the_search_with_a_fault_and_the_best_is_confirmed() -> None:
    search = unseeded(
        make_search(ScriptedExecutor(speed_by_values), brain=Failing(ModelError("no route"), 3))[0]
    )
    assert "no route" in search.run()
    assert search.fault == "no route"
    best = confirm(search, 3, lambda attempt: None)
    assert best is not None
    assert best.result.timing.confirmed


def test_nothing_paid_for_means_nothing_judged() -> None:
    executor = ScriptedExecutor(speed_by_values)
    search = unseeded(make_search(executor, brain=Failing(BudgetSpent("spent"), 0))[0])
    assert search.run() == "spent"
    assert executor.judged == []


class Silent(FakeBrain):
    """Has an idea in its third round only."""

    def hypotheses(self, situation, k):
        return super().hypotheses(situation, k) if situation.round == 2 else []


def test_rounds_without_a_usable_answer_are_borne_for_a_while() -> None:
    executor = ScriptedExecutor(lambda c: 1.5)
    patient = unseeded(make_search(executor, brain=Silent())[0])
    patient.run()
    assert executor.judged
    strict = ScriptedExecutor(lambda c: 1.5)
    search = make_search(strict, brain=Silent())[0]
    assert search.run().startswith("no new idea left")
    assert strict.judged == []


class Mending(FakeBrain):
    """Each mend makes the source one step better."""

    def mend(self, unit: Unit, result: Result) -> Unit | None:
        return unit.model_copy(update={"source": unit.source + " mended"})


def ladder(candidate: Candidate) -> float | str:
    steps = candidate.units[0].source.count("mended")
    return {0: "crashed", 1: "incorrect"}.get(steps, 2.0)


def test_a_repair_that_fails_is_repaired_again_within_the_bound() -> None:
    search, kept = make_search(ScriptedExecutor(ladder), Budget(evaluations=3, seconds=None), brain=Mending())
    unseeded(search).run()
    assert [a.result.status for a in kept] == ["crashed", "incorrect", "ok"]
    assert [a.candidate.lineage.operator for a in kept] == ["rewrite", "repair", "repair"]


def test_repairs_end_at_the_bound() -> None:
    search, kept = make_search(
        ScriptedExecutor(lambda c: "incorrect"), Budget(evaluations=8, seconds=None), brain=Mending()
    )
    unseeded(search).run()
    depth = max(a.candidate.units[0].source.count("mended") for a in kept)
    assert depth == 2


def test_a_resumed_runs_own_results_count_in_its_budget() -> None:
    first = ScriptedExecutor(speed_by_values)
    search, _ = make_search(first, Budget(evaluations=5, seconds=None))
    search.run()
    known = {a.candidate.content_key: a.result for a in search.attempts}
    second = ScriptedExecutor(speed_by_values)
    again, _ = make_search(second, Budget(evaluations=5, seconds=None), known=known)
    again.own = frozenset(known)
    assert "5 evaluations" in again.run()
    assert second.judged == []
    assert [a.candidate.id for a in again.attempts] == [a.candidate.id for a in search.attempts]
