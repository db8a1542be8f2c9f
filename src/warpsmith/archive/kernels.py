"""Results by what they are looked for: of a task, judged already, winners, transfer seeds ("stones"), by text, by kind.

Every query by task, signature or word is indexed; which results it wants is decided from the indexed columns, and only
those are read whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from ..places import ArchiveUrl
from ..records import Result
from . import schema as s
from .engine import Database
from .entries import Entry
from .migrations import migrate
from .rows import load_entries, load_limits, whole
from .text_index import matching_units
from .views import KINDS, ResultKind, result_kinds

UNITS_FOUND = 200  # by a text, before those without a correct result are left out


class KernelReader:
    """An archive, opened: a path, or postgresql://…

    Raises ArchiveError, one line, when it is damaged, newer than this program, read-only, cannot be reached, or is no
    archive at all; UsageError when PostgreSQL's driver is missing.
    """

    def __init__(self, where: Path | ArchiveUrl | str) -> None:
        self.database = Database(where)
        with self.database.transaction(write=True) as connection:
            migrate(connection, self.database.name)

    @property
    def name(self) -> str:
        """Return the name of the archive for messages: its path, or its URL without a password."""
        return self.database.name

    @property
    def path(self) -> Path:
        """Raises ArchiveError where it is no file."""
        return self.database.path

    def close(self) -> None:
        self.database.close()

    def entries(self, query: Select[Any], as_judged: bool = False) -> list[Entry]:
        """Rows of `results` that a query finds, in its order; damaged ones are left out with a warning. `as_judged`: see
        `load_entries`.
        """
        with self.database.transaction() as connection:
            return load_entries(connection, connection.execute(query).all(), as_judged)

    def results(self, task_id: str, target: str) -> list[Entry]:
        """Every result of a task, imported ones too, oldest first."""
        condition = (s.results.c.task_id == task_id) & (s.results.c.target == target)
        return self.entries(select(s.results).where(condition).order_by(s.results.c.number))

    def index_judged_results(self, task_id: str, target: str, environment: str) -> dict[str, Result]:
        """Content key → latest result judged in this environment (an Environment id), so that no work is
        repeated.

        Results with status "error" are left out (the judge failed, not the candidate), and so are
        imported ones.
        """
        r = s.results.c
        condition = (r.task_id == task_id) & (r.target == target) & (r.environment_id == environment)
        query = (
            select(r.id, r.number, r.content_key, r.record)
            .where(condition, r.status != "error", r.origin == "local")
            .order_by(r.number)
        )
        with self.database.transaction() as connection:
            results: dict[str, Result] = {}
            rows = connection.execute(query).all()
            limits = load_limits(connection, rows)
            for row in rows:
                result = whole("result", row.id, Result.model_validate_json, row.record)
                if result is not None:
                    limit = limits.get(row.number)
                    results[row.content_key] = result.restate(limit) if limit is not None else result
            return results

    def winners(
        self, task_id: str, target: str, environment: str = "", include_imported: bool = False
    ) -> list[Entry]:
        """Confirmed wins, one per content key (its latest confirmation): this environment first, then by
        speedup.

        Imported wins come last, and only when asked for: they are unverified until judged here.
        """
        winners = [e for e in self.standing(task_id, target) if include_imported or e.verified_here]
        winners.sort(key=lambda e: (not e.verified_here, e.result.environment != environment, -_speedup(e)))
        best: dict[str, Entry] = {}
        for entry in winners:
            best.setdefault(entry.candidate.content_key, entry)
        return list(best.values())

    def standing(self, task_id: str, target: str) -> list[Entry]:
        """Confirmed wins that nothing contradicts since: of each content, in each environment, its latest confirmation,
        imported ones too.
        """
        r = s.results.c
        return self._standing((r.task_id == task_id) & (r.target == target))

    def standing_everywhere(self, target: str) -> list[Entry]:
        """Confirmed wins as `standing` has them, of all tasks that are not quarantined."""
        r = s.results.c
        quarantined = select(s.runs.c.task_id).where(~s.runs.c.admitted)
        return self._standing((r.target == target) & r.task_id.not_in(quarantined))

    def _standing(self, condition: ColumnElement[bool]) -> list[Entry]:
        r = s.results.c
        condition = (
            condition & r.status.not_in(("error", "screened")) & (r.confirmed | (r.status != "ok"))
        )  # a later failure outweighs an earlier confirmation
        latest = (
            select(func.max(r.number))
            .where(condition)
            .group_by(r.task_id, r.content_key, r.environment_id, r.origin)
        )
        return self.entries(select(s.results).where(r.number.in_(latest.scalar_subquery()), r.win))

    def find(self, text: str, target: str | None = None, limit: int = 10) -> list[Entry]:
        """The fastest correct result of each unit that a text fits: its source, technique, family or signature. Units
        with all of its words come first, then those with any.
        """
        with self.database.transaction() as connection:
            units = matching_units(connection, text, UNITS_FOUND)
            rank = {unit: rank_of_unit for rank_of_unit, unit in enumerate(units)}
            rows = connection.execute(stones(s.units.c.id.in_(units), target)).all()
            best: dict[str, int] = {}
            for row in sorted(rows, key=lambda row: (rank[row.unit_id], -row.speedup, row.number)):
                best.setdefault(row.unit_id, row.number)
            return load_entries_by_number(connection, list(dict.fromkeys(best.values()))[:limit])

    def list_kind(
        self, kind: ResultKind, task_id: str | None = None, target: str | None = None, limit: int = 50
    ) -> list[Entry]:
        """Winners, stones, quarantined or failed results (of a task), newest first: `views.py` says which is which."""
        k = result_kinds.c
        query = select(k.number).where(k.kind == kind).order_by(k.number.desc()).limit(limit)
        for column, value in ((k.task_id, task_id), (k.target, target)):
            query = query if value is None else query.where(column == value)
        with self.database.transaction() as connection:
            return load_entries_by_number(connection, connection.execute(query).scalars().all())

    def kind_counts(self, task_id: str | None = None) -> dict[ResultKind, int]:
        """Count the results (of a task) of each kind."""
        k = result_kinds.c
        query = select(k.kind, func.count()).group_by(k.kind)
        if task_id is not None:
            query = query.where(k.task_id == task_id)
        with self.database.transaction() as connection:
            counts = {row[0]: int(row[1]) for row in connection.execute(query)}
        return {kind: counts.get(kind, 0) for kind in KINDS}


def load_entries_by_number(connection: Connection, numbers: Sequence[int]) -> list[Entry]:
    """The results of rows with these numbers, in this order; what is damaged is left out."""
    position = {number: i for i, number in enumerate(numbers)}
    rows = connection.execute(select(s.results).where(s.results.c.number.in_(numbers))).all()
    return load_entries(connection, sorted(rows, key=lambda row: position[row.number]))


def stones(units: ColumnElement[bool], target: str | None = None) -> Select[Any]:
    """Number, speedup and unit of each correct result with such a unit, of a task that is not quarantined."""
    r, units_table = s.results.c, s.candidate_units.c
    quarantined = select(s.runs.c.task_id).where(~s.runs.c.admitted)
    query = (
        select(r.number, r.speedup, units_table.unit_id)
        .join_from(s.units, s.candidate_units, s.units.c.id == units_table.unit_id)
        .join(s.results, r.candidate_id == units_table.candidate_id)
        .where(units, r.status == "ok", r.task_id.not_in(quarantined))
    )
    return query if target is None else query.where(r.target == target)


def _speedup(entry: Entry) -> float:
    ratio = entry.result.speedup
    return ratio.median if ratio is not None else 0.0
