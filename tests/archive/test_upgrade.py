"""Files of earlier versions open, keep everything, and are found by what later versions look for."""

from __future__ import annotations

import sqlite3

import pytest
from old_versions import write_old_archive
from sqlalchemy import inspect, text

from warpsmith.archive import Archive
from warpsmith.archive import schema as s
from warpsmith.archive.engine import Database
from warpsmith.archive.exemplars import find_sound_entries
from warpsmith.archive.migrations import STEPS, migrate, translate_statement
from warpsmith.archive.rows import keep_candidate, keep_task, result_columns
from warpsmith.archive.text_index import INSERT
from warpsmith.records import Unit


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_file_gets_what_is_new_of_its_rows(tmp_path, make, version):
    path = tmp_path / "old.db"
    write_old_archive(path, make, version)
    archive = Archive(path)
    (entry,) = archive.run_entries("old")
    assert entry.candidate == make.candidate(1)
    assert [e.result.id for e in archive.find("version relu")] == [entry.result.id]  # its words were indexed
    assert len(find_sound_entries(archive, "relu|f32|r2", "cpu", before="2024-01-02")) == 1
    assert (
        find_sound_entries(archive, "relu|f32|r2", "cpu", before="2024-01-01") == []
    )  # when it was judged is known
    assert archive.kind_counts()["stones"] == 1
    with archive.database.transaction() as connection:
        assert connection.exec_driver_sql("SELECT admitted, seen_at FROM runs").one() == (1, 0.0)


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_files_quarantine_holds(tmp_path, make, version):
    path = tmp_path / "old.db"
    write_old_archive(path, make, version, quarantined=True)
    assert Archive(path).kind_counts() == {
        "winners": 0,
        "stones": 0,
        "screened": 0,
        "quarantined": 1,
        "failed": 0,
    }


def test_an_older_file_with_a_damaged_row_is_upgraded(tmp_path, make):
    path = tmp_path / "old.db"
    write_old_archive(path, make, 2)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE results SET record = '{'")
        raw.execute("UPDATE units SET record = '{'")
    archive = Archive(path)
    assert archive.run("old").task_name == "relu"
    assert archive.find("relu") == []


def test_an_upgraded_file_has_the_schema_of_a_new_one(tmp_path, make):
    write_old_archive(tmp_path / "old.db", make, 1)
    shapes = []
    for name in ("old.db", "new.db"):
        found = inspect(Archive(tmp_path / name).database.engine)
        tables = {t: {c["name"] for c in found.get_columns(t)} for t in found.get_table_names()}
        indexes = {i["name"] for t in found.get_table_names() for i in found.get_indexes(t)}
        shapes.append((tables, indexes, set(found.get_view_names())))
    assert shapes[0] == shapes[1]
    assert len(STEPS) >= 3


def test_units_of_an_older_archive_are_indexed_by_todays_names(where, make):
    candidate = make.candidate(1)
    unit = candidate.units[0].model_copy(update={"family": "convolution", "technique": "flat"})
    candidate = candidate.model_copy(update={"units": (Unit.model_validate_json(unit.model_dump_json()),)})
    database = Database(where)
    with database.transaction(write=True) as connection:
        migrate(connection, database.name, STEPS[:4])
        keep_task(connection, make.task)
        keep_candidate(connection, candidate)
        connection.execute(s.results.insert().values(id="r", **result_columns(make.ok(candidate), "local")))
        clear = STEPS[4][0]
        connection.exec_driver_sql(translate_statement(clear, connection.dialect.name))
        words = {"number": 1, "words": "flat relu"}  # as an earlier version indexed it
        connection.execute(text(INSERT[connection.dialect.name]), words)
    database.close()
    archive = Archive(where)
    (entry,) = archive.find("warp specialized")
    assert entry.candidate == candidate
    assert [u.technique for u in entry.candidate.units] == ["implicit-gemm-warp-specialized"]
    archive.close()
