"""Time the leaders of a search once more before any is confirmed, by successive halving.

In: a finished search. Out: the attempts that may be confirmed, in that order. Whoever leads a search was partly lucky, and who was measured
badly may be faster than that. So the leader and those whose intervals overlap with its own are timed again side by side, the better half once
more, and so on to the last two; all measurements of a candidate are pooled. (Jamieson and Talwalkar, "Non-stochastic best arm
identification", AISTATS 2016.) That takes a share of the time that is left; where it is too short, the order is the search's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ..agents.base import Attempt
from ..progress import Observer, counted
from ..records import Result
from ..records.intervals import pool_timings
from .loop import Search
from .operators.simplify import simplest_first
from .selection import beats, rank_attempts, reach_of

MAX_LEADERS, MIN_LEADERS = 8, 2
REMEASURE_SHARE = 0.25  # of the time that a run has left when its search ends


def order_leaders(search: Search, observer: Observer) -> list[Attempt]:
    """List the attempts that may be confirmed, best first; among those that are as fast as the first, less code goes first."""
    screened = rank_attempts(a for a in search.attempts if a.screened)
    ranked = rank_attempts(a for a in search.attempts if not a.screened)
    rivals = choose_rivals(ranked)
    if len(rivals) >= MIN_LEADERS:
        ranked = _remeasure(search, rivals, observer) + [a for a in ranked if a not in rivals]
    ranked = simplest_first(ranked) if search.methods.simplest and ranked else ranked
    return ranked + screened  # a confirmation is a verdict, too


def choose_rivals(ranked: Sequence[Attempt]) -> list[Attempt]:
    """Choose who may be the best: those that the first does not surely beat. Of more than there are places for, half go by what is sure of
    them, half by what they may reach, so that one that was measured badly is not left out for it.
    """
    overlapping = [a for a in ranked if not beats(ranked[0], a)]
    sure, challengers = overlapping[: MAX_LEADERS // 2], overlapping[MAX_LEADERS // 2 :]
    return sure + sorted(challengers, key=reach_of, reverse=True)[: MAX_LEADERS - len(sure)]


def _remeasure(search: Search, rivals: list[Attempt], observer: Observer) -> list[Attempt]:
    """Return the rivals in the order of all that was measured of them."""
    seconds_left = search.meter.seconds_in_all
    seconds = None if seconds_left is None else REMEASURE_SHARE * seconds_left
    count = _count_affordable(rivals, seconds)
    if count < MIN_LEADERS:
        observer.note(
            "no time is left to time the leaders again: they are confirmed as the search ranked them"
        )
        return rivals
    observer.stage(f"timing {counted(count, 'leader')} again")
    deadline = None if seconds is None else time.monotonic() + seconds
    halving = Halving(search, rivals[:count], deadline)
    return halving.run() + rivals[count:]


class Halving:
    """`deadline`: of the monotonic clock, after which nothing more is timed."""

    def __init__(self, search: Search, leaders: Sequence[Attempt], deadline: float | None) -> None:
        self._executor, self._leaders, self._deadline = search.executor, leaders, deadline
        self._timings = {
            a.candidate.content_key: [a.result.timing] for a in leaders if a.result.timing is not None
        }
        self._faults: dict[str, Result] = {}

    def run(self) -> list[Attempt]:
        field, losers = list(self._leaders), list[Attempt]()
        while True:
            in_time = self._measure(field)
            ranked = rank_attempts([self._update(a) for a in field])
            faulty = [a for a in field if a.candidate.content_key in self._faults]
            ranked = [a for a in ranked if a.candidate.content_key not in self._faults]
            if not in_time or len(ranked) <= MIN_LEADERS:
                return [*ranked, *losers, *faulty]
            half = (len(ranked) + 1) // 2
            field, losers = ranked[:half], [*ranked[half:], *losers, *faulty]

    def _measure(self, field: Sequence[Attempt]) -> bool:
        """Time each once; return whether there was time for all."""
        results = self._executor.remeasure([a.candidate for a in field])
        for attempt, result in zip(field, results, strict=False):
            if result.status == "ok" and result.timing is not None:
                self._timings[attempt.candidate.content_key].append(result.timing)
            elif result.status != "error":  # which would be the judge's own fault
                self._faults[attempt.candidate.content_key] = result
            if self._deadline is not None and time.monotonic() > self._deadline:
                return False
        return True

    def _update(self, attempt: Attempt) -> Attempt:
        """Put all that was measured in place of what the search measured."""
        timings = self._timings[attempt.candidate.content_key]
        result = attempt.result.model_copy(update={"timing": pool_timings(timings)})
        return replace(attempt, result=result)


def _count_affordable(rivals: Sequence[Attempt], seconds: float | None) -> int:
    """Count the leaders that can be halved down in so many seconds, by the time that each took in the search; 0 for fewer than two."""
    if seconds is None:
        return len(rivals)
    seconds_each = max(a.result.seconds.get("time", 0.0) for a in rivals)
    counts = (min(c, len(rivals)) for c in (MAX_LEADERS, MAX_LEADERS // 2, MIN_LEADERS))
    return next((c for c in counts if _count_measurements(c) * seconds_each <= seconds), 0)


def _count_measurements(leaders: int) -> int:
    count = leaders
    while leaders > MIN_LEADERS:
        leaders = (leaders + 1) // 2
        count += leaders
    return count
