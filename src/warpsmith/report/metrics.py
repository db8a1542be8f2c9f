"""The field's metrics of code generation, as pure formulas: numbers of samples and speedups in, one number out.

A *sample* is one independent attempt at a task. Its speedup is T*/T, the time of the best baseline over its
own; a sample that is not correct has speedup 0. Functions with a `k` speak of one task; `mean` puts tasks
together. Where k samples cannot be drawn the value is NaN, and so is a mean that has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, exp, fsum, inf, log, nan, sqrt
from statistics import NormalDist

import numpy as np

from ..judge.timing.stats import Interval, geometric_mean, student_t

RESAMPLES = 2000
CONFIDENCE = 0.95


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Probability that at least one of k samples, drawn without replacement, is correct (HumanEval, arXiv 2107.03374)."""
    if k > samples:
        return nan
    return 1.0 - comb(samples - correct, k) / comb(samples, k)


def speedup_at_k(speedups: Sequence[float], k: int) -> float:
    """Expected speedup of the fastest of k samples, failures counting 0 (ParEval, arXiv 2401.12554)."""
    return _compute_expected_best([(s, s) for s in speedups], k)


def efficiency_at_k(speedups: Sequence[float], resources: Sequence[float], k: int) -> float:
    """Expected speedup per resource of the fastest of k samples; `resources` are of each sample, as threads (ParEval)."""
    return _compute_expected_best([(s, s / r) for s, r in zip(speedups, resources, strict=True)], k)


def _compute_expected_best(samples: list[tuple[float, float]], k: int) -> float:
    """Σ_j C(j-1, k-1) / C(n, k) · value_j over samples (speedup, value), slowest first: the j-th is the fastest of
    that many draws of k. Of equally fast ones the larger value counts.
    """
    if k > len(samples):
        return nan
    values = [value for _, value in sorted(samples)]
    return fsum(comb(j, k - 1) * value for j, value in enumerate(values)) / comb(len(values), k)


def fast_p(speedups: Sequence[float], p: float) -> float:
    """Share of all tasks that are correct and more than p times as fast, one speedup a task (KernelBench, arXiv 2502.10517)."""
    return sum(s > p for s in speedups) / len(speedups) if speedups else 0.0


def mean(values: Sequence[float]) -> float:
    """Over tasks; NaN of none."""
    return fsum(values) / len(values) if values else nan


def geomean_interval(speedups: Sequence[float], seed: int = 0) -> Interval:
    """Geometric mean of positive speedups with its 95% interval over the choice of tasks; 1 of none.

    A percentile bootstrap over tasks, stretched for few of them by Student's t (Hesterberg 2015, section 4.3).
    The interval of one task says nothing: 0 to infinity.
    """
    point, count = geometric_mean(speedups), len(speedups)
    if count < 2:
        return Interval(point, 0.0, inf)
    logs, rng = np.log(np.asarray(speedups)), np.random.default_rng(seed)
    draws = logs[rng.integers(0, count, (RESAMPLES, count))].mean(axis=1)
    tail = (1 - CONFIDENCE) / 2
    stretch = sqrt(count / (count - 1)) * student_t(1 - tail, count - 1) / NormalDist().inv_cdf(1 - tail)
    low, high = np.quantile(draws, [tail, 1 - tail]) - log(point)
    return Interval(point, point * exp(stretch * min(low, 0.0)), point * exp(stretch * max(high, 0.0)))


def quotient(ours: Interval, theirs: Interval) -> Interval:
    """ours / theirs of two independent positive estimates, with an interval made of theirs.

    The distances in the logarithm add as the sides of a right triangle (MOVER: Zou and Donner 2008, "Construction of
    confidence limits about effect measures", https://doi.org/10.1002/sim.3095).
    """
    up, down = _log_distances(ours)
    their_up, their_down = _log_distances(theirs)
    point = ours.median / theirs.median
    low, high = sqrt(down**2 + their_up**2), sqrt(up**2 + their_down**2)
    return Interval(point, point * exp(-low), point * exp(high))


def _log_distances(estimate: Interval) -> tuple[float, float]:
    """To the upper and the lower end. An end that is no positive number is infinitely far."""
    down = log(estimate.median / estimate.low) if estimate.low > 0 else inf
    return log(estimate.high / estimate.median), down
