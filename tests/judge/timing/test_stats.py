import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.judge.timing import stats
from warpsmith.judge.timing.bench import GPU_FLOOR

times = st.floats(1e2, 1e9)
block = st.lists(times, min_size=1, max_size=5)
rounds = st.integers(2, 8).flatmap(
    lambda r: st.tuples(st.lists(block, min_size=r, max_size=r), st.lists(block, min_size=r, max_size=r))
)


def noisy(rng, gain, count, calls, *, jitter=0.03, bursts=0.1, drift=0.01, process=0.003):
    """Rounds of two sides under lognormal jitter, bursts that double a block, drift, and a lasting
    per-process difference.
    """
    level = np.cumsum(rng.normal(0, drift, 2 * count))
    sides = []
    for side, speed in enumerate((1.0, gain)):
        own = rng.normal(0, process)
        blocks = []
        for r in range(count):
            base = 1e5 / speed * math.exp(level[2 * r + side] + own + rng.normal(0, 0.01))
            block = base * np.exp(np.abs(rng.normal(0, jitter, calls)))
            blocks.append(list(block * (rng.uniform(1, 2) if rng.random() < bursts else 1.0)))
        sides.append(blocks)
    return sides


def share(gain, count, calls, judge, trials=200, **noise):
    rng = np.random.default_rng(7)
    return sum(judge(stats.ratio(*noisy(rng, gain, count, calls, **noise))) for _ in range(trials)) / trials


@pytest.mark.parametrize(("count", "calls"), [(4, 1), (6, 3), (12, 3), (24, 3)])
def test_a_callable_against_itself_rarely_wins(count, calls):
    assert share(1.0, count, calls, lambda r: r.low > 1.0) <= 0.025


def test_interval_holds_the_truth():
    assert share(1.3, 12, 3, lambda r: r.low <= 1.3 <= r.high) >= 0.95


def test_a_real_gain_is_found():
    calm = {"bursts": 0.05, "drift": 0.003}
    assert share(1.10, 24, 3, lambda r: r.low > 1.0, trials=60, **calm) >= 0.8
    assert share(1.6, 6, 3, lambda r: r.low > 1.0, trials=60, **calm) >= 0.9


def test_bursts_on_one_side_do_not_make_a_win():
    fast = [[100.0, 101.0, 99.0]] * 12
    disturbed = [list(b) for b in fast]
    for r in (1, 5, 9):
        disturbed[r] = [900.0, 900.0, 900.0]
    found = stats.ratio(disturbed, fast)
    assert found.low < 1.0
    assert found.median < 1.02


def slow_host(rng, gain, count):
    """Two callables of which the second is `gain` times as fast; the host slows the first in most rounds."""
    slow = [
        [1e4 * rng.uniform(0.99, 1.01) * (rng.uniform(1.3, 5) if rng.random() < 0.7 else 1)] * 3
        for _ in range(count)
    ]
    return slow, [[1e4 / gain * rng.uniform(0.99, 1.01)] * 3 for _ in range(count)]


def test_a_host_that_slows_the_baseline_in_most_rounds_does_not_make_a_win():
    rng = np.random.default_rng(3)
    lows = [stats.ratio(*slow_host(rng, 1.0, 12)).low for _ in range(100)]
    assert sum(low > 1.0 for low in lows) <= 2


def test_a_gain_that_exceeds_what_the_host_adds_is_found_nevertheless():
    rng = np.random.default_rng(3)
    lows = [stats.ratio(*slow_host(rng, 3.0, 12)).low for _ in range(100)]
    assert sum(low > 1.0 for low in lows) >= 98


@given(rounds)
@settings(max_examples=40, deadline=None)
def test_ratio_is_antisymmetric_and_its_interval_holds_it(pair):
    a, b = pair
    there, back = stats.ratio(a, b), stats.ratio(b, a)
    assert there.median == pytest.approx(1 / back.median, rel=1e-9)
    assert there.low < there.median < there.high


@given(rounds, st.floats(1e-3, 1e3))
@settings(max_examples=40, deadline=None)
def test_ratio_does_not_depend_on_the_unit(pair, unit):
    a, b = pair
    scaled = stats.ratio([[t * unit for t in x] for x in a], [[t * unit for t in x] for x in b])
    plain = stats.ratio(a, b)
    assert scaled.median == pytest.approx(plain.median, rel=1e-6)
    assert scaled.low == pytest.approx(plain.low, rel=1e-6)


@given(st.lists(block, min_size=2, max_size=8), st.floats(0.2, 5.0))
@settings(max_examples=40, deadline=None)
def test_exact_factor_is_the_ratio(blocks, factor):
    faster = [[t / factor for t in b] for b in blocks]
    assert stats.ratio(blocks, faster).median == pytest.approx(factor, rel=1e-6)


def test_same_seed_same_interval():
    a, b = noisy(np.random.default_rng(0), 1.1, 8, 3)
    assert stats.ratio(a, b, seed=3) == stats.ratio(a, b, seed=3)


