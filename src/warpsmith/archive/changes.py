"""Tells when anybody wrote to an archive, without reading it.

SQLite counts the commits of others in a header that every connection sees (`PRAGMA data_version`,
https://sqlite.org/pragma.html#pragma_data_version); PostgreSQL sends a notification with every write (`postgres.CHANNEL`). Only after
either is there anything to query.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError

from ..errors import ArchiveError
from ..places import ArchiveUrl
from .engine import Database
from .postgres import CHANNEL

LISTEN_SECONDS = 0.01  # for notifications that are on their way


class ChangeWatch:
    """Usable in one thread at a time. Raises ArchiveError."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._watch: _SqliteWatch | _PostgresWatch | None = None

    def notice_change(self) -> bool:
        """Return whether anybody wrote since the last call; True at the first, and after the connection was lost."""
        try:
            if self._watch is None:
                where = self._database.where
                self._watch = _SqliteWatch(where) if isinstance(where, Path) else _PostgresWatch(where)
                return True
            return self._watch.notice_change()
        except _ERRORS as error:
            self.close()
            raise ArchiveError(f"{self._database.name} {self._database.explain(error)}") from error

    def close(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()


class _SqliteWatch:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._version = self._read()

    def notice_change(self) -> bool:
        before, self._version = self._version, self._read()
        return self._version != before

    def _read(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        self._connection.close()


class _PostgresWatch:
    def __init__(self, url: ArchiveUrl) -> None:
        import psycopg

        address = url.secret.replace("postgresql+psycopg://", "postgresql://", 1)
        self._connection: Any = psycopg.connect(address, autocommit=True, application_name="warpsmith")
        self._connection.execute(f"LISTEN {CHANNEL}")

    def notice_change(self) -> bool:
        return len(list(self._connection.notifies(timeout=LISTEN_SECONDS))) > 0

    def close(self) -> None:
        self._connection.close()


def _list_errors() -> tuple[type[Exception], ...]:
    try:
        import psycopg
    except ImportError:
        return (sqlite3.Error, DBAPIError)
    return (sqlite3.Error, DBAPIError, psycopg.Error)


_ERRORS = _list_errors()
