"""One fixed baseline: which one it is, what is too noisy to compare with it, and which figures contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith import machine
from warpsmith.archive.entries import RunRecord
from warpsmith.authoring.fixed_baseline import choose_fixed_baseline, contradicts, view_timed
from warpsmith.records import BaselineTiming, Result
from warpsmith.testing import chain_candidate, scripted_result, scripted_screening


def baseline(name: str, us: float, spread: float = 1.02) -> BaselineTiming:
    return BaselineTiming(name=name, ok=True, median_us=us, low_us=us / spread, high_us=us * spread)


def run(started_at: str, *baselines: BaselineTiming) -> RunRecord:
    return RunRecord(
        run_id=started_at, task_id="t", task_name="t", target="cpu", seed=0, config={}, environment=machine.describe(),
        started_at=started_at, baselines=baselines,
    )  # fmt: skip


def test_the_fastest_of_the_run_that_timed_the_most(request: Any) -> None:
    eager_only = run("1", baseline("eager", 90.0))
    both = run("2", baseline("eager", 100.0), baseline("compile", 80.0))
    noisy = run("3", baseline("eager", 50.0, 9.0), baseline("compile", 40.0, 9.0))
    later = run("4", baseline("eager", 100.0), baseline("compile", 70.0))
    for runs in ([eager_only, both, noisy, later], [later, noisy, both, eager_only]):
        fixed = choose_fixed_baseline(runs)
        assert fixed is not None
        assert (fixed.name, fixed.median_us) == ("compile", 80.0)  # of equals the oldest: it stays what it is
    assert choose_fixed_baseline([noisy]) is None
    assert choose_fixed_baseline([]) is None


def test_an_estimate_and_a_verdict_are_compared_with_the_same() -> None:
    candidate, fixed = chain_candidate("a"), baseline("compile", 80.0)
    for result, estimated in (
        (scripted_screening(candidate, 2.0), True),
        (scripted_result(candidate, 2.0), False),
    ):
        timed = view_timed(result, fixed)
        assert timed is not None
        assert (timed.estimated, timed.baseline, timed.baseline_us) == (estimated, "compile", 80.0)
        assert timed.speedup is not None
        assert timed.speedup.median == pytest.approx(80.0 / 50.0)
    assert view_timed(scripted_result(candidate, "incorrect"), fixed) is None


def test_what_was_measured_side_by_side_goes_before_a_quotient() -> None:
    timed = view_timed(scripted_result(chain_candidate("a"), 2.0), baseline("eager", 500.0))
    assert timed is not None
    assert timed.speedup is not None
    assert timed.speedup.median == 2.0


def test_a_time_that_tells_nothing_has_no_speedup() -> None:
    result = scripted_result(chain_candidate("a"), 2.6)
    assert result.timing is not None
    ratio = result.timing.ratios[0].model_copy(update={"low": 0.37, "high": 28.82})
    timing = result.timing.model_copy(update={"ratios": (ratio,), "busy": "others ran"})
    timed = view_timed(Result.model_validate(dict(result) | {"timing": timing}), baseline("eager", 100.0))
    assert timed is not None
    assert timed.speedup is None
    assert timed.busy == "others ran"


@pytest.mark.parametrize(
    ("parts_us", "eager_us", "wrong"),
    [
        (3259, 44_591, True),
        (3259, 3300, False),
        (3259, 1500, True),
        (9, 100, False),
        (9, 5000, True),
        (0, 100, False),
    ],
)
def test_parts_that_contradict_the_whole_are_said(parts_us: float, eager_us: float, wrong: bool) -> None:
    said = contradicts({"a": parts_us / 2, "b": parts_us / 2}, baseline("eager", eager_us))
    assert bool(said) == wrong
    assert contradicts({"a": parts_us}, None) == ""
