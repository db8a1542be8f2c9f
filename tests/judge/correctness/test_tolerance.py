"""The budget: honest orders of summation and approximations pass, low precision and shortcuts fail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from warpsmith.judge.correctness.error_budget import pool_by_magnitude
from warpsmith.judge.correctness.rounding import LEAN, ONE_ROUNDING, WALK
from warpsmith.judge.correctness.tolerance import Tolerance, Truth, from_float64, to_float64

U = 2.0**-24
ROWS = 16


def sum_truth(x: np.ndarray, draws: int = 4) -> Truth:
    """What the reference worker does for a row sum: pairwise native, fp64 oracle, Monte Carlo noise of a
    sequential sum.
    """
    rng = np.random.default_rng(
        [7, 1]
    )  # not a number that data may be drawn from: noise would be in step with it
    wide = x.astype(np.float64)
    oracle = wide.sum(1)
    walk = WALK * np.sqrt(x.shape[1])
    squares = np.zeros(len(x))
    for _ in range(draws):
        disturbed = (wide * (1 + walk * U * rng.standard_normal(x.shape))).sum(1)
        disturbed *= 1 + (walk + ONE_ROUNDING) * U * rng.standard_normal(len(x))
        squares += (disturbed - oracle) ** 2
    return Truth("float32", x.sum(1, dtype=np.float32), oracle, np.sqrt(squares / draws), draws)


def lanes(x: np.ndarray, width: int) -> np.ndarray:
    """One fp32 accumulator a lane, then the lanes."""
    full = x.shape[1] // width * width
    total = np.zeros(len(x), np.float32)
    if full:
        each = np.cumsum(x[:, :full].reshape(len(x), -1, width), axis=1, dtype=np.float32)[:, -1]
        total = np.cumsum(each, axis=1, dtype=np.float32)[:, -1]
    for column in x[:, full:].T:
        total = total + column
    return total


def blocked(x: np.ndarray, block: int = 128) -> np.ndarray:
    parts = [lanes(x[:, i : i + block], 1) for i in range(0, x.shape[1], block)]
    return np.cumsum(np.stack(parts, 1), axis=1, dtype=np.float32)[:, -1]


def kahan(x: np.ndarray) -> np.ndarray:
    total, lost = np.zeros(len(x), np.float32), np.zeros(len(x), np.float32)
    for column in x.T:
        term = column - lost
        new = total + term
        lost = (new - total) - term
        total = new
    return total


def rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """To `bits` of mantissa after the leading one: 7 is bf16, 10 is TF32 and fp16."""
    shift = 23 - bits
    raw = x.astype(np.float32).view(np.uint32)
    raw = (raw + ((1 << (shift - 1)) - 1) + ((raw >> shift) & 1)) >> shift << shift
    return raw.view(np.float32)


def low_accumulator(x: np.ndarray, bits: int) -> np.ndarray:
    total = np.zeros((len(x), 16), np.float32)
    full = x.shape[1] // 16 * 16
    for step in x[:, :full].reshape(len(x), -1, 16).transpose(1, 0, 2):
        total = rounded(total + step, bits)
    return total.sum(1, dtype=np.float32) + x[:, full:].sum(1, dtype=np.float32)


def data(kind: str, seed: int, size: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.random((ROWS, size)) if kind == "uniform" else rng.standard_normal((ROWS, size))
    if kind == "heavy":
        x *= np.exp(1.5 * rng.standard_normal(x.shape))
    return x.astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["uniform", "normal", "heavy"]),
    st.integers(0, 10**6),
    st.sampled_from([1, 7, 64, 1000, 9973, 100_000]),
)
def test_honest_orders_of_a_sum_pass(kind: str, seed: int, size: int) -> None:
    x = data(kind, seed, size)
    budget = Tolerance(sum_truth(x))
    for name, result in {
        "pairwise": x.sum(1, dtype=np.float32), "reversed": lanes(x[:, ::-1], 1), "16": lanes(x, 16),
        "32": lanes(x, 32),
        "64": lanes(x, 64), "blocked": blocked(x), "sequential": lanes(x, 1),
    }.items():  # fmt: skip
        verdict = budget.compare(result)
        assert verdict.ok, f"{name}: {verdict.detail}"


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([33, 1000, 3000]))
def test_kahan_passes(seed: int, size: int) -> None:
    x = data("normal", seed, size)
    assert Tolerance(sum_truth(x)).compare(kahan(x)).ok


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([16, 64, 1000, 9973, 100_000]), st.sampled_from([7, 10]))
@example(7, 9973, 10)
def test_rounded_inputs_fail_on_mixed_signs(seed: int, size: int, bits: int) -> None:
    x = data("normal", seed, size)
    verdict = Tolerance(sum_truth(x)).compare(rounded(x, bits).sum(1, dtype=np.float32))
    assert not verdict.ok
    assert verdict.error > 1


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["uniform", "normal"]),
    st.integers(0, 10**6),
    st.sampled_from([64, 1000, 9973]),
    st.sampled_from([7, 10]),
)
def test_low_precision_accumulators_fail(kind: str, seed: int, size: int, bits: int) -> None:
    x = data(kind, seed, size)
    assert not Tolerance(sum_truth(x)).compare(low_accumulator(x, bits)).ok


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([64, 9973]))
def test_shortcuts_fail(seed: int, size: int) -> None:
    x = data("uniform", seed, size)
    budget = Tolerance(sum_truth(x))
    stale = data("uniform", seed + 1, size).sum(1, dtype=np.float32)
    for name, result in {
        "zeros": np.zeros(ROWS, np.float32), "mean": np.full(ROWS, stale.mean(), np.float32), "stale": stale,
        "input": x[:, 0].copy(), "one term left out": x[:, 1:].sum(1, dtype=np.float32),
    }.items():  # fmt: skip
        assert not budget.compare(result).ok, name


def exp_truth(x: np.ndarray) -> Truth:
    oracle = np.exp(x.astype(np.float64))
    draws = np.random.default_rng(3).standard_normal((4, *x.shape))
    return Truth("float32", np.exp(x), oracle, np.abs(oracle) * 2 * U * np.sqrt(np.square(draws).mean(0)), 4)


@given(st.integers(0, 10**6), st.sampled_from([2, 4]))
def test_an_exp_of_a_few_ulp_passes(seed: int, ulps: int) -> None:
    rng = np.random.default_rng(seed)
    x = (3 * rng.standard_normal((8, 100))).astype(np.float32)
    truth = exp_truth(x)
    off = rng.uniform(-ulps, ulps, x.shape) * np.spacing(truth.native)
    assert Tolerance(truth).compare((truth.oracle + off).astype(np.float32)).ok


@given(st.integers(0, 10**6))
def test_small_elements_are_held_to_their_own_scale(seed: int) -> None:
    """Outputs over twenty decades: losing the small ones is an error though they hardly count in any norm."""
    x = np.random.default_rng(seed).uniform(-40, 3, (8, 100)).astype(np.float32)
    truth = exp_truth(x)
    flushed = np.where(truth.native < 1e-9, 0, truth.native)
    assert not Tolerance(truth).compare(flushed).ok


def half_truth(x: np.ndarray, dtype: str) -> Truth:
    oracle = x.astype(np.float64).sum(1)
    native = from_float64(x.sum(1, dtype=np.float32).astype(np.float64), dtype)
    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    return Truth(dtype, native, oracle, np.abs(oracle) * ONE_ROUNDING * unit, 1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("size", [64, 1024])
def test_half_outputs_need_fp32_accumulation(dtype: str, size: int) -> None:
    x = rounded(np.random.default_rng(size).standard_normal((2048, size)).astype(np.float32), 7)
    budget = Tolerance(half_truth(x, dtype))
    assert budget.compare(from_float64(lanes(x, 16).astype(np.float64), dtype)).ok
    low = low_accumulator(x, 7 if dtype == "bfloat16" else 10).astype(np.float64)
    assert not budget.compare(from_float64(low, dtype)).ok


def test_nonfinite_values_must_agree() -> None:
    x = np.array([[1, 2, -np.inf, 4]], np.float32)
    truth = Truth("float32", x, x.astype(np.float64), np.zeros(x.shape), 1)
    assert not truth.finite
    assert Tolerance(truth).compare(x.copy()).ok
    for wrong in (np.inf, np.nan, 3.0):
        y = x.copy()
        y[0, 2] = wrong
        assert Tolerance(truth).compare(y).rule == "non-finite"
    y = x.copy()
    y[0, 0] = np.nan
    assert Tolerance(truth).compare(y).rule == "non-finite"


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6), size=st.sampled_from([3, 1000, (1 << 18) + 5]), scale=st.sampled_from([0.0, 1e-7, 1e-5]),
    odd=st.sampled_from([None, 3.0, np.nan, np.inf]), even=st.sampled_from([0.0, 3e-7]),
)  # fmt: skip
def test_a_hurried_look_finds_the_same_rule(
    seed: int, size: int, scale: float, odd: float | None, even: float
) -> None:
    """One element wrong, all by a little, or none: for a mutant it is only told that it is wrong, and of several rules the first."""
    rng = np.random.default_rng(seed)
    oracle = rng.standard_normal(size)
    native = oracle.astype(np.float32)
    budget = Tolerance(Truth("float32", native, oracle, np.full(size, 1e-7), 4))
    actual = (native * np.float32(1 + even) + scale * rng.standard_normal(size)).astype(np.float32)
    if odd is not None:
        actual[rng.integers(size)] = odd
    told = budget.compare(actual).rule
    assert bool(told) == bool(budget.find_broken_rule(actual))
    if scale < 1e-5:
        assert told == budget.find_broken_rule(actual)


def test_integers_are_exact_but_for_honest_ties() -> None:
    native = np.array([3, 1, 4], np.int64)
    truth = Truth("int64", native, native, np.array([[3, 1, 4], [3, 2, 4]]))
    assert Tolerance(truth).compare(np.array([3, 2, 4])).ok
    verdict = Tolerance(truth).compare(np.array([3, 1, 5]))
    assert verdict.rule == "exact"
    assert "[2]" in verdict.detail


def test_exact_means_every_bit() -> None:
    x = np.linspace(-1, 1, 32, dtype=np.float32)
    truth = Truth("float32", x, x.astype(np.float64), np.zeros(32), 1, exact=True)
    assert Tolerance(truth).compare(x.copy()).ok
    assert Tolerance(truth).compare(np.nextafter(x, np.float32(2))).rule == "exact"


@given(st.floats(allow_nan=False, width=32))
def test_bfloat16_rounds_to_nearest(value: float) -> None:
    bits = from_float64(np.array([value]), "bfloat16")
    back = to_float64(bits, "bfloat16")[0]
    if abs(value) < 3e38 and abs(value) > 1e-37:
        assert abs(back - value) <= 2.0**-8 * abs(value)


def test_pool_keeps_scales_apart() -> None:
    magnitude = np.concatenate([np.full(100, 1.0), np.full(100, 1e-20)])
    squares = magnitude**2
    means = pool_by_magnitude(np, 2, lambda: iter([(magnitude, squares)]))(magnitude)
    np.testing.assert_allclose(means, squares)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y: np.where(np.arange(50) >= 48, 0, y), "tail"),
        (lambda y: np.where(np.arange(20)[:, None] == 3, y + 1, y), "rows are wrong as a whole"),
        (lambda y: np.zeros_like(y), "all zeros"),
        (lambda y: rounded(y, 7), "bf16"),
        (lambda y: rounded(y, 10), "TF32"),
        (lambda y: y * np.float32(1.25), "factor of 1.25"),
        (lambda y: np.roll(y, 1, axis=0), "wrong places"),
        (lambda y: np.where(np.arange(50) == 49, np.nan, y), "NaN"),
    ],
)
def test_forensics_name_the_cause(change, words: str) -> None:  # type: ignore[no-untyped-def]
    y = np.random.default_rng(0).standard_normal((20, 50)).astype(np.float32)
    truth = Truth("float32", y, y.astype(np.float64), np.abs(y) * U, 1)
    verdict = Tolerance(truth).compare(np.asarray(change(y), np.float32))
    assert not verdict.ok
    assert words in verdict.detail


def test_repeated_terms_grant_a_leaning_sum() -> None:
    """Adding one constant over and over rounds the same way each time: a sequential sum is off by far more
    than a random walk.
    """
    x = np.repeat(np.random.default_rng(5).random((ROWS, 1), np.float32), 4096, axis=1)
    off = np.abs(lanes(x, 1) / x.astype(np.float64).sum(1) - 1).max() / U
    assert 8 * WALK * np.sqrt(4096) < off < 8 * LEAN * 4096


def test_a_reference_that_misses_its_own_budget_is_told() -> None:
    """One logit of a half-precision softmax rounds onto another: 0.5 where the truth is nearly 0."""
    oracle = np.full((8, 100), 1e-3)
    native = oracle.astype(np.float32)
    budget = Tolerance(Truth("float32", native, oracle, oracle * U, 2))
    assert budget.steady
    native[3, 5] = 0.5
    flipped = Tolerance(Truth("float32", native, oracle, oracle * U, 2))
    assert not flipped.steady
    assert flipped.compare(oracle.astype(np.float32)).ok


def test_who_shares_the_references_error_may_round_otherwise() -> None:
    """As a tail fused after a convolution that both compute in TF32: the budget must not end at the
    reference's own bits.
    """
    oracle = np.random.default_rng(8).standard_normal((64, 100))
    native = oracle.astype(np.float32)
    native[3, 5] += 1.0
    budget = Tolerance(Truth("float32", native, oracle, np.abs(oracle) * U, 2))
    budget.rms = np.inf
    beyond = native.copy()
    beyond[3, 5] = np.nextafter(native[3, 5], np.float32(np.inf))
    assert budget.compare(beyond).ok
    beyond[3, 5] += 0.01
    assert not budget.compare(beyond).ok


def test_zeros_do_not_thin_the_noise_of_others() -> None:
    """As the upper triangle of a product: nothing made those zeros, so they have no noise to be averaged with."""
    magnitude = np.concatenate([np.zeros(10_000), np.full(100, 0.7)])
    squares = np.where(magnitude > 0, 1e-12, 0.0)
    means = pool_by_magnitude(np, 2, lambda: iter([(magnitude, squares)]))(magnitude)
    np.testing.assert_allclose(means[-100:], 1e-12)
    np.testing.assert_array_equal(means[:10_000], 0.0)
