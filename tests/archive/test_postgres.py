"""An archive on PostgreSQL: what goes wrong is one line, writers take turns, nothing else is taken for an archive."""

from __future__ import annotations

import threading
from importlib import util

import pytest
from sqlalchemy import inspect

from warpsmith.archive import Archive, postgres, schema
from warpsmith.archive.migrations import STEPS
from warpsmith.archive.owner import this_process
from warpsmith.config import Config
from warpsmith.errors import ArchiveError, UsageError


def refusal(url: str) -> str:
    with pytest.raises(ArchiveError) as caught:
        Archive(url)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_its_driver_an_archive_is_refused_before_anything_is_done(monkeypatch):
    monkeypatch.setattr(postgres, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'warpsmith\[postgres\]'") as caught:
        Archive("postgresql://db/kernels")
    assert caught.value.exit_code == 2
    assert util.find_spec("sqlalchemy")


def test_a_database_that_is_not_there_says_so(server):
    assert "is not there: make the database first" in refusal(server.url("nowhere"))


def test_a_wrong_password_is_not_quoted(server):
    server.sql("CREATE ROLE ann LOGIN PASSWORD 'right'")
    hba = server.folder / "data" / "pg_hba.conf"
    before = hba.read_text()
    try:
        hba.write_text(f"local all ann scram-sha-256\n{before}")
        server.sql("SELECT pg_reload_conf()")
        text = refusal(f"postgresql://ann:CANARY@/postgres?host={server.folder}")
        assert "refuses this user or password" in text
        assert "CANARY" not in text
    finally:
        hba.write_text(before)
        server.sql("SELECT pg_reload_conf()")


def test_a_user_without_permission_is_one_line(server, postgres_url):
    Archive(postgres_url).close()
    server.sql("CREATE ROLE bob LOGIN")
    assert "lacks the permission" in refusal(postgres_url.replace("ws@", "bob@"))


def test_another_programs_database_is_refused_and_left_as_it_is(server, postgres_url):
    name = postgres_url.partition("@/")[2].partition("?")[0]
    server.sql("CREATE TABLE invoices (id int)", name)
    assert "is not a warpsmith archive" in refusal(postgres_url)
    assert server.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name) == "1"


def test_an_archive_may_have_a_schema_of_its_own_beside_other_tables(server, postgres_url, make):
    name = postgres_url.partition("@/")[2].partition("?")[0]
    server.sql("CREATE TABLE invoices (id int); CREATE SCHEMA ours", name)
    url = f"{postgres_url}&options=-csearch_path%3Dours"
    archive = Archive(url)
    archive.add_task(make.task)
    archive.add_result(None, make.candidate(), make.ok(make.candidate()))
    archive.close()
    again = Archive(url)
    assert len(again.find("version")) == 1
    again.close()
    assert server.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name) == "1"


def test_a_newer_archive_is_refused(postgres_url, server):
    Archive(postgres_url).close()
    name = postgres_url.partition("@/")[2].partition("?")[0]
    server.sql("UPDATE meta SET value = '99' WHERE key = 'schema_version'", name)
    assert "newer warpsmith (schema 99" in refusal(postgres_url)


def test_the_same_steps_make_the_same_tables(postgres_url, tmp_path):
    found = [inspect(Archive(where).database.engine) for where in (postgres_url, tmp_path / "a.db")]
    tables = [{t for t in one.get_table_names() if not t.startswith("unit_search")} for one in found]
    assert tables[0] == tables[1] == set(schema.metadata.tables)
    for table in tables[0]:
        columns = [{c["name"]: c["nullable"] for c in one.get_columns(table)} for one in found]
        assert columns[0].keys() == columns[1].keys() == {c.name for c in schema.metadata.tables[table].c}
        names = [{i["name"] for i in one.get_indexes(table) if i["name"].startswith("ix_")} for one in found]
        assert names[0] == names[1]
    assert len({frozenset(one.get_view_names()) for one in found}) == 1
    assert len(STEPS) >= 3


def test_text_has_the_order_of_its_bytes(postgres_url, make):
    """As in SQLite: a server's language must not decide which run is the latest, or which signature comes first."""
    archive = Archive(postgres_url)
    for n, signature in enumerate(("b", "B", "_", "a")):
        candidate = make.candidate(n, signature=signature)
        archive.add_task(make.task)
        archive.add_result(None, candidate, make.ok(candidate))
    with archive.database.transaction() as connection:
        found = connection.exec_driver_sql("SELECT signature FROM units ORDER BY signature").scalars().all()
    assert found == ["B", "_", "a", "b"]
    archive.close()


def test_a_writer_waits_for_the_one_before_it_and_no_longer_than_it_may(postgres_url, make, monkeypatch):
    monkeypatch.setattr(postgres, "SETTINGS", ("SET lock_timeout = '300ms'",))
    first, second = Archive(postgres_url), Archive(postgres_url)
    with first.database.transaction(write=True):
        with pytest.raises(ArchiveError, match="is busy: another process has been writing"):
            second.add_task(make.task)
        assert second.runs() == []  # readers do not wait
    second.add_task(make.task)
    for archive in (first, second):
        archive.close()


def test_two_machines_number_one_runs_results_without_gaps(postgres_url, make):
    """Each reads the last number before it writes the next: without turns both would read the same."""
    archives = [Archive(postgres_url) for _ in range(4)]
    archives[0].begin_run("run-1", make.task, "cpu", 7, {}, make.environment)

    def write(part: int) -> None:
        for n in range(part, 40, 4):
            archives[part].add_result("run-1", make.candidate(n), make.ok(make.candidate(n)))

    threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = archives[0].run_entries("run-1")
    assert [e.number for e in entries] == list(range(1, 41))
    assert len({e.candidate.id for e in entries}) == 40
    for archive in archives:
        archive.close()


def test_commits_wait_for_the_disk_whatever_the_server_does_by_default(server, postgres_url):
    server.sql("ALTER ROLE ws SET synchronous_commit = off")
    try:
        archive = Archive(postgres_url)
        with archive.database.transaction() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        archive.close()
    finally:
        server.sql("ALTER ROLE ws RESET synchronous_commit")


def test_the_lease_goes_by_the_servers_clock(postgres_url, make, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 5.0)
    archive = Archive(postgres_url)
    archive.begin_run("run-1", make.task, "cpu", 7, {}, make.environment)
    with archive.database.transaction() as connection:
        seen, owner = connection.exec_driver_sql("SELECT seen_at, owner FROM runs").one()
    assert seen > 1.7e9
    assert owner == this_process()
    archive.close()


def test_a_runs_settings_hold_no_password(postgres_url, make):
    config = Config(archive=postgres_url.replace("ws@", "ws:CANARY@"))
    archive = Archive(config.archive)  # the server trusts its socket
    archive.begin_run("run-1", make.task, "cpu", 7, {"config": config.identity()}, make.environment)
    run = archive.run("run-1")
    assert run.config["config"]["archive"] == archive.name
    assert "CANARY" not in run.model_dump_json()
    archive.close()
