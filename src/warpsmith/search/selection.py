"""Selection by intervals: who is surely faster, who ranks first, and who becomes a parent.

In: judged attempts, each with the interval of its speedup over the best baseline. Out: some of them. A lucky measurement of a
noisy candidate has a high median and a low end that is no better than before, so that ranks go by the low end, and parents are
drawn from what each speedup may really be (Thompson sampling: W. R. Thompson, Biometrika 25, 1933). What failed is never chosen.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from typing import Literal

from ..agents.base import Attempt
from ..records import Ratio
from ..records.intervals import is_surely_faster

By = Literal["interval", "point"]
SIDE = 1.96  # standard deviations from the median to either end of a 95% interval


def beats(one: Attempt, other: Attempt) -> bool:
    """Surely faster: the intervals do not overlap. Whatever works beats what failed; a failure beats nothing."""
    if one.speedup <= 0:
        return False
    return other.speedup <= 0 or is_surely_faster(_ratio(one), _ratio(other))


def rank_attempts(attempts: Iterable[Attempt], by: By = "interval") -> list[Attempt]:
    """The correct and timed ones, best first: by the interval's low end, or by its median. The earlier of equals is first."""
    working = [a for a in attempts if a.speedup > 0]
    return sorted(working, key=lambda a: rank_of(a, by), reverse=True)


def pick(attempts: Sequence[Attempt], n: int, rng: random.Random, by: By = "interval") -> list[Attempt]:
    """At most `n` different ones, best draw first: each is drawn once from its own interval. By "point" the `n` best medians."""
    if by == "point":
        return rank_attempts(attempts, by)[:n]
    drawn = [(min(draw(_ratio(a), rng), _bound_speedup(a)), a) for a in attempts if a.speedup > 0]
    return [a for _, a in sorted(drawn, key=lambda pair: -pair[0])][:n]


def worth_of(attempt: Attempt, by: By = "interval") -> float:
    """Return the number that an attempt is ranked by; 0 for one that failed."""
    return attempt.worth if by == "interval" else attempt.speedup


def rank_of(attempt: Attempt, by: By = "interval") -> tuple[float, float]:
    """Return the key that attempts are ranked by, the highest first: what is sure, then the median; or the median alone."""
    return attempt.rank if by == "interval" else (attempt.speedup, 0.0)


def reach_of(attempt: Attempt, by: By = "interval") -> float:
    """Return the most that a speedup may be: the high end of its interval, within the physical limit; or its median."""
    if attempt.speedup <= 0 or by == "point":
        return attempt.speedup
    return max(attempt.speedup, min(_ratio(attempt).high, _bound_speedup(attempt)))


def draw(ratio: Ratio, rng: random.Random) -> float:
    """A speedup as it may really be: log-normal on either side of the median, each as wide as its end of the interval says."""
    normal = rng.gauss(0.0, 1.0)
    end = ratio.low if normal < 0 else ratio.high
    width = abs(math.log(max(end, 1e-9) / ratio.median)) / SIDE
    return ratio.median * math.exp(normal * width)


def _bound_speedup(attempt: Attempt) -> float:
    """The speedup at the physical limit, which no draw exceeds, however noisy the measurement was."""
    timing = attempt.result.timing
    share = timing.limit_share if timing is not None else 0.0
    return attempt.speedup / share if share > 0 else math.inf


def _ratio(attempt: Attempt) -> Ratio:
    if attempt.ratio is None:
        raise ValueError("an attempt with a speedup was timed")
    return attempt.ratio
