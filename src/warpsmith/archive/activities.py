"""What processes are working on, as they tell it: begun, noted again and again, ended, with the lines that they wrote.

A process that is killed says nothing more. So nobody believes a row alone: `is_lost` asks whether the process is still there, and of one
on another machine whether it was silent for too long.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update

from ..records.live import Activity, ActivityKind, LiveState
from . import schema as s
from .engine import Database
from .owner import is_gone, this_process
from .rows import whole
from .store import now

SILENCE_SECONDS = (
    60.0  # of a process on another machine, after which it counts as lost; it writes six times as often
)
KILLED = "killed: its process ended and said nothing; the same command goes on from there"
MAX_OPEN = 1000  # activities looked at
MAX_LINES = 400  # kept of one activity
MAX_LINE_CHARACTERS = 2000
Line = tuple[str, str]  # when it was written (ISO 8601 UTC), text


class Activities:
    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, kind: ActivityKind, title: str, target: str, parent: str, state: LiveState) -> str:
        """Note that this process begins to work; return the activity's id. What was killed before is closed meanwhile."""
        self._close_lost()
        activity_id = secrets.token_hex(6)
        with self._database.transaction(write=True) as connection:
            values = {
                "id": activity_id, "kind": kind, "parent": parent, "run_id": "", "title": title, "target": target, "owner": this_process(),
                "started_at": now(), "seen_at": self._database.clock(connection), "ended_at": "", "ending": "", "state": state.model_dump_json(),
            }  # fmt: skip
            connection.execute(insert(s.activities).values(**values))
        return activity_id

    def note(self, activity_id: str, state: LiveState, run_id: str = "", lines: Sequence[Line] = ()) -> None:
        """Keep its state and further lines; without a change this is a sign of life."""
        a = s.activities
        with self._database.transaction(write=True) as connection:
            values: dict[str, Any] = {
                "state": state.model_dump_json(),
                "seen_at": self._database.clock(connection),
            }
            if run_id:
                values["run_id"] = run_id
            connection.execute(update(a).where(a.c.id == activity_id).values(**values))
            self._write_lines(connection, activity_id, lines)

    def end(
        self, activity_id: str, state: LiveState, ending: str, lines: Sequence[Line] = (), run_id: str = ""
    ) -> None:
        """Note how it ended, in a line."""
        a = s.activities
        with self._database.transaction(write=True) as connection:
            values = {"state": state.model_dump_json(), "ended_at": now(), "ending": ending}
            if run_id:
                values["run_id"] = run_id
            connection.execute(update(a).where(a.c.id == activity_id).values(**values))
            self._write_lines(connection, activity_id, lines)

    def list_open(self) -> list[Activity]:
        """List what has not said that it ended, oldest first."""
        a = s.activities.c
        return self._load(a.ended_at == "", a.started_at.desc(), MAX_OPEN)[::-1]

    def list_ended(self, most: int) -> list[Activity]:
        """List what ended by its own account, the latest first; without the runs of suites, which these tell of."""
        a = s.activities.c
        return self._load((a.ended_at != "") & (a.parent == ""), a.ended_at.desc(), most)

    def list_children(self, activity_id: str, most: int = 400) -> list[Activity]:
        """List the runs of a suite, the latest first."""
        a = s.activities.c
        return self._load(a.parent == activity_id, a.started_at.desc(), most)

    def get(self, activity_id: str) -> Activity | None:
        a = s.activities.c
        return next(iter(self._load(a.id == activity_id, a.id, 1)), None)

    def list_lines(self, activity_id: str, most: int = MAX_LINES) -> list[tuple[str, str]]:
        """List (when, line), the oldest first, of the latest so many."""
        t = s.activity_lines.c
        query = (
            select(t.written_at, t.line)
            .where(t.activity_id == activity_id)
            .order_by(t.number.desc())
            .limit(most)
        )
        with self._database.transaction() as connection:
            return [(row.written_at, row.line) for row in reversed(connection.execute(query).all())]

    def find_lost(self, activities: Iterable[Activity]) -> set[str]:
        """Return the ids of those whose processes are gone without having said how they ended."""
        with self._database.transaction() as connection:
            clock = self._database.clock(connection)
        return {
            a.activity_id
            for a in activities
            if not a.ended_at and is_gone(a.owner, clock - a.seen_at, SILENCE_SECONDS)
        }

    def is_lost(self, activity: Activity) -> bool:
        return bool(self.find_lost([activity]))

    def _close_lost(self) -> None:
        """Write down what was killed, so that nobody asks for its process for ever."""
        lost = self.find_lost(self.list_open())
        if not lost:
            return
        a = s.activities
        with self._database.transaction(write=True) as connection:
            condition = a.c.id.in_(lost) & (a.c.ended_at == "")
            connection.execute(update(a).where(condition).values(ended_at=now(), ending=KILLED))

    def _load(self, condition: Any, order: Any, most: int) -> list[Activity]:
        query = select(s.activities).where(condition).order_by(order, s.activities.c.id).limit(most)
        with self._database.transaction() as connection:
            rows = connection.execute(query).all()
        records = (whole("activity", row.id, _read_activity, row) for row in rows)
        return [activity for activity in records if activity is not None]

    def _write_lines(self, connection: Any, activity_id: str, lines: Sequence[Line]) -> None:
        if not lines:
            return
        t = s.activity_lines
        rows = [
            {"activity_id": activity_id, "written_at": when, "line": line[:MAX_LINE_CHARACTERS]}
            for when, line in lines[-MAX_LINES:]
        ]
        connection.execute(insert(t), rows)
        numbers = select(t.c.number).where(t.c.activity_id == activity_id).order_by(t.c.number.desc())
        oldest = connection.execute(numbers.offset(MAX_LINES).limit(1)).scalar()
        if oldest is not None:
            connection.execute(delete(t).where(t.c.activity_id == activity_id, t.c.number <= oldest))


def _read_activity(row: Any) -> Activity:
    values = {name: value for name, value in row._mapping.items() if name not in ("id", "state")}
    return Activity(activity_id=row.id, state=LiveState.model_validate_json(row.state), **values)
