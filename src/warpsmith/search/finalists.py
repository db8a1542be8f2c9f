"""Finalists: of the candidates that were screened, those that a verdict is spent on.

In: the attempts, and the estimates of those that have a verdict since. Out: a few screened attempts, the most promising first. Estimates of one
task are off by about the same factor, which the verdicts tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from ..agents.base import Attempt
from ..records import Ratio

FINALISTS = 2  # a round
FEW = 8  # candidates that a round has screened, up to which it has one finalist: a verdict takes as long as to screen these


def choose_finalists(
    attempts: Sequence[Attempt], estimates: Mapping[str, Ratio], most: int = FINALISTS
) -> list[Attempt]:
    """Choose those that may beat what was judged so far. `estimates`: by content key, as screening had them."""
    factor = find_factor(attempts, estimates)
    sure = max((a.worth for a in attempts if not a.screened), default=0.0)
    screened = [a for a in attempts if a.screened and a.ratio is not None and a.ratio.high * factor >= sure]
    return sorted(screened, key=lambda a: -a.speedup)[:most]


def count_finalists(screened: int) -> int:
    """Return how many finalists a round has that screened so many candidates."""
    return FINALISTS if screened > FEW else 1


def find_factor(attempts: Sequence[Attempt], estimates: Mapping[str, Ratio]) -> float:
    """Return by how much speedups exceed their estimates, as a median; 1 before any verdict."""
    factors = [
        a.speedup / estimate.median
        for a in attempts
        if not a.screened
        and a.speedup > 0
        and (estimate := estimates.get(a.candidate.content_key)) is not None
    ]
    return median(factors) if factors else 1.0


__all__ = ["FEW", "FINALISTS", "choose_finalists", "count_finalists", "find_factor"]
