"""A limit that is measured again in the middle of a search: everything follows, and nothing stops on a limit that is in doubt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from scripted_search import searched

from warpsmith.records import Candidate, Limit, Profile, RegionProfile, Result, UsedPeaks
from warpsmith.search.loop import Search
from warpsmith.testing import ScriptedExecutor

# Of 50 us a candidate: the high limit says that 96% is reached, the low one that 30% is.
HIGH = Limit(
    seconds=48e-6, least_bytes=480_000, flops=1, bytes_per_second=1e10, flops_per_second=1e12, bound="memory",
    peaks=UsedPeaks(key="high", measured_at="2026-11-25T06:00:00+00:00"),
)  # fmt: skip
LOW = HIGH.model_copy(
    update={
        "seconds": 15e-6, "bytes_per_second": 3.2e10,
        "peaks": UsedPeaks(key="low", measured_at="2026-11-25T07:00:00+00:00"),
    }
)  # fmt: skip


def mark_busy(limit: Limit) -> Limit:
    assert limit.peaks is not None
    return limit.model_copy(update={"peaks": limit.peaks.model_copy(update={"busy": True})})


class Judge(ScriptedExecutor):
    """Each candidate takes 50 us, all of it in units that move as many bytes as the task. The limit that results name may change
    after some of them."""

    def __init__(self, limit: Limit, later: Limit | None = None, after: int = 3) -> None:
        super().__init__(lambda candidate: 2.0)
        self.limit, self.later, self.after, self.asked = limit, later, after, 0

    def remeasure_limit(self) -> Limit:
        self.asked += 1
        self.limit = self.later or self.limit
        return self.limit

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate, result in zip(candidates, super().run(candidates), strict=True):
            if self.after == 0:
                self.limit = self.later or self.limit
            self.after -= 1
            assert result.timing is not None
            regions = tuple(
                RegionProfile(
                    region=u.region.id, seconds=50e-6, least_bytes=480_000, flops=1,
                    limit_share=self.limit.seconds / 50e-6, bottleneck="memory",
                )
                for u in candidate.units
            )  # fmt: skip
            yield result.model_copy(
                update={"timing": result.timing.restate(self.limit), "profile": Profile(regions=regions)}
            )


class Screener(Judge):
    """What is screened names a limit, too, and each verdict a lower one."""

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            self.limit = self.limit.model_copy(update={"seconds": 0.9 * self.limit.seconds})
            yield from super().run([candidate])

    def screen(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for result in super().screen(candidates):
            assert result.timing is not None
            yield result.model_copy(update={"timing": result.timing.restate(self.limit)})


def search_with(judge: Judge, near_limit: float = 9.0, **settings: Any) -> tuple[Search, Callable[[], str]]:
    search = searched(judge, run=False, evaluations=25, patience=50, **settings)
    search.limit, search.facts = judge.limit, search.facts.by_limit(judge.limit)
    search.remeasure_limit = judge.remeasure_limit
    search.team.orchestrator.near_limit = near_limit
    return search, search.run


@pytest.mark.parametrize("settings", [{"steering": True}, {"steering": False, "near_limit": 0.9}])
def test_a_limit_is_measured_again_before_the_search_stops_on_it(settings: dict[str, Any]) -> None:
    confirmed = Judge(HIGH, after=-1)
    search, run = search_with(confirmed, **settings)
    assert "limit" in run() or search.methods.steering.saved.stopped
    assert confirmed.asked == 1
    assert search.meter.evaluations < 25

    contradicted = Judge(HIGH, LOW, after=-1)
    search, run = search_with(contradicted, **settings)
    assert "limit" not in run()
    assert contradicted.asked == 1, "once a search"
    assert not search.methods.steering.saved.stopped
    assert search.meter.evaluations > confirmed_evaluations(confirmed)
    assert search.limit == LOW


def confirmed_evaluations(judge: Judge) -> int:
    return len(judge.judged)


@pytest.mark.parametrize("settings", [{"steering": True}, {"steering": False, "near_limit": 0.9}])
def test_nothing_stops_on_a_limit_from_a_busy_machine(settings: dict[str, Any]) -> None:
    judge = Judge(mark_busy(HIGH), after=-1)
    search, run = search_with(judge, **settings)
    stopped = run()
    assert "limit" not in stopped
    assert "left in the regions" not in stopped
    assert search.methods.steering.open(search.situation(), judge.judged[0].units[0].region.id)
    assert not search.situation().steered


def test_everything_follows_a_limit_that_changed_in_the_middle() -> None:
    judge = Judge(HIGH, LOW, after=2)
    recorded: list[Result] = []
    search, run = search_with(judge, steering=False)
    search.record = lambda attempt: recorded.append(attempt.result)
    run()
    assert [r.timing.limit for r in recorded[:3]] == [HIGH, HIGH, LOW], "the record says what was known then"  # type: ignore[union-attr]
    situation = search.situation()
    assert situation.limit == LOW
    assert situation.facts.limit_us == pytest.approx(15.0)
    assert situation.facts.bandwidth == LOW.bytes_per_second
    for attempt in situation.attempts:
        assert attempt.result.timing is not None
        assert attempt.result.profile is not None
        assert attempt.result.timing.limit == LOW
        assert attempt.result.timing.limit_share == pytest.approx(0.3)
        assert all(p.limit_share == pytest.approx(0.3) for p in attempt.result.profile.regions)
    by_key = {a.candidate.content_key: a for a in situation.attempts}
    members = [m for island in search.methods.population.islands for m in island.members.values()]
    assert members
    assert all(m is by_key[m.candidate.content_key] for m in members)


def test_a_limit_that_changes_with_each_of_a_rounds_finalists() -> None:
    judge = Screener(HIGH)
    search, run = search_with(judge, steering=False)
    search.screener = judge
    run()
    assert len(judge.judged) > 2
    assert search.limit == judge.limit
    assert {a.candidate.content_key for a in search.attempts if not a.screened} == {
        c.content_key for c in judge.judged
    }


def test_a_worse_limit_is_not_taken() -> None:
    judge = Judge(LOW, HIGH, after=2)
    search, run = search_with(judge, steering=False)
    run()
    assert search.limit == LOW
    assert {a.result.timing.limit for a in search.attempts if a.result.timing} == {LOW}
