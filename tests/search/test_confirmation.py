"""Who is confirmed, in which order, and what follows a confirmation that fails."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from made_attempts import TASK, attempt, unit

from warpsmith.agents.base import Attempt
from warpsmith.facts import Facts
from warpsmith.progress import SilentObserver
from warpsmith.records import Budget, Candidate, Limit, Ratio, Result
from warpsmith.search.confirmation import confirm, explain
from warpsmith.search.loop import Search
from warpsmith.search.meter import Meter
from warpsmith.search.methods import Methods
from warpsmith.testing import ScriptedExecutor, scripted_result

FACTS = Facts(threads=2, node_us={}, total_us=100.0, limit_us=1.0)
LIMIT = Limit(
    seconds=1e-6, least_bytes=1, flops=1, bytes_per_second=1e9, flops_per_second=1e9, bound="memory"
)
BUSY = Ratio(baseline="eager", median=1.5, low=0.9, high=2.5)


class Fresh(ScriptedExecutor):
    """What a fresh run makes of a candidate, by its technique."""

    def __init__(self, outcomes: Mapping[str, float | str]) -> None:
        super().__init__(lambda c: outcomes[c.units[0].technique])
        self.asked = list[str]()

    def confirm(self, candidate: Candidate) -> Result:
        self.asked.append(candidate.units[0].technique)
        return super().confirm(candidate)


class Told(SilentObserver):
    def __init__(self) -> None:
        self.stages, self.notes = list[str](), list[str]()

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def note(self, text: str) -> None:
        self.notes.append(text)


def named(technique: str, speed: float, source: str = "", **interval: float) -> Attempt:
    return attempt(speed, [unit(technique=technique, source=source)], **interval)


def finished(
    executor: Fresh,
    *attempts: Attempt,
    seconds: float | None = None,
    simplest: bool = False,
    **methods: object,
) -> Search:
    meter = Meter(Budget(seconds=seconds), reserve=0.0)
    search = Search(
        TASK, "cpu", FACTS, LIMIT, None, executor, meter, print, methods=Methods(simplest=simplest, **methods)  # type: ignore[arg-type]
    )  # fmt: skip
    search.attempts.extend(attempts)
    return search


@pytest.mark.parametrize("by", ["interval", "point"])
def test_leaders_go_by_the_low_end_of_their_interval_not_by_the_median(by: str) -> None:
    fresh = Fresh({"lucky": 1.5, "steady": 1.5})
    search = finished(fresh, named("lucky", 3.0, low=0.8, high=5.0), named("steady", 1.5, low=1.45), by=by)
    assert confirm(search, 3, lambda a: None) is not None
    assert fresh.asked == ["steady"]


@pytest.mark.parametrize(("low", "first"), [(0.8, "steady"), (1.449, "short")])
def test_less_code_goes_first_only_where_the_low_ends_are_equal(low: float, first: str) -> None:
    fresh = Fresh({"short": 1.5, "steady": 1.5})
    short = named("short", 3.0, "s();", low=low, high=5.0)
    search = finished(fresh, short, named("steady", 1.5, "steady();", low=1.45), simplest=True)
    assert confirm(search, 3, lambda a: None) is not None
    assert fresh.asked == [first]


@pytest.mark.parametrize("failure", ["incorrect", "error", "crashed", 1.0])
def test_the_second_leader_is_confirmed_when_the_first_fails(failure: float | str) -> None:
    fresh, told, kept = Fresh({"first": failure, "second": 1.4, "third": 1.3}), Told(), list[Attempt]()
    search = finished(fresh, named("first", 2.0), named("second", 1.5), named("third", 1.4))
    best = confirm(search, 3, kept.append, told)
    assert fresh.asked == ["first", "second"]
    assert best is kept[1]
    assert best.result.win
    first, second = told.stages
    assert first.startswith("confirming first@")
    assert second.startswith("confirming second@")
    (why,) = told.notes
    assert why.startswith("first@")
    assert ("1.00x eager" if failure == 1.0 else str(failure)) in why


@pytest.mark.parametrize(
    ("seconds", "asked"),
    [(25.0, ["a", "b"]), (35.0, ["a", "b", "c"]), (None, ["a", "b", "c"]), (1.0, ["a", "b"])],
)
def test_from_the_third_on_there_must_be_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float | None, asked: list[str]
) -> None:
    """A confirmation takes ten seconds here. The second leader is tried however little is left."""
    fresh, told = Fresh(dict.fromkeys("abc", "incorrect")), Told()
    search = finished(
        fresh, *(named(t, s) for t, s in zip("abc", (2.0, 1.8, 1.6), strict=True)), seconds=seconds
    )
    now = [0.0]
    monkeypatch.setattr("warpsmith.search.confirmation.time.monotonic", lambda: now[0])
    search.meter.started = 0.0
    at_once = fresh.confirm

    def slow(candidate: Candidate) -> Result:
        now[0] += 10.0
        return at_once(candidate)

    monkeypatch.setattr(fresh, "confirm", slow)
    assert confirm(search, 3, lambda a: None, told) is None
    assert fresh.asked == asked
    assert ("no time is left to confirm another candidate" in told.notes) is (len(asked) == 2)


@pytest.mark.parametrize(("seconds", "asked"), [(15.0, ["a"]), (25.0, ["a", "b"])])
def test_once_one_was_correct_another_is_confirmed_only_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float, asked: list[str]
) -> None:
    """A confirmation takes ten seconds here, and is no win."""
    fresh = Fresh(dict.fromkeys("ab", 1.0))
    search = finished(fresh, named("a", 2.0), named("b", 1.8), seconds=seconds)
    now = [0.0]
    monkeypatch.setattr("warpsmith.search.confirmation.time.monotonic", lambda: now[0])
    search.meter.started = 0.0
    at_once = fresh.confirm

    def slow(candidate: Candidate) -> Result:
        now[0] += 10.0
        return at_once(candidate)

    monkeypatch.setattr(fresh, "confirm", slow)
    best = confirm(search, 3, lambda a: None)
    assert best is not None
    assert fresh.asked == asked


@pytest.mark.parametrize(("taken", "reserve"), [(1.0, 4.0), (6.0, 6.0), (30.0, 8.0)])
def test_as_much_time_is_kept_as_a_confirmation_takes(
    monkeypatch: pytest.MonkeyPatch, taken: float, reserve: float
) -> None:
    """Of 20 seconds 4 have passed. Half of the rest stays the search's."""
    monkeypatch.setattr("warpsmith.search.meter.time.monotonic", lambda: 4.0)
    meter = Meter(Budget(seconds=20.0), reserve=4.0, started=0.0)
    meter.keep_for_confirmation(taken)
    assert meter.reserve == reserve
    endless = Meter(Budget(evaluations=3, seconds=None))
    endless.keep_for_confirmation(taken)
    assert endless.seconds_left is None


