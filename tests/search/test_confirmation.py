"""Who is confirmed, in which order, and what follows a confirmation that fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest
from made_attempts import TASK, attempt, unit

from warpsmith.agents.base import Attempt
from warpsmith.facts import Facts
from warpsmith.pipeline.summary import status_of
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
    """What a fresh run makes of a candidate, by its technique; a list, what one after another does. `again`: what timing it again gives, when
    the leaders are; without, the judge is lost then, and the search's order stands.
    """

    def __init__(
        self,
        outcomes: Mapping[str, float | str | Ratio | list[float | str | Ratio]],
        again: Mapping[str, float | str | Ratio] | None = None,
    ) -> None:
        super().__init__(lambda c: 1.0)
        self.outcomes = {name: o if isinstance(o, list) else [o] for name, o in outcomes.items()}
        self.again, self.timed = again, list[list[str]]()
        self.asked, self.waits = list[str](), list[float]()

    def remeasure(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        self.timed.append([c.units[0].technique for c in candidates])
        for candidate in candidates:
            yield result_of(candidate, self.again[candidate.units[0].technique] if self.again else "error")

    def wait_until_quiet(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return True

    def confirm(self, candidate: Candidate) -> Result:
        name = candidate.units[0].technique
        outcomes = self.outcomes[name]
        outcome = outcomes[min(self.asked.count(name), len(outcomes) - 1)]
        self.asked.append(name)
        return result_of(candidate, outcome, confirmed=True)


def result_of(candidate: Candidate, outcome: float | str | Ratio, confirmed: bool = False) -> Result:
    """A scripted result; a ratio that begins at 0 comes from a busy machine."""
    if not isinstance(outcome, Ratio):
        return scripted_result(candidate, outcome, confirmed=confirmed)
    result = scripted_result(candidate, 1.0, confirmed=confirmed)
    timing = result.timing.model_copy(
        update={"ratios": (outcome,), "busy": "" if outcome.low else "a process waited"}
    )
    return result.model_copy(update={"timing": timing})


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
    meter = Meter(Budget(seconds=seconds))
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


@pytest.mark.parametrize(
    ("low", "high", "first"), [(0.8, 1.7, "steady"), (1.449, 1.7, "short"), (1.449, 5.0, "steady")]
)
def test_less_code_goes_first_only_where_the_low_ends_are_equal(low: float, high: float, first: str) -> None:
    fresh = Fresh({"short": 1.5, "steady": 1.5})
    short = named("short", 1.6, "s();", low=low, high=high)
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
    assert ("1.00x [0.98, 1.02] over eager" if failure == 1.0 else str(failure)) in why


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


def test_confirmations_have_time_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search has its 20 seconds whole; what confirms comes after."""
    now = [4.0]
    monkeypatch.setattr("warpsmith.search.meter.time.monotonic", lambda: now[0])
    meter = Meter(Budget(seconds=20.0), confirmation=8.0)
    now[0] = 10.0
    meter.start()
    now[0] = 13.0
    assert meter.seconds_left == 17.0
    assert meter.seconds_in_all == 25.0
    now[0] = 31.0
    assert meter.find_reached_limit() is not None
    assert meter.seconds_in_all == 7.0
    assert Meter(Budget(evaluations=3, seconds=None)).seconds_in_all is None


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
    fresh = Fresh({"noisy": BUSY, "steady": 1.0})
    best = confirm(finished(fresh, named("noisy", 1.6), named("steady", 1.5)), 3, lambda a: None)
    assert best is not None
    assert best.candidate.units[0].technique == "steady"


def test_after_one_that_is_correct_what_the_search_saw_slower_is_not_confirmed() -> None:
    fresh = Fresh({"even": 1.0, "slow": 0.8})
    assert confirm(finished(fresh, named("even", 1.2), named("slow", 0.9)), 3, lambda a: None) is not None
    assert fresh.asked == ["even"]