def test_floor_widens_an_interval_without_noise():
    found = stats.ratio([[101.0]] * 10, [[100.0]] * 10)
    assert found.low == pytest.approx(1.01 / (1 + stats.PROCESS_FLOOR))
    assert found.low <= 1.0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([[1.0]], [[1.0]]),
        ([[1.0], []], [[1.0], [1.0]]),
        ([[1.0]] * 3, [[1.0]] * 2),
        ([[0.0], [1.0]], [[1.0], [1.0]]),
    ],
)
def test_what_is_not_a_measurement_is_refused(a, b):
    with pytest.raises(ValueError):
        stats.ratio(a, b)


def test_typical_time_ignores_a_burst():
    blocks = [[100.0, 102.0, 98.0]] * 7 + [[1000.0]]
    found = stats.typical(blocks)
    assert 95 < found.low <= found.median <= 105
    assert stats.typical([[5.0, 7.0, 6.0]]) == stats.Interval(6.0, 6.0, 6.0) or math.isclose(
        stats.typical([[5.0, 7.0, 6.0]]).median, 6.0
    )


def test_spread_is_zero_without_drift_and_grows_with_it():
    assert stats.spread([[100.0]] * 8) == pytest.approx(0.0)
    assert stats.spread([[100.0 + 10 * r] for r in range(8)]) > 0.2


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.30265), (4, 2.77645), (9, 2.26216), (10, 2.22814), (29, 2.04523)],
)
def test_student_t_matches_the_tables(freedom, quantile):
    assert stats.student_t(0.975, freedom) == pytest.approx(quantile, rel=1e-5)


singles = st.integers(2, 10).flatmap(
    lambda r: st.tuples(*[st.lists(times, min_size=r, max_size=r).map(lambda ts: [[t] for t in ts])] * 2)
)
CALM = {
    "jitter": 0.01,
    "bursts": 0.05,
    "drift": 0.002,
    "process": 0.001,
}  # a device of our own, calls of 50 µs


@given(singles)
@settings(max_examples=60, deadline=None)
def test_the_interval_is_antisymmetric_too(pair):
    """Whoever is called the baseline: what one side wins the other loses, by as much and as surely."""
    a, b = pair
    there, back = stats.ratio(a, b), stats.ratio(b, a)
    assert there.low == pytest.approx(1 / back.high, rel=1e-9)
    assert there.high == pytest.approx(1 / back.low, rel=1e-9)


@given(rounds, st.lists(st.floats(0.1, 10.0), min_size=8, max_size=8))
@settings(max_examples=40, deadline=None)
def test_drift_that_meets_both_sides_of_a_round_cancels(pair, drift):
    a, b = pair
    slow, fast = ([[t * d for t in x] for x, d in zip(side, drift, strict=False)] for side in pair)
    plain, drifted = stats.ratio(a, b), stats.ratio(slow, fast)
    for field in ("median", "low", "high"):
        assert getattr(drifted, field) == pytest.approx(getattr(plain, field), rel=1e-6)


@given(rounds, st.floats(1.001, 5.0))
@settings(max_examples=40, deadline=None)
def test_a_slower_candidate_never_looks_better(pair, factor):
    a, b = pair
    slower = stats.ratio(a, [[t * factor for t in x] for x in b])
    plain = stats.ratio(a, b)
    for field in ("median", "low", "high"):
        assert getattr(slower, field) == pytest.approx(getattr(plain, field) / factor, rel=1e-6)


@given(rounds, st.floats(0.0, 0.2), st.floats(0.001, 0.2))
@settings(max_examples=40, deadline=None)
def test_a_wider_floor_gives_a_wider_interval_about_the_same_ratio(pair, floor, more):
    narrow, wide = (stats.ratio(*pair, floor=f) for f in (floor, floor + more))
    assert wide.low < narrow.low <= narrow.median == wide.median <= narrow.high < wide.high


@given(singles, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_ratio_does_not_depend_on_the_order_of_rounds(pair, random):
    order = list(range(len(pair[0])))
    random.shuffle(order)
    shuffled = stats.ratio(*([side[i] for i in order] for side in pair))
    assert shuffled.median == pytest.approx(stats.ratio(*pair).median, rel=1e-9)


@pytest.mark.parametrize(
    "noise", [CALM, {**CALM, "jitter": 0.05}, {**CALM, "bursts": 0.25}, {**CALM, "drift": 0.02}]
)
def test_nothing_is_claimed_of_equals_on_a_gpu(noise):
    """The GPU's floor is a sixth of the CPU's, so here the interval itself must hold."""
    found = [
        stats.ratio(*noisy(np.random.default_rng(seed), 1.0, 32, 5, **noise), floor=GPU_FLOOR)
        for seed in range(120)
    ]
    assert sum(f.low > 1 for f in found) <= 0.025 * len(found)
    assert sum(f.high < 1 for f in found) <= 0.025 * len(found)


def test_a_slowdown_of_two_percent_is_a_loss_on_a_gpu():
    found = [
        stats.ratio(*noisy(np.random.default_rng(seed), 1 / 1.02, 32, 20, **CALM), floor=GPU_FLOOR)
        for seed in range(100)
    ]
    assert sum(f.high < 1 for f in found) >= 0.95 * len(found)
