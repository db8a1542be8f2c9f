"""Opens the archive's SQLite file and turns every database error into one clear line.

WAL lets readers and a writer work side by side; a write transaction takes its lock at once (BEGIN
IMMEDIATE), because a read that is later upgraded to a write fails at once when somebody else wrote in
between, whatever the busy timeout says. With `synchronous=FULL` a committed transaction survives kill -9
and power loss (https://sqlite.org/wal.html, https://sqlite.org/pragma.html).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from ..errors import ArchiveError

BUSY_SECONDS = 30


class Database:
    """An engine whose transactions raise ArchiveError only. `name` is what messages call the archive."""

    def __init__(self, where: Path | str) -> None:
        text = str(where)
        if "://" in text and not text.startswith("sqlite:///"):
            raise ArchiveError(
                f"{text.split('://')[0]} archives are not supported: pass a file path or sqlite:///path"
            )
        self.path = Path(text.removeprefix("sqlite:///"))
        self.name = str(self.path)
        self._make_folder()
        self.engine = _engine(self.path)

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArchiveError(
                f"cannot make the archive's folder {self.path.parent}: {error.strerror}"
            ) from error
        if self.path.is_dir():
            raise ArchiveError(f"{self.name} is a folder: pass a file to --archive")

    @contextmanager
    def transaction(self, write: bool = False) -> Iterator[Connection]:
        """One atomic, durable transaction; nothing of it is kept when the block raises."""
        try:
            with self.engine.connect().execution_options(write=write) as connection, connection.begin():
                yield connection
        except DBAPIError as error:
            raise ArchiveError(f"{self.name} {explain(error.orig)}") from error
        except ValidationError as error:
            raise ArchiveError(
                f"{self.name} is damaged ({_first(error)}): move it away or pass --archive"
            ) from error

    def close(self) -> None:
        self.engine.dispose()


def explain(error: BaseException | None) -> str:
    """What went wrong and what to do, to follow the archive's name."""
    message = str(error)
    if "locked" in message or "busy" in message:
        return f"is busy: another process has been writing to it for {BUSY_SECONDS} s; try again"
    if "full" in message:
        return "cannot be written: the disk is full; what was finished before is kept"
    if "readonly" in message or "read-only" in message:
        return "cannot be written: it is read-only; pass a writable --archive"
    if "unable to open" in message:
        return "cannot be opened or created there: check the folder's permissions or pass --archive"
    if "not a database" in message:
        return "is not a warpsmith archive: move it away or pass --archive"
    if "disk I/O" in message:
        return "cannot be read or written (disk I/O error); what was finished before is kept"
    if "malformed" in message or "no such" in message:
        return "is damaged: move it away or pass --archive"
    if "FOREIGN KEY" in message:
        return "refused a record that refers to one it does not hold"
    return f"cannot be used: {message}"


def _engine(path: Path) -> Engine:
    # Connections stay open: closing the last one makes SQLite write its log back: two fsyncs a result.
    options = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    engine = create_engine(f"sqlite:///{path}", poolclass=QueuePool, pool_size=2, connect_args=options)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun by `_begin`, not by the driver
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """The switch needs the file for itself and does not honour the busy timeout."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{error.title}.{'.'.join(str(p) for p in problem['loc'])}: {problem['msg']}"
