"""What is no archiveor unusable is refused in one line; an older one is upgraded, losing nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import event, inspect

from warpsmith.archive import Archive, schema
from warpsmith.archive.engine import Database
from warpsmith.archive.migrations import STEPS, migrate
from warpsmith.errors import ArchiveError


@pytest.fixture
def where(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


def refusal(path: Path) -> str:
    with pytest.raises(ArchiveError) as caught:
        Archive(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("just some notes, long enough to be taken for a header of a database file, or not" * 9)
    before = path.read_bytes()
    assert "is not a warpsmith archive: move it away or pass --archive" in refusal(path)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused(tmp_path: Path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE meta (a, b)")
    assert "is not a warpsmith archive" in refusal(path)


def test_a_damaged_archive_is_refused(begun, make):
    archive = begun()
    for n in range(60):
        candidate = make.candidate(n)
        archive.add_result("run-1", candidate, make.ok(candidate))
    with sqlite3.connect(archive.path) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(archive.path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    archive.path.write_bytes(data)
    with pytest.raises(ArchiveError, match="is damaged: move it away or pass --archive"):
        Archive(archive.path).results(make.task.id, "cpu")


def test_a_folder_and_an_impossible_place_are_refused(tmp_path: Path):
    assert "is a folder" in refusal(tmp_path)
    (tmp_path / "file").write_text("")
    assert "cannot make the archive's folder" in refusal(tmp_path / "file" / "a.db")
    assert "pass --archive" in refusal(tmp_path / "file" / "a.db")
    assert "cannot" in refusal(Path("/proc/warpsmith.db"))


def test_a_full_disk_is_one_line_and_keeps_what_was_finished(begun, make):
    archive = begun()
    pages = sqlite3.connect(archive.path).execute("PRAGMA page_count").fetchone()[0]
    kept, failure = 0, None

    event.listen(
        archive.database.engine, "connect", lambda c, _: c.execute(f"PRAGMA max_page_count = {pages + 8}")
    )
    archive.close()  # so that the next connection is a new one
    for n in range(200):
        candidate = make.candidate(n)
        try:
            archive.add_result("run-1", candidate, make.ok(candidate))
        except ArchiveError as error:
            failure = str(error)
            break
        kept += 1
    assert failure is not None
    assert "the disk is full; what was finished before is kept" in failure
    assert len(Archive(archive.path).run_entries("run-1")) == kept > 0


def test_a_read_only_archive_is_one_line(begun, make):
    archive = begun()

    event.listen(archive.database.engine, "connect", lambda c, _: c.execute("PRAGMA query_only = ON"))
    archive.close()
    with pytest.raises(ArchiveError, match="it is read-only; pass a writable --archive"):
        archive.add_candidate(make.candidate())


def test_a_newer_archive_is_refused(archive):
    with sqlite3.connect(archive.path) as raw:
        raw.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    assert "newer warpsmith (schema 99" in refusal(archive.path)


def test_an_older_archive_is_upgraded_in_place(begun, make):
    archive = begun()
    steps = (*STEPS, ("ALTER TABLE tasks ADD COLUMN colour VARCHAR NOT NULL DEFAULT 'blue'",))
    for expected in (len(STEPS), len(steps)):  # the second time there is nothing left to do
        with archive.database.transaction(write=True) as connection:
            assert migrate(connection, "a.db", steps) == expected
    with sqlite3.connect(archive.path) as raw:
        assert raw.execute("SELECT name, colour FROM tasks").fetchall() == [("relu", "blue")]


def test_a_failing_step_leaves_the_archive_as_it_was(begun):
    archive = begun()
    steps = (*STEPS, ("ALTER TABLE tasks ADD COLUMN colour VARCHAR", "DROP TABLE nowhere"))
    with pytest.raises(ArchiveError), archive.database.transaction(write=True) as connection:
        migrate(connection, "a.db", steps)
    assert Archive(archive.path).run("run-1").task_name == "relu"
    with sqlite3.connect(archive.path) as raw:
        assert "colour" not in [row[1] for row in raw.execute("PRAGMA table_info(tasks)")]


def test_the_migrations_make_the_tables_that_queries_expect(archive):
    found = inspect(archive.database.engine)
    tables = {name for name in found.get_table_names() if not name.startswith("unit_search")}
    assert tables == set(schema.metadata.tables)
    for name, table in schema.metadata.tables.items():
        made = {c["name"]: (type(c["type"]).__name__.upper(), c["nullable"]) for c in found.get_columns(name)}
        names = {"STRING": "VARCHAR"}
        wanted = {
            c.name: names.get(type(c.type).__name__.upper(), type(c.type).__name__.upper()) for c in table.c
        }
        assert {n: t for n, (t, _) in made.items()} == wanted
        assert made.keys() == {c.name for c in table.c}
        assert set(found.get_pk_constraint(name)["constrained_columns"]) == {
            c.name for c in table.primary_key
        }


def test_a_busy_archive_says_so(tmp_path: Path):
    database = Database(tmp_path / "x.db")
    assert "another process has been writing" in database.explain(
        sqlite3.OperationalError("database is locked")
    )
    assert database.name.endswith("x.db")
