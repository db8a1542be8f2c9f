"""Rows of what models were asked and what runs learnt: exchanges by run, lessons with the outcomes of telling them.

An answer that was kept is never replaced; a failed exchange makes way for a later attempt at the same question. A
lesson is one remedy for one kind of failure on one target; how often it helped is summed over its outcomes, so that a
resumed run can ask what was known when it began.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, update

from ..errors import ArchiveError
from ..records import Exchange, Lesson
from . import schema as s
from .entries import KeptLesson
from .rows import keep


def load_exchange(connection: Connection, run_id: str, key: str) -> Exchange | None:
    e = s.exchanges.c
    text = connection.execute(select(e.record).where(e.run_id == run_id, e.key == key)).scalar()
    return None if text is None else Exchange.model_validate_json(text)


def load_exchanges(connection: Connection, run_id: str) -> list[Exchange]:
    """In the order in which the questions were first asked."""
    e = s.exchanges.c
    query = select(e.record).where(e.run_id == run_id).order_by(e.number)
    return [Exchange.model_validate_json(text) for text in connection.execute(query).scalars()]


def keep_exchange(connection: Connection, run_id: str, exchange: Exchange, at: str, origin: str) -> None:
    """Keep it unless its question has an answer already. Raises ArchiveError when the run is not known."""
    if connection.execute(select(s.runs.c.id).where(s.runs.c.id == run_id)).first() is None:
        raise ArchiveError(f"no run {run_id}: begin it first")
    stored = load_exchange(connection, run_id, exchange.key)
    usage = exchange.usage
    values = {
        "role": exchange.role, "model": exchange.model, "created_at": at, "usd": exchange.usd,
        "tokens": usage.input_tokens + usage.output_tokens, "record": exchange.model_dump_json(),
    }  # fmt: skip
    if stored is None:
        keep(connection, s.exchanges, run_id=run_id, key=exchange.key, origin=origin, **values)
    elif stored.error:
        e = s.exchanges.c
        same = (e.run_id == run_id) & (e.key == exchange.key)
        connection.execute(update(s.exchanges).where(same).values(**values))


def load_lessons(connection: Connection, wanted: ColumnElement[bool], before: str = "") -> list[KeptLesson]:
    """Lessons with their counts, most helpful first; with `before`, as they stood then (ISO 8601, UTC)."""
    lesson, outcome = s.lessons.c, s.lesson_outcomes.c
    helped, failed = func.sum(outcome.helped), func.sum(outcome.failed)
    query = (
        select(s.lessons, helped.label("helped"), failed.label("failed"))
        .join(s.lesson_outcomes, outcome.lesson == lesson.number)
        .where(wanted)
        .group_by(lesson.number)
        .order_by((helped - failed).desc(), helped.desc(), lesson.number)
    )
    if before:
        query = query.where(outcome.created_at < before)
    return [_load_lesson(row) for row in connection.execute(query)]


def _load_lesson(row: Any) -> KeptLesson:
    counts = {"helped": int(row.helped), "failed": int(row.failed)}  # PostgreSQL sums to a Decimal
    lesson = Lesson.model_validate_json(row.record).model_copy(update=counts)
    return KeptLesson(lesson=lesson, learnt_at=row.created_at, origin=row.origin)


def helpful(connection: Connection, signature: str, target: str, before: str, limit: int) -> list[Lesson]:
    """Lessons on a kind of failure, without those that failed more often than they helped."""
    condition = (s.lessons.c.signature == signature) & (s.lessons.c.target == target)
    lessons = [stored.lesson for stored in load_lessons(connection, condition, before)]
    return [lesson for lesson in lessons if lesson.helped >= lesson.failed][:limit]


def keep_lesson(connection: Connection, lesson: Lesson, at: str) -> None:
    """A lesson that was learnt here; known already, it has helped once more, unless by the same candidate."""
    number = _number(connection, lesson.signature, lesson.target, lesson.remedy)
    if number is None:
        number = _insert(connection, lesson, at, "local")
    connection.execute(update(s.lessons).where(s.lessons.c.number == number).values(origin="local"))
    keep_outcome(connection, number, at, lesson.helped, lesson.failed, lesson.candidate)


def keep_foreign_lesson(connection: Connection, lesson: Lesson, at: str) -> None:
    """A lesson of another machine, with its counts; one that is known here stays as it is."""
    if _number(connection, lesson.signature, lesson.target, lesson.remedy) is None:
        number = _insert(connection, lesson, at, "imported")
        keep_outcome(connection, number, at, lesson.helped, lesson.failed, lesson.candidate)


def keep_told(
    connection: Connection, key: tuple[str, str, str], worked: bool, candidate: str, at: str
) -> None:
    """That the lesson with this (signature, target, remedy) was told and did or did not help."""
    number = _number(connection, *key)
    if number is None:
        raise ArchiveError(f"no lesson on this failure says: {key[2]}")
    keep_outcome(connection, number, at, int(worked), int(not worked), candidate)


def keep_outcome(
    connection: Connection, number: int, at: str, helped: int, failed: int, candidate: str
) -> None:
    """One candidate counts once for a lesson, however often a resumed run comes by."""
    o = s.lesson_outcomes.c
    counted = select(o.number).where(o.lesson == number, o.candidate == candidate)
    if not candidate or connection.execute(counted).first() is None:
        keep(
            connection, s.lesson_outcomes, lesson=number, created_at=at, helped=helped, failed=failed,
            candidate=candidate,
        )  # fmt: skip


def _number(connection: Connection, signature: str, target: str, remedy: str) -> int | None:
    c = s.lessons.c
    same = (c.signature == signature) & (c.target == target) & (c.remedy == remedy)
    return connection.execute(select(c.number).where(same)).scalar()


def _insert(connection: Connection, lesson: Lesson, at: str, origin: str) -> int:
    keep(
        connection, s.lessons, signature=lesson.signature, target=lesson.target, remedy=lesson.remedy,
        created_at=at, origin=origin, record=lesson.model_dump_json(),
    )  # fmt: skip
    number = _number(connection, lesson.signature, lesson.target, lesson.remedy)
    assert number is not None
    return number
