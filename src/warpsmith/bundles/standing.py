"""How far the judging of a bundle is on one machine: what is known of each candidate, and what is left to do.

In: a bundle, and the rows of its results. Out: for each task, what to judge, confirm and judge again next. Everything is computed from
rows, so a run that was killed goes on by reading them. Rows of other environments do not count here: a speed is one machine's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

from ..records import Candidate, Result
from .bundle import Bundle
from .journal import Pass, ResultRow, TaskRow
from .manifest import BundleError

TRIES = 2  # of what failed for no fault of the candidate


class Standing:
    """A snapshot. `confirm` bounds the candidates of a task that are measured again; `only`: ids of candidates, None: all.
    `quick`: what surely does not win is not measured again.
    """

    def __init__(
        self, bundle: Bundle, rows: Sequence[TaskRow | ResultRow], environment: str, confirm: int,
        only: Collection[str] | None = None, quick: bool = False,
    ) -> None:  # fmt: skip
        self._bundle, self._confirm, self._quick = bundle, confirm, quick
        self._only = bundle.candidates if only is None else only
        self._openings = [r for r in rows if isinstance(r, TaskRow) and r.environment.id == environment]
        self.results = [r for r in rows if isinstance(r, ResultRow) and r.result.environment == environment]

    def opening(self, task_id: str) -> TaskRow | None:
        """The newest, if the task's judge ever opened; else the newest failure."""
        mine = [r for r in self._openings if r.task_id == task_id]
        return max(mine, key=lambda r: (r.status == "opened", r.at), default=None)

    def began(self, task_id: str) -> str:
        """When its judge was opened first, ISO 8601 UTC; empty: never tried."""
        return min((r.at for r in self._openings if r.task_id == task_id), default="")

    def gave_up(self, task_id: str) -> str:
        """Why the task is not tried again; empty when it may be."""
        mine = [r for r in self._openings if r.task_id == task_id]
        failed = [r for r in mine if r.status != "opened"]
        if any(r.status == "task-error" for r in failed) or len(failed) >= TRIES:
            return failed[-1].reason
        return ""

    def first(self, candidate: Candidate) -> Result | None:
        """What is known of a candidate: its first measurement that counts, else the last failure of the judge."""
        return self._known["search"].get(candidate.id)

    def confirmation(self, candidate: Candidate) -> Result | None:
        return self._known["confirmation"].get(candidate.id)

    def canary(self, candidate: Candidate) -> Result | None:
        return self._known["canary"].get(candidate.id)

    def to_judge(self, task_id: str) -> list[Candidate]:
        return [c for c in self._mine(task_id) if self._again(c, "search")]

    def to_confirm(self, task_id: str) -> Candidate | None:
        """The next of the fastest, until one still wins in fresh processes; of those that do not win only the first."""
        passed = False
        for candidate in self._ranked(task_id)[: self._confirm]:
            first = self.first(candidate)
            if self._quick and not passed and surely_slower(first):
                return None
            again = self.confirmation(candidate)
            if again is not None and again.win:
                return None
            if self._again(candidate, "confirmation"):
                return None if passed and self._speed(candidate) < 1.0 else candidate
            passed = passed or (again is not None and again.status == "ok")
        return None

    def confirmed(self, task_id: str) -> Candidate | None:
        """The fastest that was correct in fresh processes, too."""
        found = [(self.confirmation(c), c) for c in self._mine(task_id)]
        right = [(r, c) for r, c in found if r is not None and r.status == "ok"]
        return max(right, key=lambda rc: _median(rc[0]), default=(None, None))[1]

    @cached_property
    def canaries(self) -> list[Candidate]:
        """The first correct candidate of each of the first tasks: what was measured longest ago shows most drift."""
        firsts: dict[str, Candidate] = {}
        for row in self.results:
            candidate = self._bundle.candidates[row.result.candidate_id]
            if row.phase == "search" and row.result.status == "ok" and candidate.id in self._only:
                firsts.setdefault(candidate.task_id, candidate)
        return list(firsts.values())[: self._bundle.manifest.canaries]

    def to_repeat(self, task_id: str) -> list[Candidate]:
        """Canaries of the task that were not judged again yet."""
        return [c for c in self.canaries if c.task_id == task_id and self._again(c, "canary")]

    def done(self, task_id: str) -> bool:
        """Whether nothing is left but canaries."""
        if self.gave_up(task_id):
            return True
        return (
            self.opening(task_id) is not None
            and not self.to_judge(task_id)
            and self.to_confirm(task_id) is None
        )

    def left(self, task_id: str) -> list[str]:
        """What is left of a task, in words."""
        if self.gave_up(task_id):
            return []
        judge, confirm, repeat = (
            len(self.to_judge(task_id)),
            self.to_confirm(task_id),
            len(self.to_repeat(task_id)),
        )
        words = [f"{judge} to judge" if judge else "", "the fastest to confirm" if judge or confirm else ""]
        unopened = self.opening(task_id) is None and not judge
        words += ["baselines to measure" if unopened else "", f"{repeat} to repeat" if repeat else ""]
        return [w for w in words if w]

    def drift(self) -> dict[str, str]:
        """Canary id → how its second measurement compares with the first."""
        again = {c.id: (self.first(c), self.canary(c)) for c in self.canaries}
        return {
            i: compared(one, two) for i, (one, two) in again.items() if one is not None and two is not None
        }

    @cached_property
    def _known(self) -> dict[Pass, dict[str, Result]]:
        known: dict[Pass, dict[str, Result]] = {"search": {}, "confirmation": {}, "canary": {}}
        for row in self.results:
            by_id = known[row.phase]
            if row.result.candidate_id not in by_id or by_id[row.result.candidate_id].status == "error":
                by_id[row.result.candidate_id] = row.result
        return known

    @cached_property
    def _statuses(self) -> dict[tuple[Pass, str], list[str]]:
        found: dict[tuple[Pass, str], list[str]] = {}
        for row in self.results:
            found.setdefault((row.phase, row.result.candidate_id), []).append(row.result.status)
        return found

    def _again(self, candidate: Candidate, phase: Pass) -> bool:
        """Not judged yet, or the judge failed and may be asked once more."""
        statuses = self._statuses.get((phase, candidate.id), [])
        return all(status == "error" for status in statuses) and len(statuses) < TRIES

    def _mine(self, task_id: str) -> list[Candidate]:
        return [c for c in self._bundle.candidates_of(task_id) if c.id in self._only]

    def _ranked(self, task_id: str) -> list[Candidate]:
        """Those that are correct, by the low ends of their intervals: a lucky median is not confirmed first."""
        right = [c for c in self._mine(task_id) if self._speed(c) > 0]
        return sorted(right, key=lambda c: -_low(self.first(c)))

    def _speed(self, candidate: Candidate) -> float:
        result = self.first(candidate)
        return _median(result) if result is not None and result.status == "ok" else 0.0


