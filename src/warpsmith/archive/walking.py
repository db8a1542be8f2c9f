"""Every result of an archive with what it refers to, for whoever writes all of it down: a page at a time, so that memory
does not grow with the archive.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select

from . import schema as s
from .entries import Entry
from .incoming import PlacedResult
from .reading import ArchiveReader
from .rows import load_entries

PAGE = 500  # results read at once


def every_entry(archive: ArchiveReader) -> Iterator[tuple[str, Entry]]:
    """(result id, result with its candidate and hypothesis), in the order in which they came in. The id is that of the
    result where it was judged: what was imported has lost the paths of its builds.
    """
    after = 0
    while True:
        query = select(s.results).where(s.results.c.number > after).order_by(s.results.c.number).limit(PAGE)
        with archive.database.transaction() as connection:
            rows = connection.execute(query).all()
            entries = [
                (row.id, entry) for row, entry in zip(rows, load_entries(connection, rows), strict=False)
            ]
            if len(entries) < len(rows):  # a damaged row was left out: which one, the rows one by one tell
                entries = [(row.id, entry) for row in rows for entry in load_entries(connection, [row])]
        yield from entries
        if len(rows) < PAGE:
            return
        after = rows[-1].number


def list_judged_tasks(archive: ArchiveReader) -> list[tuple[str, str]]:
    """(task id, target) of everything that has a result, by the task's name."""
    r, tasks = s.results.c, s.tasks.c
    query = select(tasks.name, r.task_id, r.target).join(s.tasks, tasks.id == r.task_id).distinct()
    with archive.database.transaction() as connection:
        rows = connection.execute(query.order_by(tasks.name, r.task_id, r.target)).all()
    return [(row.task_id, row.target) for row in rows]


def every_place(connection: Connection, run_id: str | None = None) -> Iterator[PlacedResult]:
    """Yield the place of each result in each run, or in this run, run by run."""
    p = s.run_results.c
    query = select(p.run_id, p.number, s.results.c.id.label("result"), p.kind, p.elapsed)
    query = query.join(s.results, s.results.c.number == p.result_number).order_by(p.run_id, p.number)
    if run_id is not None:
        query = query.where(p.run_id == run_id)
    for row in connection.execute(query):
        yield PlacedResult(
            run_id=row.run_id, number=row.number, result=row.result, kind=row.kind, elapsed=row.elapsed
        )


def list_tasks(archive: ArchiveReader) -> list[tuple[str, str]]:
    """(task id, name) of every task, by name."""
    with archive.database.transaction() as connection:
        rows = connection.execute(select(s.tasks.c.id, s.tasks.c.name).order_by(s.tasks.c.name, s.tasks.c.id))
        return [(row.id, row.name) for row in rows]


def list_entries_without_run(archive: ArchiveReader, task_id: str) -> list[Entry]:
    """Results of a task that no run asked for, as a judge's, oldest first."""
    r = s.results.c
    placed = select(s.run_results.c.result_number).where(s.run_results.c.result_number == r.number)
    return archive.entries(select(s.results).where(r.task_id == task_id, ~placed.exists()).order_by(r.number))
