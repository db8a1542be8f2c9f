"""A search of two tiers on a scripted judge: all are screened, the most promising get their verdict, and only verdicts are claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from test_loop import FACTS, make_search, speed_by_values

from warpsmith.agents.base import Attempt
from warpsmith.progress import SilentObserver
from warpsmith.records import Budget, Candidate, Result
from warpsmith.search.confirmation import confirm
from warpsmith.search.finalists import FEW, FINALISTS, choose_finalists, count_finalists, find_factor
from warpsmith.search.loop import Search
from warpsmith.search.remeasure import order_leaders
from warpsmith.testing import ScriptedExecutor, chain_candidate, scripted_result, scripted_screening


def two_tiers(executor: ScriptedExecutor, evaluations: int = 8) -> tuple[Search, list[Attempt]]:
    search, kept = make_search(executor, Budget(evaluations=evaluations, seconds=None))
    search.screener = executor
    return search, kept


def test_many_are_screened_and_few_judged() -> None:
    executor = ScriptedExecutor(speed_by_values)
    search, kept = two_tiers(executor)
    search.run()
    assert len(executor.judged) == search.meter.evaluations <= 8
    assert search.meter.screened == len(executor.screened) > 2 * len(executor.judged)
    assert {c.content_key for c in executor.judged} <= {c.content_key for c in executor.screened}
    tiers = [a.result.status for a in kept]
    assert tiers.count("screened") == len(executor.screened)
    assert tiers.count("ok") == len(executor.judged)
    assert len(search.attempts) == len(executor.screened)  # a verdict takes the place of what screening said
    assert sum(use.judged for use in search.uses) == len(executor.judged)


def test_a_verdict_against_an_estimate_counts() -> None:
    """What looks best when screened is wrong where nobody had looked yet."""
    wrong = {"b"}

    class Judge(ScriptedExecutor):
        def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
            for candidate in candidates:
                self.judged.append(candidate)
                bad = any(u.technique in wrong for u in candidate.units)
                yield scripted_result(candidate, "incorrect" if bad else self.speed(candidate))

    executor = Judge(speed_by_values)
    search, _ = two_tiers(executor, evaluations=20)
    search.run()
    best = search.situation().best
    assert best is not None
    assert not best.screened
    assert all(u.technique not in wrong for u in best.candidate.units)
    failed = {a.candidate.content_key for a in search.attempts if a.result.status == "incorrect"}
    members = {key for island in search.methods.population.islands for key in island.members}
    assert failed
    assert not failed & members


def test_nothing_screened_is_the_outcome_of_a_confirmation() -> None:
    executor = ScriptedExecutor(speed_by_values)
    search, _ = two_tiers(executor)
    search.run()
    best = confirm(search, 3, lambda attempt: None)
    assert best is not None
    assert best.result.status == "ok"
    leaders = order_leaders(search, SilentObserver())
    judged = [a for a in leaders if not a.screened]
    assert leaders[: len(judged)] == judged  # whoever has no verdict comes after


def test_the_rest_of_the_set_up_is_done_once_before_the_first_verdict_and_estimates_follow() -> None:
    executor, called = ScriptedExecutor(speed_by_values), []
    search, _ = two_tiers(executor)

    def set_up():
        called.append(len(executor.judged))
        assert executor.screened
        return replace(search.facts, total_us=FACTS.total_us / 2)

    search.set_up = set_up
    search.run()
    assert called == [0]
    assert search.facts.total_us == FACTS.total_us / 2
    first = executor.screened[0]
    attempt = next(a for a in search.attempts if a.candidate.id == first.id)
    if attempt.screened:
        assert attempt.speedup == speed_by_values(first) / 2


def test_the_first_verdict_waits_for_a_second_round_while_baselines_compile() -> None:
    executor, rounds = ScriptedExecutor(speed_by_values), []
    search, _ = two_tiers(executor)

    def set_up():
        rounds.append((search.round, len(executor.screened), len(executor.judged)))
        return search.facts

    search.set_up = set_up
    search.run()
    first = sum(a.candidate.lineage.round == 0 for a in search.attempts)
    ((number, screened, judged),) = rounds
    assert (number, judged) == (1, 0)
    assert screened > first


def test_a_search_that_ends_after_its_first_round_has_a_verdict() -> None:
    executor = ScriptedExecutor(speed_by_values)
    search, _ = two_tiers(executor)
    search.set_up = lambda: search.facts
    search.meter.budget = Budget(evaluations=None, seconds=0.0)
    assert "time of 0 s spent" in search.run()
    assert search.round == 1
    assert len(executor.judged) == 1
    assert search.situation().best is not None
    assert not search.situation().best.screened


def test_a_search_that_is_stopped_before_its_first_verdict_sets_nothing_up() -> None:
    executor = ScriptedExecutor(speed_by_values)
    search, _ = two_tiers(executor)
    screen = executor.screen

    def stop_after(candidates: Sequence[Candidate]) -> Iterator[Result]:
        search.meter.stopped = "interrupted"
        yield from screen(candidates)

    executor.screen = stop_after  # type: ignore[method-assign]
    called: list[str] = []
    search.set_up = lambda: called.append("") or search.facts  # type: ignore[func-returns-value]
    assert search.run() == "interrupted"
    assert executor.screened
    assert not called
    assert not executor.judged


def test_the_set_up_takes_none_of_the_time_to_search(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr("warpsmith.search.loop.time.monotonic", lambda: now[0])
    search, _ = two_tiers(ScriptedExecutor(speed_by_values))
    began = search.meter.started

    def set_up():
        now[0] += 9.0
        return search.facts

    search.set_up = set_up
    search.finish_set_up()
    search.finish_set_up()
    assert search.meter.started == began + 9.0


def made(technique: str, speed: float, screened: bool = True) -> Attempt:
    candidate = chain_candidate(technique)
    return Attempt(candidate, (scripted_screening if screened else scripted_result)(candidate, speed))


def test_finalists_are_those_that_may_beat_what_is_sure() -> None:
    attempts = [made(name, speed) for name, speed in (("a", 1.2), ("b", 3.0), ("c", 2.0), ("d", 0.4))]
    assert [a.candidate.units[0].technique for a in choose_finalists(attempts, {})] == ["b", "c"][:FINALISTS]
    attempts.append(made("e", 1.5, screened=False))
    chosen = choose_finalists(attempts, {}, most=9)
    assert [a.candidate.units[0].technique for a in chosen] == ["b", "c"]


def test_a_small_round_has_one_finalist() -> None:
    """Else verdicts would take most of the time where few candidates are new."""
    assert [count_finalists(n) for n in (0, 1, FEW, FEW + 1, 24)] == [1, 1, 1, FINALISTS, FINALISTS]
    executor = ScriptedExecutor(speed_by_values)
    search, _ = two_tiers(executor)
    judged_by_round, run = list[int](), executor.run

    def count(candidates: Sequence[Candidate]) -> Iterator[Result]:
        fresh = sum(a.screened for a in search.attempts) + len(executor.judged)
        judged_by_round.append(len(candidates))
        assert len(candidates) <= FINALISTS
        assert len(candidates) == 1 or fresh > FEW
        return run(candidates)

    executor.run = count  # type: ignore[method-assign]
    search.run()
    assert judged_by_round


def test_estimates_that_were_too_high_are_believed_less() -> None:
    judged = made("e", 1.0, screened=False)
    estimate = made("e", 2.0).ratio
    assert estimate is not None
    estimates = {judged.candidate.content_key: estimate}
    attempts = [judged, made("a", 1.6), made("b", 2.4)]
    assert find_factor(attempts, estimates) == 0.5
    assert [a.candidate.units[0].technique for a in choose_finalists(attempts, estimates)] == ["b"]
    assert find_factor([], {}) == 1.0