def surely_slower(result: Result | None) -> bool:
    """Than the fastest baseline that it was measured with."""
    return result is not None and result.speedup is not None and result.speedup.high < 1.0


def expect_own(bundle: Bundle, rows: Sequence[TaskRow | ResultRow], path: Path) -> None:
    """Every row is of a task or candidate of the bundle, judged where a row before it says. Raises BundleError."""
    known: set[tuple[str, str]] = set()
    for number, row in enumerate(rows, 2):
        where = f"{path}:{number}"
        if isinstance(row, TaskRow):
            if row.task_id not in bundle.tasks:
                raise BundleError(f"{where}: task {row.task_id} is not in the bundle")
            known.add((row.task_id, row.environment.id))
            continue
        result, candidate = row.result, bundle.candidates.get(row.result.candidate_id)
        if candidate is None:
            raise BundleError(f"{where}: candidate {result.candidate_id} is not in the bundle")
        mine = (candidate.content_key, candidate.task_id, candidate.target)
        if (result.content_key, result.task_id, result.target) != mine:
            raise BundleError(f"{where}: the result does not match its candidate {candidate.id}")
        if (result.task_id, result.environment) not in known:
            raise BundleError(f"{where}: no line before it says where the result was measured")


def compared(first: Result, again: Result) -> str:
    """ "1.02 times as long as the first time", or how the outcome changed."""
    if first.status != again.status:
        return f"was {first.status}, then {again.status}"
    if first.timing is None or again.timing is None:
        return f"{again.status} both times"
    return f"{again.timing.median_us / first.timing.median_us:.2f} times as long as the first time"


def _low(result: Result | None) -> float:
    speedup = result.speedup if result is not None else None
    return speedup.low if speedup is not None else 0.0


def _median(result: Result | None) -> float:
    speedup = result.speedup if result is not None else None
    return speedup.median if speedup is not None else 0.0
