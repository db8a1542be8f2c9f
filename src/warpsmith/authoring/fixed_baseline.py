"""One fixed baseline a task and machine: every µs that an author is shown is compared with it, whoever measured it and when.

In: runs and timings of the archive. Out: the baseline, and a `Timed` that says time, interval and speedup over it. What is too noisy to
tell anything gets no speedup, and figures that contradict each other are left out with a word about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..archive.entries import RunRecord
from ..records import BaselineTiming, Ratio, Result
from ..records.intervals import is_unknown
from .author_views import Timed

EXACT = 1.02  # interval of a baseline whose run did not note one, either way
OVERHEAD_US = 100.0  # of a call of a small module, which no part has
MAX_DISAGREEMENT = 2.0  # factor between eager and the sum of its parts beyond which one of the two is wrong


def choose_fixed_baseline(runs: Iterable[RunRecord]) -> BaselineTiming | None:
    """Choose the fastest baseline of the run that timed the most of them with the narrowest interval; of equals the oldest, so that
    it stays what it is. None where no run timed one well enough to tell. `runs`: of one task on one machine.
    """
    best: tuple[tuple[int, float, str], BaselineTiming] | None = None
    for run in runs:
        steady = [b for b in run.baselines if b.ok and not is_noisy(b)]
        if not steady:
            continue
        fastest = min(steady, key=lambda b: b.median_us)
        key = (-len(steady), _spread(fastest), run.started_at)
        if best is None or key < best[0]:
            best = (key, fastest)
    return best[1] if best is not None else None


def view_timed(result: Result, fixed: BaselineTiming | None) -> Timed | None:
    """Return the time of a result; None where it failed."""
    timing = result.timing
    if timing is None or not result.passed:
        return None
    return Timed(
        us=timing.median_us, low_us=timing.low_us, high_us=timing.high_us, estimated=result.status == "screened",
        baseline=fixed.name if fixed is not None else "", baseline_us=fixed.median_us if fixed is not None else 0.0,
        speedup=_compare(result, fixed) if fixed is not None else None, busy=timing.busy,
    )  # fmt: skip


def _compare(result: Result, fixed: BaselineTiming) -> Ratio | None:
    """Take the ratio that was measured side by side, if it was; else that of the two times. None where it is too noisy to tell."""
    timing = result.timing
    assert timing is not None
    ratio = timing.ratio(fixed.name) if result.status == "ok" else None
    if ratio is None:
        low_us, high_us = fixed.low_us or fixed.median_us / EXACT, fixed.high_us or fixed.median_us * EXACT
        ratio = Ratio(
            baseline=fixed.name, median=fixed.median_us / timing.median_us, low=low_us / max(timing.high_us, 1e-3),
            high=high_us / max(timing.low_us, 1e-3),
        )  # fmt: skip
    return None if is_unknown(ratio) else ratio


def contradicts(node_us: Mapping[str, float], eager: BaselineTiming | None) -> str:
    """Say how the times of the reference's parts contradict the reference's own; empty where they do not.

    The parts leave out what torch does between them, so a little less than the whole is usual.
    """
    parts_us = sum(node_us.values())
    if eager is None or not eager.ok or parts_us <= 0:
        return ""
    if (
        eager.median_us / MAX_DISAGREEMENT <= parts_us + OVERHEAD_US
        and parts_us <= eager.median_us * MAX_DISAGREEMENT
    ):
        return ""
    return (
        f"the reference took {eager.median_us:.0f} µs and its parts {parts_us:.0f} µs in all: other programs ran meanwhile, so the times of "
        "the parts are left out"
    )


def is_noisy(baseline: BaselineTiming) -> bool:
    return bool(baseline.low_us) and _spread(baseline) > MAX_DISAGREEMENT


def _spread(baseline: BaselineTiming) -> float:
    return baseline.high_us / baseline.low_us if baseline.low_us > 0 else EXACT
