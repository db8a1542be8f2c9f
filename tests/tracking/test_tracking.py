"""Trackers hear a run live and at its end; one that fails, hangs or is not there costs the run nothing but a line."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_run import config, make_run, stubs

from warpsmith import plugins
from warpsmith.archive.store import Archive
from warpsmith.errors import TaskError, UsageError
from warpsmith.pipeline.live import LiveActivity
from warpsmith.progress import SilentObserver
from warpsmith.records import Ratio, RunSummary
from warpsmith.records.live import LiveState
from warpsmith.tracking import Ending, TrackedRun, Tracking, check_trackers, open_tracking
from warpsmith.tracking import tracker_thread as thread_module
from warpsmith.tracking import tracking as tracking_module
from warpsmith.tracking.tracker_thread import TrackerThread
from warpsmith.tracking.values import list_live_values

RUN = TrackedRun("run-1", "softmax", "cpu")
DONE = Ending("win", "softmax: win", {"final/low": 1.2})
SUMMARY = RunSummary(run_id="run-1", task="softmax", target="cpu", status="no-win", stopped="done")
BEST = LiveState(
    judged=3,
    outcomes={"ok": 2, "incorrect": 1},
    seconds_by_stage={"judging": 4.0},
    best=Ratio(baseline="eager", median=1.3, low=1.2, high=1.4),
    best_limit_share=0.5,
)


class Heard:
    """A tracker that keeps what it heard, and fails or waits where it is told to."""

    def __init__(self, failing: tuple[str, ...] = (), gate: threading.Event | None = None) -> None:
        self.calls: list[tuple[str, object]] = []
        self._failing, self._gate = failing, gate

    def begin(self, run: TrackedRun) -> None:
        self._hear("begin", run)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._hear("log", (dict(values), step))

    def finish(self, ending: Ending) -> None:
        self._hear("finish", ending)

    def _hear(self, name: str, what: object) -> None:
        if self._gate is not None:
            self._gate.wait()
        self.calls.append((name, what))
        if name in self._failing:
            raise ConnectionError(f"no {name}: https://me:hunter2@host/api is away")

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@pytest.fixture(autouse=True)
def _no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_module, "GAP_SECONDS", 0.0)


def wait_for(tracker: Heard, calls: int) -> None:
    deadline = time.monotonic() + 20
    while len(tracker.calls) < calls:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def play(tracker: Heard) -> Tracking:
    """Begin, one state, and the end."""
    tracking = Tracking([TrackerThread("heard", tracker)])
    tracking.begin(RUN)
    wait_for(tracker, 1)
    tracking.follow(BEST)
    if "begin" not in tracker._failing:
        wait_for(tracker, 2)
    tracking.finish(DONE)
    return tracking


def test_a_tracker_hears_the_state_and_the_end() -> None:
    tracker = Heard()
    assert play(tracker).take_warnings() == []
    assert tracker.names == ["begin", "log", "finish"]
    values, step = tracker.calls[1][1]  # type: ignore[misc]
    assert step == 3
    assert values["best/low"] == 1.2
    assert values["best/limit_share"] == 0.5
    assert values["outcomes/incorrect"] == 1
    assert values["seconds/judging"] == 4.0
    assert tracker.calls[2][1] == DONE


def test_nothing_is_said_of_a_best_before_there_is_one() -> None:
    assert not [name for name in list_live_values(LiveState(judged=1)) if name.startswith("best/")]


@pytest.mark.parametrize(
    ("failing", "calls", "what"),
    [
        ("begin", ["begin"], "did not begin"),
        ("log", ["begin", "log", "finish"], "stopped"),
        ("finish", ["begin", "log", "finish"], "did not finish"),
    ],
)
def test_a_failure_is_one_line_without_a_password(failing: str, calls: list[str], what: str) -> None:
    tracker = Heard((failing,))
    (line,) = play(tracker).take_warnings()
    assert tracker.names == calls
    assert line.startswith(f"the tracker heard {what}: ConnectionError: no {failing}: https://host/api")
    assert line.endswith("; the run goes on")
    assert "hunter2" not in line
    assert "\n" not in line


def test_live_values_end_with_the_first_failure_and_are_told_once() -> None:
    tracker = Heard(("log", "finish"))
    tracking = Tracking([TrackerThread("heard", tracker)])
    tracking.begin(RUN)
    tracking.follow(BEST)
    wait_for(tracker, 2)
    tracking.follow(BEST.model_copy(update={"judged": 4}))
    tracking.finish(DONE)
    assert tracker.names == ["begin", "log", "finish"]
    assert len(tracking.take_warnings()) == 1
    assert tracking.take_warnings() == []


def test_a_tracker_that_hangs_holds_neither_the_search_nor_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking_module, "FINISH_SECONDS", 0.05)
    gate = threading.Event()
    tracker = Heard(gate=gate)
    try:
        tracking = Tracking([TrackerThread("heard", tracker)])
        tracking.begin(RUN)
        for judged in range(1000):
            tracking.follow(LiveState(judged=judged))
        tracking.finish(DONE)
        tracking.finish(DONE)
        assert tracker.calls == []
        (line,) = tracking.take_warnings()
        assert "did not answer in time" in line
    finally:
        gate.set()


def test_a_tracker_that_is_behind_hears_the_newest_state() -> None:
    gate = threading.Event()
    tracker = Heard(gate=gate)
    tracking = Tracking([TrackerThread("heard", tracker)])
    tracking.begin(RUN)
    for judged in range(50):
        tracking.follow(LiveState(judged=judged))
    gate.set()
    tracking.finish(DONE)
    assert tracker.names == ["begin", "log", "finish"]
    assert tracker.calls[1][1][0]["candidates/judged"] == 49  # type: ignore[index]


# ---------------------------------------------------------------- with a run


def test_a_run_tells_its_trackers_through_the_live_state(tmp_path: Path) -> None:
    tracker = Heard()
    tracking = Tracking([TrackerThread("heard", tracker)])
    with LiveActivity(Archive(tmp_path / "a.db"), "run", "a.py", "cpu", "suite-1", tracking) as live:
        assert tracker.calls == []
        live.name_run("run-1", "softmax", {"seed": "1"})
        live.change(judged=4, outcomes={"ok": 4})
        wait_for(tracker, 2)
    assert tracker.calls[0][1] == TrackedRun("run-1", "softmax", "cpu", "suite-1", {"seed": "1"})
    assert any(name == "log" and what[1] == 4 for name, what in tracker.calls)  # type: ignore[index]


def test_a_run_that_ends_in_an_error_ends_its_trackers(tmp_path: Path) -> None:
    tracker = Heard()
    live = LiveActivity(
        Archive(tmp_path / "a.db"), "run", "a.py", "cpu", tracking=Tracking([TrackerThread("heard", tracker)])
    )
    live.begin()
    live.name_run("run-1")
    live.close(TaskError("no such file"))
    assert tracker.calls[-1] == ("finish", Ending("failed", "failed: no such file"))


def test_warnings_are_told_by_the_run_itself(tmp_path: Path) -> None:
    tracker, told = Heard(("begin",)), list[tuple[str, str]]()

    class Observer(SilentObserver):
        def note(self, text: str) -> None:
            told.append((threading.current_thread().name, text))

    tracking = Tracking([TrackerThread("heard", tracker)])
    with LiveActivity(Archive(tmp_path / "a.db"), "run", "a.py", "cpu", tracking=tracking) as live:
        observer = live.observe(Observer())
        live.name_run("run-1")
        tracking.finish(DONE)
        observer.finish(SUMMARY)
    ((thread, text),) = told
    assert thread == threading.current_thread().name
    assert text.startswith("the tracker heard did not begin: ConnectionError")


def test_a_whole_run_hands_over_its_report_and_its_kernels(tmp_path: Path) -> None:
    """Of a run with the expert on a judge from a script: values by candidate, then a summary with files that can be read."""

    class Reader(Heard):
        def finish(self, ending: Ending) -> None:
            self.texts = {file.name: file.read_text() for file in ending.files}
            super().finish(ending)

    tracker = Reader()
    settings = config(tmp_path, "").model_copy(update={"model": None, "price": None, "base_url": None})
    run = replace(make_run(tmp_path, ""), config=settings)
    tracking = Tracking([TrackerThread("heard", tracker)])
    with stubs(), LiveActivity(run.archive, "run", "a.py", "cpu", tracking=tracking) as live:
        outcome = replace(run, live=live).play()
    assert tracking.take_warnings() == []
    begun = tracker.calls[0][1]
    assert isinstance(begun, TrackedRun)
    assert (begun.run_id, begun.settings["budget.evaluations"]) == (outcome.summary.run_id, "30")
    assert "archive" not in begun.settings
    ending = tracker.calls[-1][1]
    assert isinstance(ending, Ending)
    assert ending.status == outcome.summary.status
    assert outcome.best is not None
    assert ending.values["final/low"] == outcome.summary.best.speedup.low  # type: ignore[union-attr]
    assert RunSummary.model_validate_json(tracker.texts["summary.json"]) == outcome.summary
    assert tracker.texts["unit0.cpp"] == outcome.best.candidate.units[0].source
    assert outcome.summary.run_id in tracker.texts["report.html"]
    assert tracker.names.count("finish") == 1


# ---------------------------------------------------------------- names


def test_an_unknown_tracker_is_one_line() -> None:
    with pytest.raises(UsageError, match="no tracker named 'nosuch'; known: tensorboard, mlflow, wandb"):
        check_trackers(["nosuch:x"])


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = {**plugins.BUILT_IN, "trackers": {"wandb": "warpsmith_no_such_package:Tracker"}}
    monkeypatch.setattr(plugins, "BUILT_IN", lost)
    with pytest.raises(UsageError, match=r"pip install 'warpsmith\[wandb\]'"):
        check_trackers(["wandb:project"])
    tracking = open_tracking(["wandb:project"], is_strict=False)
    assert not tracking
    (line,) = tracking.take_warnings()
    assert line.endswith("the run goes on without it")


def test_another_package_announces_a_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notebook_tracker.py").write_text(
        "class Tracker:\n    def __init__(self, place): self.place = place\n"
    )
    info = tmp_path / "notebook_tracker-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: notebook-tracker\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[warpsmith.trackers]\nnotebook = notebook_tracker:Tracker\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    check_trackers(["notebook:page"])
    assert bool(open_tracking(["notebook:page"]))
