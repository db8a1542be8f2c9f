"""Scales of charts: from a value to a place in percent, so that charts fit any width and their text keeps its size."""

from __future__ import annotations

import math
from dataclasses import dataclass

LEAST, MOST = 0.05, 100.0  # speedups beyond are drawn at the edge
STEPS = (1.0, 2.0, 5.0)
NEAR = 4.0  # high end over low end up to which steps are even


def _find_step(least: float) -> float:
    """Return the round number that is next above."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (*STEPS, 10.0) if step * power >= least)


@dataclass(frozen=True)
class LogScale:
    """A logarithmic scale. `start` and `end`: percent of the width that `low` and `high` stand at."""

    low: float
    high: float
    start: float = 3.0
    end: float = 97.0

    def place(self, value: float) -> float:
        """Return the place of a value; one that is beyond an end, or no number, stands at an end."""
        clamped = min(max(self.low, value), self.high)
        share = math.log(clamped / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def list_ticks(self) -> list[float]:
        """List round values: even steps where the ends are near, else 1, 2, 5 a decade, and only 1 a decade of many."""
        if self.high < NEAR * self.low:
            step = _find_step((self.high - self.low) / 4)
            count = math.floor(self.high / step) - math.ceil(self.low / step) + 1
            return [round((math.ceil(self.low / step) + n) * step, 6) for n in range(count)]
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = STEPS if last - first <= 3 else STEPS[:1]
        marks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        return [m for m in marks if self.low <= m <= self.high]


def make_speedup_scale(lows: list[float], highs: list[float]) -> LogScale:
    """Make a scale of speedups that holds 1 and these, as far as they are drawn."""
    low, high = min([1.0, *(v for v in lows if v > 0)]), max([1.0, *highs])
    return LogScale(max(LEAST, low * 0.87), min(MOST, high * 1.15))


@dataclass(frozen=True)
class LinearScale:
    """A scale from 0, whose end stands at `end` percent of the width."""

    high: float
    end: float = 97.0

    def place(self, value: float) -> float:
        """Return the place of a value; one that is beyond an end, or no number, stands at an end."""
        return self.end * min(max(0.0, value), self.high) / self.high if self.high > 0 else 0.0
