"""What the pages show, read from the archive: activities with their standing in a word, candidates by stage, the latest attempts.

Nothing here is kept between two calls. Text of an archive stays text; templates escape it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from sqlalchemy import select

from ..archive import Archive, Entry
from ..archive import schema as s
from ..archive.activities import KILLED, Activities
from ..archive.inbox import Inbox
from ..archive.rows import ArchiveWarning
from ..progress import duration
from ..records import Task
from ..records.intervals import find_sure_share
from ..records.live import Activity, LiveCandidate, Request
from ..wording import baseline_name, interval, label, share

ENDED_SHOWN, ATTEMPTS_SHOWN, WAITING_SHOWN, LINES_SHOWN = 20, 40, 12, 200
STAGES = ("building", "waiting", "screening", "verifying", "timing", "confirming")


@dataclass(frozen=True)
class Card:
    """An activity as a list shows it."""

    activity: Activity
    standing: str  # working, stopping, killed, ended
    best: str  # with interval and baseline
    spent: str
    lanes: tuple[Card, ...] = ()


@dataclass(frozen=True)
class Overview:
    working: tuple[Card, ...]
    killed: tuple[Card, ...]
    ended: tuple[Card, ...]


@dataclass(frozen=True)
class AttemptLine:
    number: int
    candidate_id: str
    label: str
    status: str
    kind: str
    speedup: str
    limit: str
    reason: str
    worked: bool  # it may be a parent


@dataclass(frozen=True)
class Details:
    """An activity as its own page shows it."""

    card: Card
    stages: tuple[tuple[str, tuple[LiveCandidate, ...]], ...]
    attempts: tuple[AttemptLine, ...]
    requests: tuple[Request, ...]
    lines: tuple[tuple[str, str], ...]
    children: tuple[Card, ...] = ()
    task: Task | None = field(default=None, compare=False)


class Views:
    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.activities, self.inbox = Activities(archive.database), Inbox(archive.database)

    def load_overview(self) -> Overview:
        open_now = self.activities.list_open()
        lost = self.activities.find_lost(open_now)
        alive = [a for a in open_now if a.activity_id not in lost]
        parents = {a.activity_id for a in open_now}
        top = [a for a in alive if a.parent not in parents or a.parent in lost]
        killed = [a for a in open_now if a.activity_id in lost and a.parent not in parents]
        return Overview(
            tuple(self._make_card(a, lost, [c for c in alive if c.parent == a.activity_id]) for a in top),
            tuple(self._make_card(a, lost) for a in reversed(killed[-ENDED_SHOWN:])),
            tuple(self._make_card(a, lost) for a in self.activities.list_ended(ENDED_SHOWN)),
        )

    def list_lost(self) -> frozenset[str]:
        """List what was killed, of what has not ended: no write tells of that."""
        return frozenset(self.activities.find_lost(self.activities.list_open()))

    def load_details(self, activity_id: str) -> Details | None:
        activity = self.activities.get(activity_id)
        if activity is None:
            return None
        children = self.activities.list_children(activity_id) if activity.kind == "suite" else []
        lost = self.activities.find_lost([activity, *children])
        working = [c for c in children if not c.ended_at and c.activity_id not in lost]
        card = self._make_card(activity, lost, working)
        at = activity.state.candidates if card.standing in ("working", "stopping") else ()
        return Details(
            card, tuple((stage, tuple(c for c in at if c.stage == stage)) for stage in STAGES),
            tuple(self._list_attempts(activity)), tuple(self.inbox.list_all(activity_id, activity.run_id)),
            tuple(self.activities.list_lines(activity_id, LINES_SHOWN)), tuple(self._make_card(c, lost) for c in children),
        )  # fmt: skip

    def find_task(self, activity: Activity) -> Task | None:
        """Return the task of the activity's run; None while that has not begun."""
        if not activity.run_id:
            return None
        query = select(s.runs.c.task_id).where(s.runs.c.id == activity.run_id)
        with self.archive.database.transaction() as connection:
            task_id = connection.execute(query).scalar()
        return self.archive.task(task_id) if task_id is not None else None

    def load_candidate(self, candidate_id: str) -> tuple[list[Entry], Task] | None:
        """Return the results of a candidate, oldest first, and its task."""
        query = select(s.results).where(s.results.c.candidate_id == candidate_id).order_by(s.results.c.number)
        entries = self._read_entries(query)
        task = self.archive.task(entries[0].candidate.task_id) if entries else None
        return (entries, task) if task is not None else None

    def _make_card(self, activity: Activity, lost: set[str], lanes: list[Activity] | None = None) -> Card:
        cards = tuple(
            self._make_card(a, lost) for a in sorted(lanes or [], key=lambda a: (a.state.lane, a.started_at))
        )
        return Card(
            activity, self._find_standing(activity, lost), describe_best(activity), describe_spent(activity), cards
        )  # fmt: skip

    def _find_standing(self, activity: Activity, lost: set[str]) -> str:
        if activity.activity_id in lost or activity.ending == KILLED:
            return "killed"
        if activity.ended_at:
            return "ended"
        stops = (r.kind == "stop" for r in self.inbox.list_all(activity.activity_id))
        return "stopping" if any(stops) else "working"

    def _list_attempts(self, activity: Activity) -> list[AttemptLine]:
        """List the latest attempts of a run, the latest first."""
        if not activity.run_id:
            return []
        t = s.run_results.c
        query = (
            select(s.results, t.run_id, t.number.label("place"), t.kind, t.elapsed)
            .join(s.run_results, t.result_number == s.results.c.number)
            .where(t.run_id == activity.run_id)
            .order_by(t.number.desc())
            .limit(ATTEMPTS_SHOWN)
        )
        return [make_line(e) for e in self._read_entries(query)]

    def _read_entries(self, query: object) -> list[Entry]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ArchiveWarning)  # a damaged row is left out of the page
            return self.archive.entries(query)  # type: ignore[arg-type]


