"""PostgreSQL as the archive's database: a URL in, a SQLAlchemy engine and plain words for its errors out.

Writers of one archive take turns, as they do on SQLite: a write transaction first takes an advisory lock, which ends with
it, so that what it reads before it writes stays true, on however many machines the others are. A reading transaction sees
one moment of the database (repeatable read). Commits wait for the disk, whatever the server's default is, and the server
ends a transaction whose client fell silent, so that a lost machine holds nobody up
(https://www.postgresql.org/docs/15/explicit-locking.html#ADVISORY-LOCKS).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event

from ..errors import UsageError
from ..places import ArchiveUrl

CHANNEL = "warpsmith_archive"  # hears of every write
LOCK = 0x57415250  # the archive's advisory lock, the same for every writer
BUSY_SECONDS = 30
SILENT_SECONDS = 60  # a transaction that does nothing for so long is ended
CONNECT_SECONDS = 10

SETTINGS = (
    f"SET lock_timeout = '{BUSY_SECONDS}s'",
    f"SET idle_in_transaction_session_timeout = '{SILENT_SECONDS}s'",
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)
# First characters of an SQLSTATE (https://www.postgresql.org/docs/15/errcodes-appendix.html) → what it means here.
MEANINGS = {
    "53100": "cannot be written: the server's disk is full; what was finished before is kept",
    "53300": "cannot be reached: the server has no connection left; try again",
    "55P03": f"is busy: another process has been writing to it for {BUSY_SECONDS} s; try again",
    "25006": "cannot be written: it is read-only; pass a writable --archive",
    "42501": "cannot be used: this user lacks the permission; ask for CREATE on its schema, or pass --archive",
    "28": "refuses this user or password: check the URL, or ~/.pgpass",
    "3D000": "is not there: make the database first (`createdb`), or pass --archive",
    "25P03": "ended a write that stood still; what was finished before is kept",
    "57P": "was shut down meanwhile; what was finished before is kept, the same command goes on",
    "42P01": "is damaged: a table is missing; pass another --archive",
    "23503": "refused a record that refers to one it does not hold",
}


def postgres_engine(url: ArchiveUrl) -> Engine:
    """Raises UsageError where its driver is not installed. Nothing is connected yet."""
    if find_spec("psycopg") is None:
        raise UsageError("a postgresql archive needs its driver: pip install 'warpsmith[postgres]'")
    options = {"connect_timeout": CONNECT_SECONDS, "application_name": "warpsmith"}
    # The server may have been restarted between two results: a dead connection is replaced before it is used.
    engine = create_engine(url.secret, pool_size=2, pool_pre_ping=True, connect_args=options)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def explain_postgres(error: BaseException | None) -> str:
    """Explain what went wrong and what to do, to follow the archive's name."""
    state = getattr(error, "sqlstate", None) or ""
    for start, meaning in MEANINGS.items():
        if state.startswith(start):
            return meaning
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if "password" in lines[0] and "fail" in lines[0]:
        return MEANINGS["28"]
    if 'database "' in lines[0] and "does not exist" in lines[0]:
        return MEANINGS["3D000"]
    if not state and type(error).__name__ in ("OperationalError", "ConnectionTimeout"):
        return f"cannot be reached: {lines[0]}; what was finished before is kept"
    return f"cannot be used: {lines[0]}"


def _prepare(connection: Any, _: Any) -> None:
    connection.autocommit = True
    for setting in SETTINGS:
        connection.execute(setting)
    connection.autocommit = False


def _begin(connection: Connection) -> None:
    if connection.get_execution_options().get("write", False):
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        connection.exec_driver_sql(f"NOTIFY {CHANNEL}")  # sent when the transaction is committed
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
