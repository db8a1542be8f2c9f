"""What works tells the archive of itself, hears a stop, and never fails because of that."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warpsmith.archive.activities import Activities
from warpsmith.archive.inbox import LATE, Inbox
from warpsmith.archive.store import Archive
from warpsmith.errors import ArchiveError, Interrupted, TaskError
from warpsmith.pipeline import live as live_module
from warpsmith.pipeline.live import STOPPED, LiveActivity
from warpsmith.pipeline.live_suite import LiveSuite
from warpsmith.pipeline.run_inbox import RecordedInbox, RunInbox
from warpsmith.pipeline.suite import Suite, play_suite
from warpsmith.progress import SilentObserver
from warpsmith.records import Budget, RunSummary
from warpsmith.records.live import LiveState
from warpsmith.testing import chain_candidate

DONE = RunSummary(run_id="r", task="a", target="cpu", status="no-win", stopped="budget of 1 evaluation spent")


@pytest.fixture(autouse=True)
def _quick_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "TURN_SECONDS", 0.01)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "a.db")


def read(archive: Archive, activity: LiveActivity) -> Any:
    return Activities(archive.database).get(activity.activity_id)


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_run_is_told_while_it_works_and_when_it_ends(archive: Archive) -> None:
    candidate = chain_candidate("fused")
    with LiveActivity(archive, "run", "a.py", "cpu") as live:
        observer = live.observe(SilentObserver())
        observer.stage("searching")
        live.name_run("run-1")
        live.move(candidate, "building")
        live.move(candidate, "timing")
        live.move(chain_candidate("a part of another"), "verifying")
        live.change(judged=4)
        wait_until(lambda: read(archive, live).state.judged == 4)
        told = read(archive, live)
        assert (told.run_id, told.state.stage) == ("run-1", "searching")
        assert [(c.candidate_id, c.stage) for c in told.state.candidates] == [(candidate.id, "timing")]
        live.move(candidate, "")
        observer.finish(DONE)
    ended = read(archive, live)
    assert ended.state.candidates == ()
    assert ended.ending.startswith("a: no-win: budget of 1 evaluation spent")
    assert Activities(archive.database).list_lines(live.activity_id)[0][1] == "searching"


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (KeyboardInterrupt(), "interrupted: the same command goes on from there"),
        (Interrupted("interrupted: 3 results; go on"), "interrupted: 3 results; go on"),
        (TaskError("no such file"), "failed: no such file"),
        (ValueError("odd"), "failed: ValueError: odd"),
    ],
)
def test_what_ended_it_is_told(archive: Archive, error: BaseException, ending: str) -> None:
    live = LiveActivity(archive, "run", "a.py", "cpu")
    with pytest.raises(type(error)), live:
        raise error
    assert read(archive, live).ending == ending


def test_a_heartbeat_comes_without_news(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "HEARTBEAT_SECONDS", 0.02)
    with LiveActivity(archive, "run", "a.py", "cpu") as live:
        before = read(archive, live).seen_at
        wait_until(lambda: read(archive, live).seen_at > before)


def test_an_archive_that_is_busy_gets_the_news_at_a_later_turn(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []
    note = Activities.note

    def fail_twice(*args: Any) -> None:
        if len(refused) < 2:
            refused.append(args)
            raise ArchiveError("busy")
        note(*args)

    monkeypatch.setattr(Activities, "note", fail_twice)
    with LiveActivity(archive, "run", "a.py", "cpu") as live:
        live.say("a line")
        wait_until(lambda: Activities(archive.database).list_lines(live.activity_id))
    assert len(refused) == 2
    assert [line for _, line in Activities(archive.database).list_lines(live.activity_id)] == ["a line"]


def test_what_was_not_taken_is_refused_at_the_end(archive: Archive) -> None:
    inbox = Inbox(archive.database)
    with LiveActivity(archive, "run", "a.py", "cpu") as live:
        inbox.ask(live.activity_id, "pin", {"candidate": "c"})
    (request,) = inbox.list_all(live.activity_id)
    assert (request.status, request.answer) == ("refused", LATE)


def test_a_resumed_or_replayed_run_does_before_the_same_round_what_was_asked_then(archive: Archive) -> None:
    inbox = Inbox(archive.database)
    with LiveActivity(archive, "run", "a.py", "cpu") as first:
        inbox.ask(first.activity_id, "pin", {"candidate": "c"})
        earlier = RunInbox(first, "run-1")
        assert earlier.take(0) != []
        (request,) = inbox.list_all(first.activity_id)
        earlier.answer(request, "done", "pinned")
        assert earlier.take(1) == []
    with LiveActivity(archive, "run", "a.py", "cpu") as second:
        resumed = RunInbox(second, "run-1")
        assert [r.kind for r in resumed.take(0)] == ["pin"]
        assert resumed.take(0) == []
    replayed = RecordedInbox(inbox.list_taken_before("run-1"))
    assert [r.kind for r in replayed.take(0)] == ["pin"]
    assert replayed.take(1) == []


def test_a_stopped_suite_begins_no_other_run(archive: Archive, tmp_path: Path) -> None:
    plan = Suite([(name, tmp_path / f"{name}.py") for name in ("a", "b", "c")])
    finished: list[str] = []

    def play(path: str, seed: int | None) -> RunSummary:
        Inbox(archive.database).ask(live.activity_id, "stop", {})
        wait_until(lambda: live.stopped)
        return DONE.model_copy(update={"task": Path(path).stem})

    def play_all() -> None:
        with live:
            done = play_suite(plan, play, SilentObserver(), tmp_path, live.add_finished, live.is_stopped)
            live.raise_if_stopped(len(done))

    live = LiveSuite(archive, "core", plan, Budget(), lambda summary, left: finished.append(summary.task))
    with pytest.raises(Interrupted, match="stopped by request: 1 of 3 runs"):
        play_all()
    assert finished == ["a"]
    told = read(archive, live)
    assert (told.state.runs_done, told.state.runs, told.state.waiting) == (1, 3, ("b", "c"))
    assert told.ending.startswith(STOPPED)
    assert told.state == LiveState.model_validate(told.state.model_dump())