def make_line(entry: Entry) -> AttemptLine:
    result, ratio = entry.result, entry.result.promise
    timed = ratio is not None and result.status in ("ok", "screened")
    text = f"{interval(ratio)} over {baseline_name(ratio.baseline)}" if timed and ratio is not None else ""
    if text and result.status == "screened":
        text = f"estimate: {text}"
    sure = find_sure_share(result.timing) if result.timing is not None and result.status == "ok" else 0.0
    return AttemptLine(
        entry.number, entry.candidate.id, label(entry.candidate), result.status, entry.kind, text, share(sure) if sure > 0 else "",
        result.reason, result.status in ("ok", "screened"),
    )  # fmt: skip


def describe_best(activity: Activity) -> str:
    """Say what is best so far with its interval and baseline; never a median alone."""
    state = activity.state
    if state.best is None:
        return ""
    confirmed = "confirmed" if state.best_confirmed else "not confirmed yet"
    return (
        f"{interval(state.best)} over {baseline_name(state.best.baseline)}, {state.best_label}, {confirmed}"
    )


def describe_spent(activity: Activity) -> str:
    """Say what was spent of the budget."""
    state = activity.state
    if activity.kind == "suite":
        return f"{state.runs_done} of {state.runs} runs done"
    budget = state.budget
    of_all = f" of {budget.evaluations}" if budget is not None and budget.evaluations is not None else ""
    parts = [f"{state.judged}{of_all} judged"]
    parts += [f"{state.screened} screened"] if state.screened else []
    if budget is not None and budget.seconds is not None:
        parts.append(f"{duration(budget.seconds)} to search")
    parts += [f"{state.tokens:,} tokens"] if state.tokens else []
    parts += [f"${state.usd:.2f}"] if state.usd else []
    return ", ".join(parts)
