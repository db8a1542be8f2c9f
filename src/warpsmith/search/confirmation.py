"""Confirm the leaders of a search: judged afresh, one after another, until one still wins.

In: a finished search. Out: the confirmed best, or none. A leader that fails costs its place, not the run: the next is tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..agents.base import Attempt
from ..progress import Observer, SilentObserver
from ..records import Result
from .loop import Search
from .operators.simplify import simplest_first
from .selection import rank_attempts, worth_of

ALWAYS = 2  # leaders that are tried however little time is left, while none was correct
FAULTY = (
    "build-failed",
    "refused",
    "incorrect",
    "crashed",
    "timeout",
    "invalid",
)  # the candidate's own fault


def confirm(
    search: Search, most: int, record: Callable[[Attempt], None], observer: Observer | None = None
) -> Attempt | None:
    """Judge the leaders afresh until one still wins, `most` of them; return it, or else the best that was correct.

    Once one was correct, and beyond the first two, a leader is tried only while the run has time for one more. Where a candidate turns out faulty, leaders
    with none of its sources go before those that share one.
    """
    observer = observer or SilentObserver()
    leaders, tried, longest = leaders_of(search), list[Attempt](), 0.0
    while leaders and len(tried) < most:
        leader = _next_leader(leaders, tried)
        if any(a.result.status == "ok" for a in tried) and leader.speedup < 1.0:
            break
        enough = len(tried) >= ALWAYS or any(a.result.status == "ok" for a in tried)
        if enough and not _time_for(search, longest):
            observer.note("no time is left to confirm another candidate")
            break
        observer.stage(f"confirming {describe(leader)} in fresh processes")
        begun = time.monotonic()
        confirmation = Attempt(leader.candidate, search.executor.confirm(leader.candidate), leader.hypothesis)
        longest = max(longest, time.monotonic() - begun)
        record(confirmation)
        if confirmation.result.win:
            return confirmation
        observer.note(f"{describe(leader)} did not pass its confirmation: {explain(confirmation.result)}")
        tried.append(confirmation)
        leaders.remove(leader)
    return max((a for a in tried if a.result.status == "ok"), key=worth_of, default=None)


def leaders_of(search: Search) -> list[Attempt]:
    """List the attempts that may be confirmed, in order of the intervals' low ends; among those that are as fast as the first, less code goes first."""
    leaders = rank_attempts(search.attempts)
    return simplest_first(leaders) if search.methods.simplest and leaders else leaders


def _next_leader(leaders: list[Attempt], tried: list[Attempt]) -> Attempt:
    """The first that shares no source with one that was faulty; the first of all where each does."""
    faulty = {u.source for a in tried if a.result.status in FAULTY for u in a.candidate.units}
    return next((a for a in leaders if not faulty & {u.source for u in a.candidate.units}), leaders[0])


def _time_for(search: Search, seconds: float) -> bool:
    """Return whether the run's time, the part that was kept for confirmations included, has room for one more."""
    seconds_left = search.meter.seconds_in_all
    return seconds_left is None or seconds_left >= seconds


def describe(attempt: Attempt) -> str:
    """Its techniques, and what the search measured."""
    names = attempt.candidate.lineage.branch or attempt.candidate.lineage.operator
    return f"{names} ({describe_speedup(attempt.result)})"


def explain(result: Result) -> str:
    """Why a confirmation is no win."""
    if result.status == "ok":
        return f"not surely faster, {describe_speedup(result)}"
    return f"{result.status}: {result.reason}" if result.reason else result.status


def describe_speedup(result: Result) -> str:
    """A speedup with its baseline and interval."""
    ratio = result.speedup
    if ratio is None:
        return "not timed"
    return f"{ratio.median:.2f}x {ratio.baseline} [{ratio.low:.2f}, {ratio.high:.2f}]"