def test_a_result_that_is_no_win_is_explained_in_one_line() -> None:
    (candidate,) = (named("a", 1.0).candidate,)
    assert explain(scripted_result(candidate, 1.0)) == "not surely faster, 1.00x [0.98, 1.02] over eager"
    assert explain(scripted_result(candidate, "crashed")) == "crashed: crashed"


# ---------------------------------------------------------------- a busy machine

WIDE_WIN = Ratio(baseline="eager", median=3.0, low=1.2, high=9.0)
WAITED = Ratio(baseline="eager", median=3.0, low=0.0, high=9.0)


def clocked(monkeypatch: pytest.MonkeyPatch, search: Search, fresh: Fresh, seconds: float = 10.0) -> None:
    """A clock that only confirmations and waits move: ten seconds each, or as long as is waited."""
    now = [0.0]
    monkeypatch.setattr("warpsmith.search.confirmation.time.monotonic", lambda: now[0])
    search.meter.started = 0.0
    judge, wait = fresh.confirm, fresh.wait_until_quiet

    def confirm_slowly(candidate: Candidate) -> Result:
        now[0] += seconds
        return judge(candidate)

    def wait_slowly(most: float) -> bool:
        now[0] += most
        return wait(most)

    monkeypatch.setattr(fresh, "confirm", confirm_slowly)
    monkeypatch.setattr(fresh, "wait_until_quiet", wait_slowly)


@pytest.mark.parametrize("noise", [WAITED, BUSY, WIDE_WIN])
def test_a_confirmation_that_noise_spoilt_is_repeated_for_the_same_candidate(noise: Ratio) -> None:
    fresh, told, kept = Fresh({"first": [noise, 1.5], "second": 1.4}), Told(), list[Attempt]()
    search = finished(fresh, named("first", 2.0), named("second", 1.5))
    best = confirm(search, 3, kept.append, told)
    assert fresh.asked == ["first", "first"]
    assert best is kept[1]
    assert best.result.win
    assert len(kept) == 2  # both are recorded
    assert search.busy == ""
    assert told.stages[1].startswith("waiting for a quiet machine, 60s at most: ")


def test_a_wide_win_is_repeated_and_only_stands_where_it_wins_again_or_no_time_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seconds, outcomes, win in (
        (None, [WIDE_WIN, 1.0], False),
        (None, [WIDE_WIN], True),
        (15.0, [WIDE_WIN, 1.0], True),
    ):
        fresh = Fresh({"first": outcomes})
        search = finished(fresh, named("first", 2.0), seconds=seconds)
        clocked(monkeypatch, search, fresh)
        best = confirm(search, 3, lambda a: None)
        assert best is not None
        assert best.result.win is win


def test_after_a_spoilt_first_the_second_is_confirmed_and_reported() -> None:
    fresh, kept = Fresh({"first": WAITED, "second": 1.4}), list[Attempt]()
    search = finished(fresh, named("first", 2.0), named("second", 1.5))
    best = confirm(search, 3, kept.append)
    assert fresh.asked == ["first", "first", "first", "first", "second"]
    assert best is kept[-1]
    assert best.result.win
    assert search.busy == ""


def test_a_machine_that_stays_busy_makes_the_run_unknown_not_lost() -> None:
    fresh = Fresh({"first": WAITED, "second": WAITED})
    search = finished(fresh, named("first", 2.0), named("second", 1.5))
    best = confirm(search, 3, lambda a: None)
    assert search.busy == "a process waited"
    assert best is not None
    assert status_of(search, best, admitted=True) == (
        "too-busy", "the machine was too busy to confirm anything: a process waited"
    )  # fmt: skip


def test_what_is_surely_slower_is_not_waited_for_however_wide_its_interval() -> None:
    fresh = Fresh({"first": Ratio(baseline="eager", median=0.4, low=0.2, high=0.9)})
    search = finished(fresh, named("first", 2.0))
    best = confirm(search, 3, lambda a: None)
    assert fresh.asked == ["first"]
    assert status_of(search, best, admitted=True)[0] == "no-win"


