"""The one reading of intervals: what is sure, what is unknown, what is printed, and how measurements are pooled."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.records import Ratio, Timing
from warpsmith.records.intervals import (
    UNKNOWN_FACTOR,
    describe_ratio,
    describe_speed,
    find_point,
    find_sure_share,
    find_worth,
    is_surely_faster,
    is_unknown,
    pool_ratios,
    pool_timings,
)

speeds, widths = st.floats(0.05, 50.0), st.floats(0.0, 1.5)


def make(median: float, below: float, above: float, baseline: str = "eager") -> Ratio:
    return Ratio(
        baseline=baseline, median=median, low=median * math.exp(-below), high=median * math.exp(above)
    )


ratios = st.builds(make, speeds, widths, widths)
BUSY = Ratio(baseline="eager", median=3.0, low=0.0, high=9.0)


@given(ratios)
def test_what_is_sure_is_never_more_than_the_median(ratio: Ratio) -> None:
    assert 0 <= find_worth(ratio) <= find_point(ratio) <= ratio.median
    assert find_point(ratio) == (ratio.low if is_unknown(ratio) else ratio.median)


@given(ratios, ratios)
def test_only_intervals_that_do_not_overlap_are_told_apart(one: Ratio, other: Ratio) -> None:
    assert not (is_surely_faster(one, other) and is_surely_faster(other, one))
    assert not is_surely_faster(one, one)
    if is_surely_faster(one, other):
        assert find_worth(one) > find_worth(other)


@given(ratios)
def test_the_median_of_an_unknown_speedup_is_never_printed(ratio: Ratio) -> None:
    text = describe_ratio(ratio)
    assert text.startswith(f"{ratio.median:.2f}x [") is not is_unknown(ratio)
    if is_unknown(ratio):
        assert text.startswith("at least " if ratio.low > 1 else "unknown (too noisy: ")
        assert describe_speed(ratio) in (f"at least {ratio.low:.2f}x", "unknown (too noisy)")


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.45, 1.56, "1.50x [1.45, 1.56]"),
        (0.9, 1.79, "1.50x [0.90, 1.79]"),
        (0.3, 4.1, "unknown (too noisy: 0.30 to 4.10)"),
        (0.0, 1.6, "unknown (too noisy: 0.00 to 1.60)"),
        (1.2, 6.0, "at least 1.20x (noisy: up to 6.00)"),
    ],
)
def test_a_speedup_is_written_in_one_way(low: float, high: float, text: str) -> None:
    assert describe_ratio(Ratio(baseline="eager", median=1.5, low=low, high=high)) == text


def test_as_wide_as_the_factor_is_still_known() -> None:
    assert not is_unknown(Ratio(baseline="eager", median=1.2, low=1.0, high=UNKNOWN_FACTOR))


@given(st.lists(ratios, min_size=1, max_size=6))
def test_a_pooled_speedup_lies_among_those_that_were_pooled(several: list[Ratio]) -> None:
    pooled = pool_ratios(several)
    slack = 1 + 1e-9
    assert min(r.median for r in several) / slack <= pooled.median <= max(r.median for r in several) * slack
    assert pooled.low <= pooled.median * slack
    assert pooled.high * slack >= pooled.median


@given(ratios.filter(lambda r: r.high / r.low > 1.01))
def test_one_is_itself_and_two_that_agree_are_surer(ratio: Ratio) -> None:
    one, two = pool_ratios([ratio]), pool_ratios([ratio, ratio])
    assert (one.median, one.low, one.high) == pytest.approx((ratio.median, ratio.low, ratio.high))
    assert math.log(two.high / two.low) == pytest.approx(math.log(ratio.high / ratio.low) / math.sqrt(2))


def test_two_that_contradict_each_other_are_less_sure_than_either() -> None:
    pooled = pool_ratios([make(1.0, 0.05, 0.05), make(2.0, 0.05, 0.05)])
    assert pooled.high / pooled.low == pytest.approx(2.0)
    assert is_unknown(pool_ratios([make(1.0, 0.05, 0.05), make(2.1, 0.05, 0.05)]))


def test_a_measurement_of_a_busy_machine_adds_nothing() -> None:
    steady = make(1.5, 0.1, 0.1)
    assert pool_ratios([BUSY, steady]) == pool_ratios([steady])
    assert is_unknown(pool_ratios([BUSY, BUSY]))


def test_pooled_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Three measurements of a speedup of 1.3, each with an interval of 95%: the pooled one misses it in about 5% of the cases."""
    rng, missed, trials = random.Random(1), 0, 2000
    for _ in range(trials):
        several = []
        for _ in range(3):
            error = rng.uniform(0.02, 0.2)
            several.append(make(1.3 * math.exp(rng.gauss(0, error)), 1.96 * error, 1.96 * error))
        pooled = pool_ratios(several)
        missed += not pooled.low <= 1.3 <= pooled.high
    assert missed <= 0.06 * trials


def timing(*several: Ratio, us: float = 10.0, high_us: float = 11.0) -> Timing:
    return Timing(
        median_us=us, low_us=us, high_us=high_us, cache="cold", samples=5, ratios=several, limit_share=0.5
    )


def test_timings_are_pooled_baseline_by_baseline() -> None:
    pooled = pool_timings(
        [timing(make(1.5, 0.1, 0.1), make(2.0, 0.1, 0.1, "compile")), timing(make(1.5, 0.1, 0.1), us=12.0)]
    )
    eager, compiled = pooled.ratio("eager"), pooled.ratio("compile")
    assert eager is not None
    assert compiled is not None
    assert math.log(eager.high / eager.low) == pytest.approx(0.2 / math.sqrt(2))
    assert compiled.high == pytest.approx(2.0 * math.exp(0.1))
    assert pooled.median_us == 12.0


def test_the_sure_share_of_a_limit_goes_by_the_high_end_of_the_time() -> None:
    assert find_sure_share(timing(us=10.0, high_us=12.5)) == pytest.approx(0.4)