def test_no_more_are_confirmed_than_the_setting_allows() -> None:
    fresh = Fresh(dict.fromkeys("abc", "incorrect"))
    search = finished(fresh, named("a", 2.0), named("b", 1.8), named("c", 1.6))
    assert confirm(search, 2, lambda a: None) is None
    assert fresh.asked == ["a", "b"]


def test_a_leader_with_other_sources_goes_before_one_that_shares_a_faulty_one() -> None:
    """Three settings of one wrong kernel would else take all places."""
    fresh = Fresh({"wrong": "incorrect", "wrong-4": "incorrect", "wrong-8": "incorrect", "other": 1.2})
    same = [named(t, s, source="same") for t, s in (("wrong", 2.0), ("wrong-4", 1.9), ("wrong-8", 1.8))]
    search = finished(fresh, *same, named("other", 1.3))
    best = confirm(search, 3, lambda a: None)
    assert fresh.asked == ["wrong", "other"]
    assert best is not None


def test_of_those_that_are_correct_and_no_win_the_surest_is_the_best() -> None:
    class Noisy(Fresh):
        def confirm(self, candidate: Candidate) -> Result:
            result = super().confirm(candidate)
            if candidate.units[0].technique == "steady" or result.timing is None:
                return result
            return result.model_copy(update={"timing": result.timing.model_copy(update={"ratios": (BUSY,)})})

    fresh = Noisy({"noisy": 1.5, "steady": 1.0})
    best = confirm(finished(fresh, named("noisy", 1.6), named("steady", 1.5)), 3, lambda a: None)
    assert best is not None
    assert best.candidate.units[0].technique == "steady"


def test_after_one_that_is_correct_what_the_search_saw_slower_is_not_confirmed() -> None:
    fresh = Fresh({"even": 1.0, "slow": 0.8})
    assert confirm(finished(fresh, named("even", 1.2), named("slow", 0.9)), 3, lambda a: None) is not None
    assert fresh.asked == ["even"]


def test_a_result_that_is_no_win_is_explained_in_one_line() -> None:
    (candidate,) = (named("a", 1.0).candidate,)
    assert explain(scripted_result(candidate, 1.0)) == "not surely faster, 1.00x eager [0.98, 1.02]"
    assert explain(scripted_result(candidate, "crashed")) == "crashed: crashed"
