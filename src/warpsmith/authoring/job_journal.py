"""The journal of authors' jobs, an SQLite file beside the archive: every change of a job is one durable transaction.

In: jobs, who asked for them, and what of the archive belongs to which client. Out: the same, after a kill too. A job that was under way
when its process ended belongs to nobody: the next service on this archive takes it over, of two services at once one only.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ..archive.owner import is_gone, this_process
from ..errors import ArchiveError
from ..places import ArchivePlace, ArchiveUrl
from .jobs import ENDED, JobView

OwnedKind = Literal["candidate", "source", "task"]
EVERYBODY = "*"  # the owner of what its author shares
BUSY_SECONDS = 20.0  # that a writer waits for another
KEPT_JOBS = 5000  # that have ended; older ones are dropped
SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
  id TEXT PRIMARY KEY, owner TEXT NOT NULL, runner TEXT NOT NULL, state TEXT NOT NULL, number INTEGER NOT NULL, target TEXT NOT NULL,
  request_key TEXT NOT NULL,  record TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS jobs_by_owner ON jobs (owner, number);
CREATE UNIQUE INDEX IF NOT EXISTS jobs_by_key ON jobs (owner, request_key) WHERE request_key != '';
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, number);
CREATE TABLE IF NOT EXISTS owned (kind TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (kind, id, owner));
"""


def find_journal(archive: ArchivePlace, cache: Path) -> Path:
    """Return the place of an archive's journal: beside a file; in the cache for a database elsewhere."""
    if isinstance(archive, ArchiveUrl):
        return cache / f"jobs-{hashlib.sha256(str(archive).encode()).hexdigest()[:16]}.db"
    return archive.with_name(f"{archive.name}.jobs")


class JobJournal:
    """Safe to use from several threads and processes. Raises ArchiveError where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)  # it holds what clients may hide from each other
            self._database = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")
            self._database.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise ArchiveError(f"the journal of jobs {path} cannot be used: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def add(self, job: JobView, owner: str, key: str = "") -> JobView:
        """Keep a new job of this process; return it, or the one that its owner asked for with this key before."""
        with self._transaction() as database:
            query = "SELECT record FROM jobs WHERE owner = ? AND request_key = ? AND request_key != ''"
            earlier = database.execute(query, (owner, key)).fetchone()
            if earlier is not None:
                return JobView.model_validate_json(earlier[0])
            number = database.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM jobs").fetchone()[0]
            row = (
                job.job_id,
                owner,
                this_process(),
                job.state,
                number,
                job.target,
                key,
                job.model_dump_json(),
            )
            database.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            oldest = number - KEPT_JOBS
            database.execute(f"DELETE FROM jobs WHERE number <= ? AND state IN {ENDED}", (oldest,))
        return job

    def change(self, job: JobView) -> None:
        with self._transaction() as database:
            row = (job.state, job.model_dump_json(), job.job_id)
            database.execute("UPDATE jobs SET state = ?, record = ? WHERE id = ?", row)

    def get(self, job_id: str) -> tuple[JobView, str] | None:
        """Return a job and its owner."""
        with self._transaction() as database:
            row = database.execute("SELECT record, owner FROM jobs WHERE id = ?", (job_id,)).fetchone()
        return (JobView.model_validate_json(row[0]), str(row[1])) if row is not None else None

    def list_jobs(self, owner: str | None, most: int) -> list[JobView]:
        """List the newest jobs of an owner (None: of all), newest first."""
        where, values = ("", ()) if owner is None else ("WHERE owner = ?", (owner,))
        with self._transaction() as database:
            rows = database.execute(
                f"SELECT record FROM jobs {where} ORDER BY number DESC LIMIT ?", (*values, most)
            ).fetchall()
        return [JobView.model_validate_json(row[0]) for row in rows]

    def count_waiting(self, owner: str) -> int:
        """Count an owner's jobs that have not ended."""
        query = f"SELECT COUNT(*) FROM jobs WHERE owner = ? AND state NOT IN {ENDED}"
        with self._transaction() as database:
            return int(database.execute(query, (owner,)).fetchone()[0])

    def take_over(self, target: str) -> list[JobView]:
        """Take jobs over whose process has ended before they had, oldest first."""
        query = (
            f"SELECT id, runner, record FROM jobs WHERE target = ? AND state NOT IN {ENDED} ORDER BY number"
        )
        with self._transaction() as database:
            rows = [row for row in database.execute(query, (target,)).fetchall() if is_gone(row[1])]
            for row in rows:
                database.execute("UPDATE jobs SET runner = ? WHERE id = ?", (this_process(), row[0]))
        return [JobView.model_validate_json(row[2]) for row in rows]

    # -- what belongs to whom ----------------------------------------------------------------------

    def own(self, kind: OwnedKind, ids: Sequence[str], owner: str) -> None:
        with self._transaction() as database:
            for item in ids:
                database.execute("INSERT OR IGNORE INTO owned VALUES (?, ?, ?)", (kind, item, owner))

    def list_hidden(self, kind: OwnedKind, owner: str) -> frozenset[str]:
        """List what belongs to others only, and to somebody: it is not shown to this owner. Nothing is hidden from the operator ("")."""
        if not owner:
            return frozenset()
        query = "SELECT DISTINCT id FROM owned WHERE kind = ? AND id NOT IN (SELECT id FROM owned WHERE kind = ? AND owner IN (?, ?))"
        with self._transaction() as database:
            rows = database.execute(query, (kind, kind, owner, EVERYBODY)).fetchall()
        return frozenset(str(row[0]) for row in rows)

    def list_owners(self, kind: OwnedKind, item: str) -> list[str]:
        """List to whom it belongs; empty: to nobody, so that everybody sees it."""
        with self._transaction() as database:
            query = "SELECT owner FROM owned WHERE kind = ? AND id = ?"
            return [str(row[0]) for row in database.execute(query, (kind, item)).fetchall()]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield self._database
                self._database.execute("COMMIT")
            except sqlite3.Error as error:
                raise ArchiveError(f"the journal of jobs {self.path} cannot be used: {error}") from error
            finally:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
