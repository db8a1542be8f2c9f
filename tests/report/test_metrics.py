"""The metrics against enumeration: every way to draw k of n samples is tried, and the mean taken."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import exp, inf, isclose, isnan, log
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.judge.timing.stats import Interval
from warpsmith.report.metrics import (
    efficiency_at_k,
    fast_p,
    geomean_interval,
    mean,
    pass_at_k,
    quotient,
    speedup_at_k,
)

SPEEDUPS = st.lists(
    st.just(0.0) | st.sampled_from([0.5, 1.0, 2.0]) | st.floats(0.01, 50), min_size=1, max_size=8
)


def choices(samples: list, k: int) -> list[tuple]:
    return list(combinations(samples, k))


@given(SPEEDUPS, st.integers(1, 8))
def test_pass_at_k_is_the_share_of_draws_with_a_correct_sample(speedups, k):
    value = pass_at_k(len(speedups), sum(s > 0 for s in speedups), k)
    if k > len(speedups):
        assert isnan(value)
    else:
        assert isclose(value, fmean(any(draw) for draw in choices(speedups, k)), abs_tol=1e-12)


@given(SPEEDUPS, st.integers(1, 8))
def test_speedup_at_k_is_the_mean_of_the_best_over_all_draws(speedups, k):
    value = speedup_at_k(speedups, k)
    if k > len(speedups):
        assert isnan(value)
    else:
        assert isclose(value, fmean(max(draw) for draw in choices(speedups, k)), rel_tol=1e-9, abs_tol=1e-12)


@given(
    st.lists(st.tuples(SPEEDUPS.map(lambda s: s[0]), st.integers(1, 4)), min_size=1, max_size=7),
    st.integers(1, 7),
)
def test_efficiency_at_k_is_that_of_the_fastest_of_each_draw(samples, k):
    value = efficiency_at_k([s for s, _ in samples], [r for _, r in samples], k)
    if k > len(samples):
        assert isnan(value)
        return
    fastest = [max((s, s / r) for s, r in draw)[1] for draw in choices(samples, k)]
    assert isclose(value, fmean(fastest), rel_tol=1e-9, abs_tol=1e-12)


@given(SPEEDUPS)
def test_more_draws_are_never_worse_and_all_of_them_are_the_best(speedups):
    by_k = [speedup_at_k(speedups, k) for k in range(1, len(speedups) + 1)]
    assert all(b >= a - 1e-9 for a, b in pairwise(by_k))
    assert isclose(by_k[0], fmean(speedups), abs_tol=1e-12)
    assert isclose(by_k[-1], max(speedups), abs_tol=1e-12)


def test_the_order_is_slowest_first_and_failures_count():
    """Sorted the other way, or without failures, the numbers are 2.5 and 4."""
    assert speedup_at_k([4.0, 0.0, 1.0], 2) == pytest.approx((4 + 4 + 1) / 3)


def test_fast_p_is_strict_and_over_all_tasks():
    speedups = [2.0, 1.0, 0.8, 0.0]
    assert [fast_p(speedups, p) for p in (0.0, 0.8, 1.0, 1.5, 2.0)] == [0.75, 0.5, 0.25, 0.25, 0.0]
    assert fast_p([], 1.0) == 0.0


def test_a_mean_with_a_task_of_too_few_samples_is_not_a_number():
    assert isnan(mean([1.0, pass_at_k(1, 1, 2)]))
    assert isnan(mean([]))
    assert mean([1.0, 0.0]) == 0.5


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0.1, 30), min_size=2, max_size=40))
def test_the_geometric_mean_lies_in_its_interval_and_inverts(speedups):
    found, inverse = geomean_interval(speedups), geomean_interval([1 / s for s in speedups])
    assert isclose(found.median, exp(fmean(map(log, speedups))), rel_tol=1e-9)
    assert found.low <= found.median * (1 + 1e-12)
    assert found.high >= found.median * (1 - 1e-12)
    assert isclose(found.low * inverse.high, 1.0, rel_tol=1e-6)


def test_an_interval_narrows_with_tasks_and_is_wide_open_for_one():
    few, many = geomean_interval([1.0, 2.0, 4.0]), geomean_interval([1.0, 2.0, 4.0] * 20)
    assert few.high / few.low > 2 * many.high / many.low
    assert (geomean_interval([2.0]).low, geomean_interval([2.0]).high) == (0.0, inf)
    assert geomean_interval([]).median == 1.0


def test_the_interval_covers_as_often_as_it_says():
    import numpy as np

    rng, hits = np.random.default_rng(1), 0
    for seed in range(200):
        interval = geomean_interval(list(np.exp(rng.normal(0.3, 0.5, 12))), seed)
        hits += interval.low <= exp(0.3) <= interval.high
    assert 0.88 <= hits / 200 <= 0.99


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(1.0, 1.5), st.floats(1.0, 1.5))
def test_a_quotient_inverts_and_is_wider_than_either(ours, theirs, wide, wider):
    a, b = Interval(ours, ours / wide, ours * wider), Interval(theirs, theirs / wider, theirs * wide)
    found, inverse = quotient(a, b), quotient(b, a)
    assert isclose(found.median, ours / theirs)
    assert isclose(found.low * inverse.high, 1.0, rel_tol=1e-9)
    assert found.high / found.low >= max(a.high / a.low, b.high / b.low) - 1e-9
    assert found.high / found.low <= a.high / a.low * b.high / b.low + 1e-9


def test_a_quotient_of_equals_is_not_sure_and_of_far_apart_ones_is():
    assert quotient(Interval(1.1, 1.05, 1.15), Interval(1.06, 1.01, 1.11)).low < 1
    assert quotient(Interval(1.5, 1.45, 1.55), Interval(1.1, 1.05, 1.15)).low > 1
    assert quotient(Interval(1.5, 0.0, 1.6), Interval(1.1, 1.05, 1.15)).low == 0.0
