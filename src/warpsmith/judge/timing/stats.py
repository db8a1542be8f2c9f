"""Statistics of interleaved A/B measurements: raw nanoseconds in, medians and ratios with confidence
intervals out.

A measurement is a list of *rounds*. In each round every callable is timed in one *block* of a few calls, the
blocks right after one another, so that slow drift (clock frequency, a busy neighbour) meets both sides of a
round alike. The unit of resampling is the round, never the single call: calls of one block share its luck,
and treating them as independent is how noise becomes a "win".

The ratio of a round is that of its block medians, in the logarithm, which makes ratio(A, B) = 1 / ratio(B, A)
exact. Rounds are combined by a 25 % trimmed mean: nearly as tight as the mean, and a burst in a quarter of
the rounds on either side moves nothing. Intervals are cluster bootstrap percentiles (rounds, then calls
within blocks), expanded for few rounds by Student's t (Hesterberg 2015, "What Teachers Should Know About the
Bootstrap", section 4.3), and then widened by a *floor*: two processes that run the same code differ by their
memory layout for as long as they live, which no number of rounds in one pair of processes can show.

Where a machine is busy, rounds are no sample of independent luck: it may slow one side in most of them, and noise adds time, and
takes none away. So where rounds disagree, the interval reaches to what each of them says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Blocks = Sequence[Sequence[float]]

CONFIDENCE = (
    0.95  # two-sided, before the expansion and the floor, which make a false win far rarer than 2.5 %
)
RESAMPLES = 1000
TRIM = 0.25
DISAGREEMENT = (
    1.2  # of the ratios of rounds, upper over lower quartile: from there on something disturbed many of them
)
PROCESS_FLOOR = 0.03  # relative; what is left of the difference between two processes that run the same code


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval, in the unit of what was estimated."""

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Half-width relative to the estimate."""
        return (self.high - self.low) / (2 * self.median) if self.median else 0.0


def ratio(
    baseline: Blocks,
    candidate: Blocks,
    *,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    floor: float = PROCESS_FLOOR,
) -> Interval:
    """Speedup of the candidate over the baseline (above 1: the candidate is faster) from blocks paired by
    round.

    baseline[r] and candidate[r] are the times of round r, at least one each, any common unit. Raises
    ValueError for fewer than two rounds, unequal numbers of rounds, an empty block, or a time that is not
    positive.
    """
    slow, fast = _pad(baseline), _pad(candidate)
    if len(slow) != len(fast):
        raise ValueError("blocks are paired: both sides need the same number of rounds")
    if len(slow) < 2:
        raise ValueError("a ratio needs at least two rounds")
    slow_medians, fast_medians = _log_medians(slow), _log_medians(fast)
    point = _average_middle((slow_medians - fast_medians)[None, :])[0]
    rng = np.random.default_rng(seed)
    rounds = rng.integers(0, len(slow), (RESAMPLES, len(slow)))
    draws = _resample_medians(slow, rounds, rng) - _resample_medians(fast, rounds, rng)
    low, high = _expand(_average_middle(draws), point, len(slow), confidence)
    lowest, lower, upper, highest = np.quantile(slow_medians - fast_medians, [0, 0.25, 0.75, 1])
    if upper - lower > log(DISAGREEMENT):
        low, high = min(low, lowest), max(high, highest)
    return Interval(exp(point), exp(low) / (1 + floor), exp(high) * (1 + floor))


def typical(blocks: Blocks, *, seed: int = 0, confidence: float = CONFIDENCE) -> Interval:
    """Typical time of one call (trimmed mean of block medians) with its interval over rounds; one round has
    an empty interval.
    """
    times = _pad(blocks)
    point = _average_middle(_log_medians(times)[None, :])[0]
    if len(times) < 2:
        return Interval(exp(point), exp(point), exp(point))
    rng = np.random.default_rng(seed)
    rounds = rng.integers(0, len(times), (RESAMPLES, len(times)))
    draws = _average_middle(_resample_medians(times, rounds, rng))
    low, high = _expand(draws, point, len(times), confidence)
    return Interval(exp(point), exp(low), exp(high))


def spread(blocks: Blocks) -> float:
    """Drift of a callable over the run: the interquartile range of its block medians over their median."""
    medians = np.exp(_log_medians(_pad(blocks)))
    low, middle, high = np.quantile(medians, [0.25, 0.5, 0.75])
    return float((high - low) / middle)


def _pad(blocks: Blocks) -> Floats:
    """Logarithms as a (rounds, calls) matrix; short blocks are filled with nan."""
    if not blocks or any(len(b) == 0 for b in blocks):
        raise ValueError("every round needs at least one time")
    matrix = np.full((len(blocks), max(len(b) for b in blocks)), np.nan)
    for row, block in zip(matrix, blocks, strict=True):
        row[: len(block)] = block
    if np.nanmin(matrix) <= 0:
        raise ValueError("times must be positive")
    return np.log(matrix)


def _log_medians(times: Floats) -> Floats:
    return np.nanmedian(times, axis=-1)


def _average_middle(values: Floats) -> Floats:
    """Mean of the middle half along the last axis; with three values or fewer, their median."""
    count = values.shape[-1]
    cut = (count - 1) // 2 if count <= 3 else int(count * TRIM)
    ordered = np.sort(values, axis=-1)
    return ordered[..., cut : count - cut].mean(axis=-1)


def _resample_medians(times: Floats, rounds: npt.NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Block medians of bootstrap replicates: the given rounds, and in each block its calls drawn again."""
    lengths = np.count_nonzero(~np.isnan(times), axis=1)[rounds]
    width = times.shape[1]
    if width == 1:
        return times[rounds, 0]
    if (lengths == width).all():
        return np.median(times[rounds[..., None], rng.integers(0, width, (*rounds.shape, width))], axis=-1)
    picks = (rng.random((*rounds.shape, width)) * lengths[..., None]).astype(np.int64)
    drawn = times[rounds[..., None], picks]
    drawn[np.arange(width) >= lengths[..., None]] = np.nan
    return np.nanmedian(drawn, axis=-1)


def _expand(draws: Floats, point: float, rounds: int, confidence: float) -> tuple[float, float]:
    """Percentiles of the replicates, stretched about the estimate as Student's t is wider than the normal."""
    tail = (1 - confidence) / 2
    stretch = sqrt(rounds / (rounds - 1)) * student_t(1 - tail, rounds - 1) / NormalDist().inv_cdf(1 - tail)
    low, high = np.quantile(draws, [tail, 1 - tail])
    return point + stretch * min(low - point, 0.0), point + stretch * max(high - point, 0.0)


def student_t(probability: float, freedom: int) -> float:
    """Quantile of Student's t above the median, by bisection of its distribution function (exact finite sums,
    Abramowitz & Stegun 26.7.3-4)."""
    low, high = 0.0, 1.0
    while _student_cdf(high, freedom) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def _student_cdf(value: float, freedom: int) -> float:
    angle = np.arctan(value / sqrt(freedom))
    cosine, sine = float(np.cos(angle)), float(np.sin(angle))
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    two_sided = 2 / np.pi * (angle + sine * total) if odd else sine * total
    return float(0.5 + two_sided / 2)


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean of positive numbers; 1.0 when there are none."""
    return exp(sum(log(v) for v in values) / len(values)) if values else 1.0
