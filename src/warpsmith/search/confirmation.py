"""Confirm the leaders of a search: judged afresh, one after another, until one still wins.

In: a finished search. Out: the confirmed best, or none. A leader that fails costs its place, not the run: the next is tried. A confirmation
that a busy machine spoilt is no failure: it waits for a quiet one, and is repeated while the run has time. What stays unknown is told
in `Search.busy`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..agents.base import Attempt
from ..progress import Observer, SilentObserver, duration
from ..records import Result
from ..records.intervals import describe_ratio, find_sure_share, is_unknown
from .loop import Search
from .remeasure import order_leaders

ALWAYS = 2  # leaders that are tried however little time is left, while none was correct
MAX_REPEATS = 3  # of confirmations that noise spoilt, in one run
WAIT_S = 60.0  # for a quiet machine before each of these, at most
FAULTY = (
    "build-failed",
    "refused",
    "incorrect",
    "crashed",
    "timeout",
    "invalid",
)  # the candidate's own fault
Recorder = Callable[[Attempt], None]


def confirm(
    search: Search,
    most: int,
    record: Recorder,
    observer: Observer | None = None,
    leaders: Sequence[Attempt] | None = None,
) -> Attempt | None:
    """Judge the leaders afresh until one still wins, `most` of them; return it, or else the best that was correct.

    Once one was correct, and beyond the first two, a leader is tried only while the run has time for one more. Where a candidate turns out faulty, leaders
    with none of its sources go before those that share one. `leaders`: in this order, without timing any of them again.
    """
    observer = observer or SilentObserver()
    waiting = list(leaders) if leaders is not None else order_leaders(search, observer)
    confirmer, tried = Confirmer(search, record, observer), list[Attempt]()
    while waiting and len(tried) < most:
        leader = _next_leader(waiting, tried)
        if any(a.result.status == "ok" for a in tried) and not _may_win(leader):
            break
        enough = len(tried) >= ALWAYS or any(a.result.status == "ok" for a in tried)
        if enough and not confirmer.has_time():
            observer.note("no time is left to confirm another candidate")
            break
        confirmation = confirmer.confirm(leader)
        if confirmation.result.win:
            return confirmation
        observer.note(f"{describe(leader)} did not pass its confirmation: {explain(confirmation.result)}")
        tried.append(confirmation)
        waiting.remove(leader)
    search.busy = next((why for a in tried if (why := explain_noise(a.result))), "")
    return max((a for a in tried if a.result.status == "ok"), key=lambda a: a.rank, default=None)


@dataclass
class Confirmer:
    """Confirms one leader at a time; what noise spoilt it repeats, `repeats` times in all."""

    search: Search
    record: Recorder
    observer: Observer
    repeats: int = MAX_REPEATS
    longest_s: float = 0.0  # that a confirmation took

    def confirm(self, leader: Attempt) -> Attempt:
        confirmation = self._judge(leader)
        while (noise := explain_noise(confirmation.result)) and self.repeats > 0 and self._wait(noise):
            self.repeats -= 1
            confirmation = self._judge(leader)
        return confirmation

    def has_time(self, seconds: float = 0.0) -> bool:
        """Return whether the run's time, the part that was kept for confirmations included, has room for one more after so many seconds."""
        seconds_left = self.search.meter.seconds_in_all
        return seconds_left is None or seconds_left >= self.longest_s + seconds

    def _judge(self, leader: Attempt) -> Attempt:
        self.observer.stage(f"confirming {describe(leader)} in fresh processes")
        begun = time.monotonic()
        confirmation = Attempt(
            leader.candidate, self.search.executor.confirm(leader.candidate), leader.hypothesis
        )
        self.longest_s = max(self.longest_s, time.monotonic() - begun)
        self.record(confirmation)
        return confirmation

    def _wait(self, noise: str) -> bool:
        """Wait for a quiet machine as long as a confirmation still fits into the run's time; return whether one does."""
        if not self.has_time():
            self.observer.note(f"no time is left to wait for a quiet machine: {noise}")
            return False
        seconds_left = self.search.meter.seconds_in_all
        seconds = WAIT_S if seconds_left is None else min(WAIT_S, max(0.0, seconds_left - self.longest_s))
        self.observer.stage(f"waiting for a quiet machine, {duration(seconds)} at most: {noise}")
        self.search.executor.wait_until_quiet(seconds)
        return True


def _may_win(leader: Attempt) -> bool:
    """Return whether the search has not seen it slower than the best baseline; what is unknown may be anything."""
    ratio = leader.result.speedup
    return leader.speedup >= 1.0 or (leader.speedup > 0 and ratio is not None and is_unknown(ratio))


def _next_leader(leaders: list[Attempt], tried: list[Attempt]) -> Attempt:
    """The first that shares no source with one that was faulty; the first of all where each does."""
    faulty = {u.source for a in tried if a.result.status in FAULTY for u in a.candidate.units}
    return next((a for a in leaders if not faulty & {u.source for u in a.candidate.units}), leaders[0])


def explain_noise(result: Result) -> str:
    """Explain why a confirmation says too little: for a win, too, if its interval is too wide; empty where it says enough."""
    ratio, timing = result.speedup, result.timing
    if result.status != "ok" or ratio is None or timing is None:
        return ""
    return timing.busy or (describe_speedup(result) if is_unknown(ratio) and ratio.high >= 1.0 else "")


def describe(attempt: Attempt) -> str:
    """Its techniques, and what the search measured."""
    names = attempt.candidate.lineage.branch or attempt.candidate.lineage.operator
    return f"{names} ({describe_speedup(attempt.result)})"


def explain(result: Result) -> str:
    """Why a confirmation is no win."""
    if result.status == "ok":
        return ("" if explain_noise(result) else "not surely faster, ") + describe_speedup(result)
    return f"{result.status}: {result.reason}" if result.reason else result.status


def describe_best(result: Result) -> str:
    """A speedup with its baseline and interval, and the share of the limit that is sure."""
    share = find_sure_share(result.timing) if result.timing is not None else 0.0
    return describe_speedup(result) + (f", {share:.0%} of the limit" if share > 0 else "")


def describe_speedup(result: Result) -> str:
    """A speedup with its baseline and interval."""
    ratio = result.speedup
    if ratio is None:
        return "not timed"
    return f"{describe_ratio(ratio)} over {ratio.baseline}"