@pytest.mark.parametrize(
    ("seconds", "asked", "waits"), [(15.0, 1, []), (25.0, 2, [5.0]), (200.0, 4, [60.0, 60.0, 40.0])]
)
def test_waiting_ends_with_the_runs_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float, asked: int, waits: list[float]
) -> None:
    """A confirmation takes ten seconds. What is left after one more is waited at the most."""
    fresh, told = Fresh({"first": WAITED}), Told()
    search = finished(fresh, named("first", 2.0), seconds=seconds)
    clocked(monkeypatch, search, fresh)
    confirm(search, 3, lambda a: None, told)
    assert (len(fresh.asked), fresh.waits) == (asked, waits)
    assert search.busy


# ---------------------------------------------------------------- timing the leaders again


def lucky(count: int) -> list[Attempt]:
    """Leaders whose intervals all overlap: t0 leads."""
    return [named(f"t{i}", 2.0 - 0.05 * i, low=1.5 - 0.01 * i, high=2.4) for i in range(count)]


def test_leaders_are_halved_and_the_best_of_what_was_measured_since_is_confirmed() -> None:
    again = {f"t{i}": 1.0 + 0.1 * i for i in range(8)}
    fresh, told = Fresh(dict.fromkeys(again, 1.5), again), Told()
    confirm(finished(fresh, *lucky(9)), 3, lambda a: None, told)
    assert [sorted(names) for names in fresh.timed] == [
        [f"t{i}" for i in range(8)], [f"t{i}" for i in range(4, 8)], ["t6", "t7"]
    ]  # fmt: skip
    assert fresh.asked == ["t7"]
    assert told.stages[0] == "timing 8 leaders again"
    assert "1.70x" in told.stages[1]  # what is said of it is what was measured since


def test_one_leader_that_is_surely_first_is_not_timed_again() -> None:
    fresh = Fresh({"a": 1.5, "b": 1.5}, {"a": 1.0, "b": 1.0})
    confirm(finished(fresh, named("a", 2.0), named("b", 1.2)), 3, lambda a: None)
    assert fresh.timed == []


def test_a_leader_that_turns_out_wrong_when_it_is_timed_again_goes_last() -> None:
    fresh = Fresh({"t0": "incorrect", "t1": 1.5, "t2": 1.5}, {"t0": "incorrect", "t1": 1.2, "t2": 1.1})
    confirm(finished(fresh, *lucky(3)), 3, lambda a: None)
    assert fresh.asked == ["t1"]


@pytest.mark.parametrize(("seconds", "timed"), [(None, 8), (100.0, 8), (30.0, 4), (10.0, 2), (5.0, 0)])
def test_as_many_leaders_are_timed_again_as_a_share_of_the_time_allows(
    monkeypatch: pytest.MonkeyPatch, seconds: float | None, timed: int
) -> None:
    """Each took a second in the search: eight take fourteen, four six, two two, of a quarter of what is left."""
    leaders = [
        Attempt(a.candidate, a.result.model_copy(update={"seconds": {"time": 1.0, "build": 9.0}}))
        for a in lucky(8)
    ]
    fresh, told = (
        Fresh(dict.fromkeys([f"t{i}" for i in range(8)], 1.5), {f"t{i}": 1.5 for i in range(8)}),
        Told(),
    )
    search = finished(fresh, *leaders, seconds=seconds)
    monkeypatch.setattr("warpsmith.search.confirmation.time.monotonic", lambda: 0.0)
    search.meter.started = 0.0
    confirm(search, 3, lambda a: None, told)
    assert (len(fresh.timed[0]) if fresh.timed else 0) == timed
    note = "no time is left to time the leaders again: they are confirmed as the search ranked them"
    assert (note in told.notes) is (timed == 0)


def test_a_replay_confirms_in_the_recorded_order() -> None:
    fresh, (first, second) = Fresh({"t0": 1.5, "t1": 1.5}), lucky(2)
    confirm(finished(fresh, first, second), 3, lambda a: None, leaders=[second])
    assert fresh.asked == ["t1"]
    assert fresh.timed == []
