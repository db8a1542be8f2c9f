"""A run has one process: a live one keeps it, one that is gone gives it up, and whoever lost it cannot write to it."""

from __future__ import annotations

import pytest

from warpsmith.archive import Archive
from warpsmith.archive.owner import LEASE_SECONDS, is_gone, this_host, this_process
from warpsmith.archive.store import config_key
from warpsmith.errors import ArchiveError
from warpsmith.records import RunSummary

ELSEWHERE = "node7/0badcafe.4026531836:123:1700000000.00"
KEY = config_key({"budget": 60})


@pytest.fixture
def elsewhere(begun, sql):
    """A run that a process of another machine has just written to."""
    archive = begun()
    sql(f"UPDATE runs SET owner = '{ELSEWHERE}'")
    return archive


def test_a_process_of_this_machine_is_asked_for_directly():
    assert not is_gone(this_process(), silent=10 * LEASE_SECONDS)
    assert is_gone(f"{this_host()}:4194304:1.00")
    assert is_gone(f"{this_process().rpartition(':')[0]}:1.00")  # the same pid, another process
    assert is_gone("")


def test_a_process_of_another_machine_is_gone_when_its_lease_ran_out():
    assert not is_gone(ELSEWHERE, silent=LEASE_SECONDS - 1)
    assert is_gone(ELSEWHERE, silent=LEASE_SECONDS + 1)


def test_a_silent_run_of_another_machine_is_taken_over_once(elsewhere, make, sql):
    ask = (make.task.id, "cpu", KEY)
    assert elsewhere.take_unfinished_run(*ask) is None  # it wrote a moment ago
    sql(f"UPDATE runs SET seen_at = seen_at - {LEASE_SECONDS + 60}")
    assert elsewhere.take_unfinished_run(*ask).run_id == "run-1"
    assert elsewhere.take_unfinished_run(*ask) is None


def test_every_write_of_a_run_renews_its_lease(begun, make, sql):
    archive, candidate = begun(), make.candidate()
    for write in (
        lambda: archive.add_result("run-1", candidate, make.ok(candidate)),
        lambda: archive.note_run("run-1", baselines=[]),
    ):
        sql("UPDATE runs SET seen_at = 5")
        write()
        assert sql("SELECT seen_at FROM runs")[0][0] > 1.7e9


def test_who_lost_a_run_cannot_write_to_it(begun, make, sql):
    archive, candidate = begun(), make.candidate()
    sql(f"UPDATE runs SET owner = '{ELSEWHERE}'")
    writes = (
        lambda: archive.add_result("run-1", candidate, make.ok(candidate)),
        lambda: archive.note_run("run-1", baselines=[]),
        lambda: archive.finish_run(RunSummary(run_id="run-1", task="relu", target="cpu", status="no-win")),
        lambda: archive.release_run("run-1"),
    )
    for write in writes:
        with pytest.raises(ArchiveError, match="run run-1 was taken over by another process"):
            write()
    assert archive.run_entries("run-1") == []
    assert archive.candidate(candidate.id) is None  # all of it or nothing


def test_a_run_whose_owner_has_the_name_of_an_earlier_version_is_asked_for_here(begun, make, sql):
    archive = begun()
    host, pid, started = this_process().rsplit(":", 2)
    sql(f"UPDATE runs SET owner = '{host.partition('/')[0]}:{pid}:{started}'")
    assert archive.take_unfinished_run(make.task.id, "cpu", KEY) is None


def test_two_archives_at_once_get_a_run_once(begun, make, where):
    begun().release_run("run-1")
    others = [Archive(where), Archive(where)]
    got = [a.take_unfinished_run(make.task.id, "cpu", KEY) for a in others]
    assert [run is not None for run in got] == [True, False]
    for other in others:
        other.close()
