"""Runs that another machine played for this archive, made its own, or no longer its own.

In: a run that was imported, or that a worker wrote. Out: the same rows with another origin. *Local* is what this archive's judges
judged: it can be a winner, and a finished run is not played again. *Imported* is at best a stone. Whoever calls has decided
which of the two it is.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select, update

from ..errors import ArchiveError
from ..records import RunSummary
from . import schema as s
from .entries import Origin
from .store import Archive, now


def adopt_run(archive: Archive, run_id: str, without: Collection[str] = ()) -> None:
    """Count a run and its results as judged by this archive's own judges; the results `without`, by id, as imported."""
    _change_origin(archive, run_id, "local", without)


def mark_imported(archive: Archive, run_id: str) -> None:
    """Count a run and its results as imported: nothing that it judged is a winner any more."""
    _change_origin(archive, run_id, "imported", ())


def _change_origin(archive: Archive, run_id: str, origin: Origin, without: Collection[str]) -> None:
    placed = select(s.run_results.c.result_number).where(
        s.run_results.c.run_id == run_id, s.run_results.c.kind != "reused"
    )
    judged = update(s.results).where(s.results.c.number.in_(placed))
    with archive.database.transaction(write=True) as connection:
        connection.execute(judged.values(origin=origin))
        connection.execute(judged.where(s.results.c.id.in_(tuple(without))).values(origin="imported"))
        connection.execute(update(s.runs).where(s.runs.c.id == run_id).values(origin=origin, owner=""))


def reject_run(archive: Archive, run_id: str) -> None:
    """Count nothing of a run that was written here: its results are imported, and it has no summary by which it would be taken for
    finished.
    """
    mark_imported(archive, run_id)
    with archive.database.transaction(write=True) as connection:
        connection.execute(update(s.runs).where(s.runs.c.id == run_id).values(summary=""))


def settle_run(archive: Archive, summary: RunSummary) -> None:
    """Give a run that another process played its summary: the first, or a corrected one. Raises ArchiveError where there is none."""
    with archive.database.transaction(write=True) as connection:
        finished_at = connection.execute(
            select(s.runs.c.finished_at).where(s.runs.c.id == summary.run_id)
        ).scalar()
        if finished_at is None:
            raise ArchiveError(f"no run {summary.run_id} in {archive.name}")
        values = {"summary": summary.model_dump_json(), "finished_at": finished_at or now()}
        connection.execute(update(s.runs).where(s.runs.c.id == summary.run_id).values(**values))


def release_runs_of(archive: Archive, owner: str) -> None:
    """Give up the unfinished runs of a process that is known to be lost, so that another may take them at once. `owner`: how its
    name begins, host and process id.
    """
    unfinished = (s.runs.c.finished_at == "") & s.runs.c.owner.startswith(owner, autoescape=True)
    with archive.database.transaction(write=True) as connection:
        connection.execute(update(s.runs).where(unfinished).values(owner=""))
