"""The archive's database, SQLite or PostgreSQL, and every error of it as one clear line.

A place in, transactions out. What the two databases do not share is in `sqlite.py`, `postgres.py` and `migrations.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import Connection, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from ..errors import ArchiveError
from ..places import ArchiveUrl, archive_place
from .postgres import explain_postgres, postgres_engine
from .sqlite import explain_sqlite, sqlite_engine


class Database:
    """An engine whose transactions raise ArchiveError only. `name` is what messages call the archive: no password."""

    def __init__(self, where: Path | ArchiveUrl | str) -> None:
        try:
            self.where: Path | ArchiveUrl = archive_place(where)
        except ValueError as error:
            raise ArchiveError(str(error)) from None
        self.name = str(self.where)
        try:
            at = self.where
            self.engine = postgres_engine(at) if isinstance(at, ArchiveUrl) else sqlite_engine(at)
        except ArgumentError:
            raise ArchiveError(f"{self.name} is no URL of a database: pass --archive") from None

    @property
    def path(self) -> Path:
        """Raises ArchiveError where the archive is no file."""
        if isinstance(self.where, Path):
            return self.where
        raise ArchiveError(f"{self.name} is no file: give a copy of it, made with `warpsmith archive export`")

    @contextmanager
    def transaction(self, write: bool = False) -> Iterator[Connection]:
        """One atomic, durable transaction; nothing of it is kept when the block raises."""
        try:
            with self.engine.connect().execution_options(write=write) as connection, connection.begin():
                yield connection
        except DBAPIError as error:
            raise ArchiveError(f"{self.name} {self.explain(error.orig)}") from error
        except ValidationError as error:
            raise ArchiveError(
                f"{self.name} is damaged ({find_first_problem(error)}): move it away or pass --archive"
            ) from error

    def explain(self, error: BaseException | None) -> str:
        return explain_sqlite(error) if isinstance(self.where, Path) else explain_postgres(error)

    def clock(self, connection: Connection) -> float:
        """Seconds since 1970 by the clock that all who share the archive share: the server's, or this machine's."""
        if isinstance(self.where, Path):
            return time.time()
        return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())

    def close(self) -> None:
        self.engine.dispose()


def find_first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{error.title}.{'.'.join(str(p) for p in problem['loc'])}: {problem['msg']}"
