"""What works now is told by its process and looked up by others; requests reach it and are answered."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from warpsmith.archive import schema as s
from warpsmith.archive.activities import KILLED, MAX_LINES, SILENCE_SECONDS, Activities
from warpsmith.archive.changes import ChangeWatch
from warpsmith.archive.inbox import LATE, Inbox
from warpsmith.archive.rows import ArchiveWarning
from warpsmith.archive.store import now
from warpsmith.records.live import LiveState

BEGIN_AND_DIE = """
import os, signal, sys
from warpsmith.archive import Archive
from warpsmith.archive.activities import Activities
from warpsmith.records.live import LiveState
print(Activities(Archive(sys.argv[1]).database).begin("run", "relu", "cpu", "", LiveState()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def activities(archive):
    return Activities(archive.database)


@pytest.fixture
def inbox(archive):
    return Inbox(archive.database)


def test_an_activity_tells_its_state_and_how_it_ended(activities):
    activity_id = activities.begin("run", "relu", "cpu", "", LiveState(stage="loading"))
    (begun,) = activities.list_open()
    assert (begun.activity_id, begun.state.stage, begun.run_id) == (activity_id, "loading", "")
    assert not activities.is_lost(begun)
    activities.note(
        activity_id, LiveState(stage="searching", judged=3), "run-1", [(now(), "one"), (now(), "two")]
    )
    noted = activities.get(activity_id)
    assert (noted.state.judged, noted.run_id) == (3, "run-1")
    assert noted.seen_at >= begun.seen_at
    activities.end(activity_id, noted.state, "win", [(now(), "three")])
    assert activities.list_open() == []
    (ended,) = activities.list_ended(5)
    assert (ended.ending, ended.run_id) == ("win", "run-1")
    assert [line for _, line in activities.list_lines(activity_id)] == ["one", "two", "three"]


def test_runs_of_a_suite_are_listed_with_it(activities):
    suite = activities.begin("suite", "core", "cpu", "", LiveState(runs=2, waiting=("gelu",)))
    run = activities.begin("run", "relu", "cpu", suite, LiveState(lane=1))
    activities.end(run, LiveState(), "no win")
    assert [a.activity_id for a in activities.list_children(suite)] == [run]
    assert activities.list_ended(5) == []


def test_the_oldest_lines_make_room(activities):
    activity_id = activities.begin("run", "relu", "cpu", "", LiveState())
    for start in (0, MAX_LINES - 10):
        activities.note(
            activity_id, LiveState(), lines=[(now(), f"line {start + i}") for i in range(MAX_LINES - 10)]
        )
    lines = [line for _, line in activities.list_lines(activity_id)]
    assert len(lines) == MAX_LINES
    assert lines[-1] == f"line {2 * MAX_LINES - 21}"


def test_what_a_killed_process_worked_on_is_lost(tmp_path, make):
    from warpsmith.archive import Archive

    path = tmp_path / "a.db"
    child = subprocess.run([sys.executable, "-c", BEGIN_AND_DIE, str(path)], capture_output=True, text=True)
    activities = Activities(Archive(path).database)
    (left_open,) = activities.list_open()
    assert left_open.activity_id == child.stdout.strip()
    assert activities.is_lost(left_open)
    begun = activities.begin("run", "relu", "cpu", "", LiveState())  # which closes it
    assert [a.activity_id for a in activities.list_open()] == [begun]
    assert [a.ending for a in activities.list_ended(5)] == [KILLED]


def test_a_silent_process_of_another_machine_is_lost(activities, archive):
    activities.begin("run", "relu", "cpu", "", LiveState())
    (record,) = activities.list_open()
    elsewhere = record.model_copy(update={"owner": "elsewhere/1.2:77:1.00"})
    assert not activities.is_lost(elsewhere)
    silent = elsewhere.model_copy(update={"seen_at": elsewhere.seen_at - SILENCE_SECONDS - 5})
    assert activities.is_lost(silent)


def test_a_damaged_activity_is_left_out(activities, archive):
    activities.begin("run", "relu", "cpu", "", LiveState())
    with archive.database.transaction(write=True) as connection:
        connection.execute(s.activities.update().values(state="{"))
    with pytest.warns(ArchiveWarning):
        assert activities.list_open() == []


def test_a_request_is_taken_once_and_answered(activities, inbox):
    activity_id = activities.begin("run", "relu", "cpu", "", LiveState())
    number = inbox.ask(activity_id, "pin", {"candidate": "c1"})
    inbox.ask(activity_id, "stop", {})
    first, second = inbox.list_waiting(activity_id, "run-1")
    assert (first.number, first.kind, first.body, second.kind) == (number, "pin", {"candidate": "c1"}, "stop")
    inbox.take(first, "run-1", 2)
    inbox.answer(first, "done", "pinned")
    assert [r.kind for r in inbox.list_waiting(activity_id)] == ["stop"]
    (done,) = inbox.list_taken_before("run-1")
    assert (done.round, done.answer, done.status) == (2, "pinned", "done")
    inbox.close(activity_id)
    assert [(r.status, r.answer) for r in inbox.list_all(activity_id)] == [
        ("done", "pinned"),
        ("refused", LATE),
    ]


def test_a_resumed_run_has_what_its_earlier_process_did_not_take(activities, inbox):
    earlier = activities.begin("run", "relu", "cpu", "", LiveState())
    inbox.ask(earlier, "pin", {"candidate": "c1"}, "run-1")
    later = activities.begin("run", "relu", "cpu", "", LiveState())
    assert [r.kind for r in inbox.list_waiting(later, "run-1")] == ["pin"]
    assert inbox.list_waiting(later, "run-2") == []


def test_a_write_of_anybody_is_noticed_and_a_read_is_not(activities, archive):
    watch = ChangeWatch(archive.database)
    assert watch.notice_change()
    assert not watch.notice_change()
    activities.list_open()
    assert not watch.notice_change()
    activities.begin("run", "relu", "cpu", "", LiveState())
    deadline = time.monotonic() + 5
    while not watch.notice_change():  # a server's notification is on its way for a moment
        assert time.monotonic() < deadline
    assert not watch.notice_change()
    watch.close()
