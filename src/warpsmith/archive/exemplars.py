"""Units worth showing to an author: correct results that nothing has outweighed since, by signature.

An archive and a signature in, entries out. A result is *sound* when it is correct, no later result of the same content
failed, and its task was never quarantined.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, exists, select

from . import schema as s
from .entries import Entry
from .kernels import load_entries_by_number
from .reading import ArchiveReader


def find_sound_entries(
    archive: ArchiveReader, signature: str, target: str, limit: int = 12, before: str = "", without: str = ""
) -> list[Entry]:
    """Sound results with a unit for a region of this signature: confirmed wins first, then by speedup; what was
    judged here before what was imported. `before`: judged before then (ISO 8601, UTC); `without`: not of this task.
    """
    r, u = s.results.c, s.units.c
    holding = (
        select(s.candidate_units.c.candidate_id)
        .join(s.units, u.id == s.candidate_units.c.unit_id)
        .where(u.signature == signature)
    )
    won = r.confirmed & r.win
    ranked = (
        select(r.number)
        .where(r.candidate_id.in_(holding), r.target == target, _correct(before), r.task_id != without)
        .order_by((r.origin == "local").desc(), won.desc(), r.speedup.desc(), r.number)
    )
    with archive.database.transaction() as connection:
        numbers = connection.execute(ranked).scalars().all()
        best: list[int] = []
        for start in range(0, len(numbers), 4 * limit):  # whether one failed since is asked of few
            batch = numbers[start : start + 4 * limit]
            standing = select(r.number).where(r.number.in_(batch), ~_has_failed_since())
            still = set(connection.execute(standing).scalars())
            best += [n for n in batch if n in still]
            if len(best) >= limit:
                break
        return load_entries_by_number(connection, best[:limit])


def list_sound_signatures(
    archive: ArchiveReader, target: str, before: str = "", without: str = ""
) -> list[str]:
    """The signatures for which there are sound results, in alphabetical order."""
    r = s.results.c
    query = (
        select(s.units.c.signature)
        .join(s.candidate_units, s.candidate_units.c.unit_id == s.units.c.id)
        .join(s.results, r.candidate_id == s.candidate_units.c.candidate_id)
        .where(r.target == target, is_sound(before), r.task_id != without)
        .distinct()
        .order_by(s.units.c.signature)
    )
    with archive.database.transaction() as connection:
        return list(connection.execute(query).scalars())


def is_sound(before: str) -> ColumnElement[bool]:
    return and_(_correct(before), ~_has_failed_since())


def _correct(before: str) -> ColumnElement[bool]:
    """At the time, and of a task that was never quarantined."""
    r = s.results.c
    quarantined = select(s.runs.c.task_id).where(~s.runs.c.admitted)
    correct = and_(r.status == "ok", r.task_id.not_in(quarantined))
    return correct & (r.judged_at < before) if before else correct


def _has_failed_since() -> ColumnElement[bool]:
    r, later = s.results.c, s.results.alias("later")
    return exists().where(
        later.c.content_key == r.content_key, later.c.task_id == r.task_id, later.c.number > r.number,
        later.c.status.not_in(("ok", "error", "screened")),
    )  # fmt: skip
