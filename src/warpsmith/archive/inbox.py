"""The inbox: what people ask of something that works, and what came of it.

A face asks; the process that works takes a request, does it or refuses it, and says so. A run that is resumed by another process takes
again, before the same round, what the earlier process did, so that it goes as it went.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, or_, select, update

from ..records.live import Request, RequestKind, RequestStatus
from . import schema as s
from .engine import Database
from .rows import whole
from .store import now

LATE = "it had ended before it could take this"


class Inbox:
    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, activity_id: str, kind: RequestKind, body: dict[str, str], run_id: str = "") -> int:
        """Put a request; return its number."""
        values = {
            "activity_id": activity_id, "run_id": run_id, "kind": kind, "body": json.dumps(body), "made_at": now(), "status": "waiting",
            "round": -1, "answered_at": "", "answer": "",
        }  # fmt: skip
        with self._database.transaction(write=True) as connection:
            key = connection.execute(insert(s.requests).values(**values)).inserted_primary_key
        return int(key[0]) if key is not None else 0

    def list_waiting(self, activity_id: str, run_id: str = "") -> list[Request]:
        """List what nobody has taken, in the order in which it was asked; with a run also what its earlier processes left."""
        return self._load(_is_of(activity_id, run_id), s.requests.c.status == "waiting")

    def list_taken_before(self, run_id: str) -> list[Request]:
        """List what processes of this run did, in the order in which they did it."""
        served = s.requests.c.status.in_(("taken", "done")) & (s.requests.c.round >= 0)
        return self._load(s.requests.c.run_id == run_id, served)

    def list_all(self, activity_id: str, run_id: str = "") -> list[Request]:
        return self._load(_is_of(activity_id, run_id))

    def take(self, request: Request, run_id: str, round_number: int = -1) -> None:
        self._change(request.number, status="taken", run_id=run_id, round=round_number)

    def answer(self, request: Request, status: RequestStatus, text: str) -> None:
        self._change(request.number, status=status, answer=text[:2000], answered_at=now())

    def close(self, activity_id: str, run_id: str = "") -> None:
        """Refuse what is left: whoever works here takes nothing more."""
        for request in self.list_waiting(activity_id, run_id):
            self.answer(request, "refused", LATE)

    def _change(self, number: int, **values: Any) -> None:
        with self._database.transaction(write=True) as connection:
            connection.execute(update(s.requests).where(s.requests.c.number == number).values(**values))

    def _load(self, *conditions: Any) -> list[Request]:
        query = select(s.requests).where(*conditions).order_by(s.requests.c.number)
        with self._database.transaction() as connection:
            rows: Sequence[Any] = connection.execute(query).all()
        records = (whole("request", str(row.number), _read_request, row) for row in rows)
        return [request for request in records if request is not None]


def _is_of(activity_id: str, run_id: str) -> Any:
    condition = s.requests.c.activity_id == activity_id
    return or_(condition, s.requests.c.run_id == run_id) if run_id else condition


def _read_request(row: Any) -> Request:
    return Request(**(dict(row._mapping) | {"body": json.loads(row.body)}))
