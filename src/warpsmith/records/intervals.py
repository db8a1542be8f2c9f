"""Read the intervals of speedups, in one way for ranks, parents, confirmations, charts and everything that is printed.

A speedup is worth the low end of its interval: that is what is sure. An interval that is too wide to tell anything is *unknown*,
which is neither fast, nor slow, nor equal to others; its median is never printed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .result import Ratio, Timing

# High end over low end from which on an interval tells nothing. Of 235 confirmations that results/cpu holds, half have 1.15 and nineteen
# in twenty 1.32; those of a busy machine begin at 0. At 2 the speedup may be off by 1.4 either way: as much as half of all wins gain.
UNKNOWN_FACTOR = 2.0
MIN_LOG_WIDTH = 1e-3  # of an interval that is pooled with others, so that none counts without bound


def is_unknown(ratio: Ratio) -> bool:
    """Return whether the interval reaches zero, or is too wide to tell anything."""
    return ratio.low <= 0 or ratio.high > UNKNOWN_FACTOR * ratio.low


def find_worth(ratio: Ratio | None) -> float:
    """Return what is sure of a speedup, the low end of its interval; 0 for none."""
    return max(0.0, ratio.low) if ratio is not None else 0.0


def find_point(ratio: Ratio) -> float:
    """Return the one number that stands for a speedup in means: the median, or what is sure of it where it is unknown."""
    return find_worth(ratio) if is_unknown(ratio) else ratio.median


def is_surely_faster(one: Ratio, other: Ratio) -> bool:
    """Return whether the intervals do not overlap, the first above the second."""
    return one.low > other.high


def find_sure_share(timing: Timing) -> float:
    """Return the share of the limit that is sure: the limit over the high end of the time."""
    return timing.limit_share * min(1.0, timing.median_us / timing.high_us) if timing.high_us > 0 else 0.0


def describe_ratio(ratio: Ratio, times: str = "x") -> str:
    """Write "1.50x [1.45, 1.56]"; for an unknown one what is sure of it, and never its median."""
    if not is_unknown(ratio):
        return f"{ratio.median:.2f}{times} [{ratio.low:.2f}, {ratio.high:.2f}]"
    if ratio.low > 1.0:
        return f"at least {ratio.low:.2f}{times} (noisy: up to {ratio.high:.2f})"
    return f"unknown (too noisy: {max(0.0, ratio.low):.2f} to {ratio.high:.2f})"


def describe_speed(ratio: Ratio, times: str = "x") -> str:
    """Write the speedup alone, where there is no room for its interval."""
    if not is_unknown(ratio):
        return f"{ratio.median:.2f}{times}"
    return f"at least {ratio.low:.2f}{times}" if ratio.low > 1.0 else "unknown (too noisy)"


def pool_ratios(ratios: Sequence[Ratio]) -> Ratio:
    """Pool measurements of one speedup, each weighted by how narrow its interval is in the logarithm.

    Where they differ by more than their intervals allow, the pooled one is widened by as much (Birge's ratio). One that reaches zero tells
    nothing: it counts only where all do.
    """
    usable = [r for r in ratios if r.low > 0]
    if not usable:
        return max(ratios, key=lambda r: -r.high)
    logs = [math.log(r.median) for r in usable]
    weights = [max(math.log(r.high / r.low) / 2, MIN_LOG_WIDTH) ** -2 for r in usable]
    mean = sum(w * x for w, x in zip(weights, logs, strict=True)) / sum(weights)
    excess = sum(w * (x - mean) ** 2 for w, x in zip(weights, logs, strict=True)) / max(1, len(usable) - 1)
    shrink = math.sqrt(max(1.0, excess) / sum(weights))
    down, up = (_average_side(usable, weights, high) * shrink for high in (False, True))
    return Ratio(
        baseline=usable[0].baseline, median=math.exp(mean), low=math.exp(mean - down), high=math.exp(mean + up)
    )  # fmt: skip


def _average_side(ratios: Sequence[Ratio], weights: Sequence[float], high: bool) -> float:
    """Average how far the end of an interval is from its median, in units of the interval's half-width."""
    sides = [
        abs(math.log((r.high if high else r.low) / r.median)) * w**0.5
        for r, w in zip(ratios, weights, strict=True)
    ]
    return sum(w * s for w, s in zip(weights, sides, strict=True)) / sum(weights)


def pool_timings(timings: Sequence[Timing]) -> Timing:
    """Pool measurements of one candidate: the ratios baseline by baseline, the last one's other numbers."""
    names = dict.fromkeys(r.baseline for t in timings for r in t.ratios)
    ratios = tuple(pool_ratios([r for t in timings if (r := t.ratio(name)) is not None]) for name in names)
    return timings[-1].model_copy(update={"ratios": ratios})
