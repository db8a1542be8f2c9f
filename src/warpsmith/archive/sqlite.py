"""SQLite as the archive's database: a path in, a SQLAlchemy engine and plain words for its errors out.

WAL lets readers and a writer work side by side; a write transaction takes its lock at once (BEGIN
IMMEDIATE), because a read that is later upgraded to a write fails at once when somebody else wrote in
between, whatever the busy timeout says. With `synchronous=FULL` a committed transaction survives kill -9
and power loss (https://sqlite.org/wal.html, https://sqlite.org/pragma.html).
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from ..errors import ArchiveError

BUSY_SECONDS = 30


def sqlite_engine(path: Path) -> Engine:
    """Raises ArchiveError where the file's folder cannot be made."""
    _make_folder(path)
    # Connections stay open: closing the last one makes SQLite write its log back: two fsyncs a result.
    options = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    engine = create_engine(f"sqlite:///{path}", poolclass=QueuePool, pool_size=2, connect_args=options)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def explain_sqlite(error: BaseException | None) -> str:
    """Explain what went wrong and what to do, to follow the archive's name."""
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
    if "no such module" in message:
        return "needs a Python whose SQLite has full-text search (FTS5): this one's has not"
    if "malformed" in message or "no such" in message:
        return "is damaged: move it away or pass --archive"
    if "FOREIGN KEY" in message:
        return "refused a record that refers to one it does not hold"
    return f"cannot be used: {message}"


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArchiveError(
            f"cannot make the archive's folder {path.parent}: {error.strerror}; pass --archive, or set WARPSMITH_ARCHIVE or "
            "XDG_DATA_HOME, to where one can be written"
        ) from error
    if path.is_dir():
        raise ArchiveError(f"{path} is a folder: pass a file to --archive")


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
