"""`Standing` computes how far the judging of a bundle is on one machine: the results so far and the work that remains.

In: a bundle, and the rows of its results. Out: for each task, what to judge, confirm and judge again next. Everything is computed from
rows, so a run that was killed goes on by reading them. Rows of other environments do not count here: a speed is one machine's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

from ..records import Candidate, Limit, Result
from .bundle import Bundle
from .journal import Pass, ResultRow, TaskRow
from .manifest import BundleError

MAX_TRIES = 2  # when the judge fails, which is no fault of the candidate


class Standing:
    """A snapshot. `confirm` bounds the candidates of a task that are measured again; `only`: ids of candidates, None: all.
    `quick`: a candidate whose whole interval is slower is not measured again.
    """

    def __init__(
        self, bundle: Bundle, rows: Sequence[TaskRow | ResultRow], environment: str, confirm: int,
        only: Collection[str] | None = None, quick: bool = False,
    ) -> None:  # fmt: skip
        self._bundle, self._confirm, self._quick = bundle, confirm, quick
        self._only = bundle.candidates if only is None else only
        self._openings = [r for r in rows if isinstance(r, TaskRow) and r.environment.id == environment]
        self.results = [r for r in rows if isinstance(r, ResultRow) and r.result.environment == environment]

    def find_opening(self, task_id: str) -> TaskRow | None:
        """Find the newest opening of the task's judge; if it never opened, the newest failure."""
        openings = [r for r in self._openings if r.task_id == task_id]
        return max(openings, key=lambda r: (r.status == "opened", r.at), default=None)

    def find_limit(self, task_id: str) -> Limit | None:
        """Find the lowest limit that was known of it: rates are the best ever seen, and all shares are of this one."""
        timings = (r.result.timing for r in self.results if r.result.task_id == task_id)
        limits = [t.limit for t in timings if t is not None] + [
            r.limit for r in self._openings if r.task_id == task_id
        ]
        return min((x for x in limits if x is not None), key=lambda limit: limit.seconds, default=None)

    def find_start(self, task_id: str) -> str:
        """Find when its judge was opened first, ISO 8601 UTC; empty: never tried."""
        return min((r.at for r in self._openings if r.task_id == task_id), default="")

    def why_given_up(self, task_id: str) -> str:
        """Explain why the task is not tried again; empty when it may be."""
        openings = [r for r in self._openings if r.task_id == task_id]
        failures = [r for r in openings if r.status != "opened"]
        if any(r.status == "task-error" for r in failures) or len(failures) >= MAX_TRIES:
            return failures[-1].reason
        return ""

    def find_first(self, candidate: Candidate) -> Result | None:
        """Find a candidate's first measurement that counts, else the last failure of the judge."""
        return self._results_by_phase["search"].get(candidate.id)

    def find_confirmation(self, candidate: Candidate) -> Result | None:
        return self._results_by_phase["confirmation"].get(candidate.id)

    def find_repetition(self, candidate: Candidate) -> Result | None:
        return self._results_by_phase["canary"].get(candidate.id)

    def list_to_judge(self, task_id: str) -> list[Candidate]:
        return [c for c in self._candidates_of(task_id) if self._needs_judging(c, "search")]

    def choose_to_confirm(self, task_id: str) -> Candidate | None:
        """Choose the next of the fastest until one wins in fresh processes, too; of those that do not win only the first."""
        confirmed_once = False
        for candidate in self._rank_correct(task_id)[: self._confirm]:
            first_result = self.find_first(candidate)
            if self._quick and not confirmed_once and is_surely_slower(first_result):
                return None
            confirmation = self.find_confirmation(candidate)
            if confirmation is not None and confirmation.win:
                return None
            if self._needs_judging(candidate, "confirmation"):
                return None if confirmed_once and self._speed(candidate) < 1.0 else candidate
            confirmed_once = confirmed_once or (confirmation is not None and confirmation.status == "ok")
        return None

    def find_fastest_confirmed(self, task_id: str) -> Candidate | None:
        """Find the fastest that was correct in fresh processes, too."""
        confirmations = [(self.find_confirmation(c), c) for c in self._candidates_of(task_id)]
        correct = [(r, c) for r, c in confirmations if r is not None and r.status == "ok"]
        return max(correct, key=lambda rc: _median_speedup(rc[0]), default=(None, None))[1]

    @cached_property
    def canaries(self) -> list[Candidate]:
        """The first correct candidate of each of the first tasks: the oldest measurements show most drift."""
        firsts: dict[str, Candidate] = {}
        for row in self.results:
            candidate = self._bundle.candidates[row.result.candidate_id]
            if row.phase == "search" and row.result.status == "ok" and candidate.id in self._only:
                firsts.setdefault(candidate.task_id, candidate)
        return list(firsts.values())[: self._bundle.manifest.canaries]

    def list_to_repeat(self, task_id: str) -> list[Candidate]:
        """List canaries of the task that were not judged again yet."""
        return [c for c in self.canaries if c.task_id == task_id and self._needs_judging(c, "canary")]

    def is_done(self, task_id: str) -> bool:
        """True when only canaries remain to be judged."""
        if self.why_given_up(task_id):
            return True
        return (
            self.find_opening(task_id) is not None
            and not self.list_to_judge(task_id)
            and self.choose_to_confirm(task_id) is None
        )

    def list_remaining(self, task_id: str) -> list[str]:
        """List the work of a task that remains, in words."""
        if self.why_given_up(task_id):
            return []
        judge, confirm, repeat = (
            len(self.list_to_judge(task_id)),
            self.choose_to_confirm(task_id),
            len(self.list_to_repeat(task_id)),
        )
        words = [f"{judge} to judge" if judge else "", "the fastest to confirm" if judge or confirm else ""]
        unopened = self.find_opening(task_id) is None and not judge
        words += ["baselines to measure" if unopened else "", f"{repeat} to repeat" if repeat else ""]
        return [w for w in words if w]

    def measure_drift(self) -> dict[str, str]:
        """Return canary id → how its second measurement compares with the first."""
        pairs = {c.id: (self.find_first(c), self.find_repetition(c)) for c in self.canaries}
        return {
            i: compare_results(first_result, second_result)
            for i, (first_result, second_result) in pairs.items()
            if first_result is not None and second_result is not None
        }

    @cached_property
    def _results_by_phase(self) -> dict[Pass, dict[str, Result]]:
        results_by_phase: dict[Pass, dict[str, Result]] = {"search": {}, "confirmation": {}, "canary": {}}
        for row in self.results:
            by_id = results_by_phase[row.phase]
            if row.result.candidate_id not in by_id or by_id[row.result.candidate_id].status == "error":
                by_id[row.result.candidate_id] = row.result
        return results_by_phase

    @cached_property
    def _statuses(self) -> dict[tuple[Pass, str], list[str]]:
        statuses: dict[tuple[Pass, str], list[str]] = {}
        for row in self.results:
            statuses.setdefault((row.phase, row.result.candidate_id), []).append(row.result.status)
        return statuses

    def _needs_judging(self, candidate: Candidate, phase: Pass) -> bool:
        """True when it was not judged yet, or the judge failed and may try once more."""
        statuses = self._statuses.get((phase, candidate.id), [])
        return all(status == "error" for status in statuses) and len(statuses) < MAX_TRIES

    def _candidates_of(self, task_id: str) -> list[Candidate]:
        return [c for c in self._bundle.candidates_of(task_id) if c.id in self._only]

    def _rank_correct(self, task_id: str) -> list[Candidate]:
        """Rank correct candidates by the low ends of their intervals, so that a lucky median is not confirmed first."""
        correct = [c for c in self._candidates_of(task_id) if self._speed(c) > 0]
        return sorted(correct, key=lambda c: -_low_speedup(self.find_first(c)))

    def _speed(self, candidate: Candidate) -> float:
        result = self.find_first(candidate)
        return _median_speedup(result) if result is not None and result.status == "ok" else 0.0


def is_surely_slower(result: Result | None) -> bool:
    """True when the whole interval is slower than the fastest baseline that it was measured with."""
    return result is not None and result.speedup is not None and result.speedup.high < 1.0


def check_rows(bundle: Bundle, rows: Sequence[TaskRow | ResultRow], path: Path) -> None:
    """Check that every row is of the bundle, and that a row before it names its environment. Raises BundleError."""
    opened: set[tuple[str, str]] = set()
    for number, row in enumerate(rows, 2):
        where = f"{path}:{number}"
        if isinstance(row, TaskRow):
            if row.task_id not in bundle.tasks:
                raise BundleError(f"{where}: task {row.task_id} is not in the bundle")
            opened.add((row.task_id, row.environment.id))
            continue
        result, candidate = row.result, bundle.candidates.get(row.result.candidate_id)
        if candidate is None:
            raise BundleError(f"{where}: candidate {result.candidate_id} is not in the bundle")
        expected = (candidate.content_key, candidate.task_id, candidate.target)
        if (result.content_key, result.task_id, result.target) != expected:
            raise BundleError(f"{where}: the result does not match its candidate {candidate.id}")
        if (result.task_id, result.environment) not in opened:
            raise BundleError(f"{where}: no line before it says where the result was measured")


def compare_results(first: Result, second: Result) -> str:
    """Write "1.02 times as long as the first time", or how the outcome changed."""
    if first.status != second.status:
        return f"was {first.status}, then {second.status}"
    if first.timing is None or second.timing is None:
        return f"{second.status} both times"
    return f"{second.timing.median_us / first.timing.median_us:.2f} times as long as the first time"


def _low_speedup(result: Result | None) -> float:
    speedup = result.speedup if result is not None else None
    return speedup.low if speedup is not None else 0.0


def _median_speedup(result: Result | None) -> float:
    speedup = result.speedup if result is not None else None
    return speedup.median if speedup is not None else 0.0
