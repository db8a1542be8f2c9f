"""A suite as a loop: single faults are rows, seeds of samples are stable, what ends every run ends the suite."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import scripted_run

from warpsmith import api
from warpsmith.archive.activities import Activities
from warpsmith.archive.store import Archive
from warpsmith.config import Config
from warpsmith.errors import (
    ArchiveError,
    Interrupted,
    JudgeError,
    ModelError,
    TaskError,
    ToolchainError,
    UsageError,
)
from warpsmith.pipeline.lane_client import LaneSettings
from warpsmith.pipeline.live_suite import SuitePlace
from warpsmith.pipeline.suite import Suite, play_suite
from warpsmith.places import ArchiveUrl
from warpsmith.progress import SilentObserver
from warpsmith.records import Budget, Candidate, Result, RunSummary
from warpsmith.testing import chain_task


class Notes(SilentObserver):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.over: list[RunSummary] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def finish(self, summary: RunSummary) -> None:
        self.over.append(summary)


def tasks(*names: str) -> list[tuple[str, Path]]:
    return [(f"level1/{name}", Path(f"{name}.py")) for name in names]


def won(path: str, seed: int | None = None) -> RunSummary:
    return RunSummary(run_id="r", task=Path(path).stem, target="cpu", status="win", seed=seed or 0)


@pytest.mark.parametrize(
    "error", [TaskError("no Model"), UsageError("u"), JudgeError("lost"), ToolchainError("t")]
)
def test_a_task_that_fails_is_a_row_and_the_others_go_on(error: Exception, tmp_path: Path) -> None:
    def play(path: str, seed: int | None) -> RunSummary:
        if path == "b.py":
            raise error
        return won(path)

    notes = Notes()
    found = play_suite(Suite(tasks("a", "b", "c")), play, notes, tmp_path)
    assert [(s.task, s.status) for s in found] == [
        ("level1/a", "win"), ("level1/b", "failed"), ("level1/c", "win")
    ]  # fmt: skip
    assert found[1].reason == str(error)
    assert [s.reason for s in notes.over] == [str(error)]
    assert notes.notes == ["[1/3] level1/a", "[2/3] level1/b", "[3/3] level1/c"]


def test_a_bug_is_a_row_with_its_traceback_in_a_file(tmp_path: Path) -> None:
    def play(path: str, seed: int | None) -> RunSummary:
        if path == "a.py":
            raise ZeroDivisionError("the\ncause")
        return won(path)

    found = play_suite(Suite(tasks("a", "b")), play, Notes(), tmp_path / "logs")
    assert [s.status for s in found] == ["failed", "win"]
    assert "this is a bug in warpsmith (ZeroDivisionError: the cause)" in found[0].reason
    assert "Traceback" in Path(found[0].reason.rpartition("details in ")[2]).read_text()


@pytest.mark.parametrize(
    "error", [ArchiveError("full"), ModelError("m"), Interrupted("i"), KeyboardInterrupt()]
)
def test_what_would_end_every_run_ends_the_suite(error: BaseException, tmp_path: Path) -> None:
    heard: list[tuple[str, int]] = []

    def play(path: str, seed: int | None) -> RunSummary:
        if path == "b.py":
            raise error
        return won(path)

    with pytest.raises(type(error)):
        play_suite(
            Suite(tasks("a", "b", "c")), play, Notes(), tmp_path, lambda s, left: heard.append((s.task, left))
        )
    assert heard == [("level1/a", 2)]


def test_a_lost_model_ends_the_suite_after_its_summary(tmp_path: Path) -> None:
    def play(path: str, seed: int | None) -> RunSummary:
        return won(path).model_copy(update={"fault": "no answer" if path == "b.py" else ""})

    assert [s.fault for s in play_suite(Suite(tasks("a", "b", "c")), play, Notes(), tmp_path)] == [
        "", "no answer"
    ]  # fmt: skip


def test_every_task_has_its_first_sample_before_any_has_its_second(tmp_path: Path) -> None:
    calls: list[tuple[str, int | None]] = []

    def play(path: str, seed: int | None) -> RunSummary:
        calls.append((path, seed))
        return won(path, seed)

    play_suite(Suite(tasks("a", "b"), samples=2), play, Notes(), tmp_path)
    play_suite(Suite(tasks("a"), samples=2, seed=7), play, Notes(), tmp_path)
    play_suite(Suite(tasks("a"), seed=7), play, Notes(), tmp_path)
    play_suite(Suite(tasks("a")), play, Notes(), tmp_path)
    assert calls[:4] == [("a.py", 0), ("b.py", 0), ("a.py", 1), ("b.py", 1)]
    assert [seed for _, seed in calls[4:]] == [7, 8, 7, None]


# ---------------------------------------------------------------- through the API


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How `optimize_task` was called; no compiler is needed."""
    seen: list[dict[str, Any]] = []

    def optimize_task(spec: str, **fields: Any) -> RunSummary:
        seen.append({"spec": spec, **fields})
        return won(spec)

    monkeypatch.setattr(api, "optimize_task", optimize_task)
    monkeypatch.setattr(api, "make_target", lambda name, config: None)
    return seen


def test_samples_learn_nothing_from_one_another(calls: list[dict[str, Any]], tmp_path: Path) -> None:
    config = Config(archive=tmp_path / "a.db", cache=tmp_path)
    assert config.lessons
    assert config.transplant
    assert config.reuse
    assert len(api.run_suite("core", config=config, limit=2, samples=2)) == 4
    assert all(not (c["config"].reuse or c["config"].lessons or c["config"].transplant) for c in calls)
    assert [c["seed"] for c in calls] == [0, 0, 1, 1]
    assert all(c["reuse"] for c in calls)
    calls.clear()
    api.run_suite("core", config=config, limit=1)
    assert (calls[0]["config"], calls[0]["seed"]) == (config, None)


@pytest.mark.parametrize(
    ("lanes", "target", "reason"),
    [(0, "cuda", "give 1 or more"), (-1, "cpu", "give 1 or more"), (2, "cpu", "would disturb each other's timings")],
)  # fmt: skip
def test_lanes_that_cannot_be_are_refused_before_any_task(
    lanes: int, target: str, reason: str, calls: list[dict[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=reason):
        api.run_suite("core", target=target, lanes=lanes, config=Config(archive=tmp_path / "a.db"))
    assert not calls


def test_a_lane_plays_with_the_settings_of_the_suite(
    calls: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[LaneSettings] = []
    monkeypatch.setattr(api, "play_in_lanes", lambda suite, lanes, *_: played.append(lanes) or [])
    opened = Archive(tmp_path / "b.db")
    monkeypatch.setattr(api, "Archive", lambda place: opened)  # there is no such host
    url = ArchiveUrl("postgresql://me:secret@host/db")
    for archive in (tmp_path / "a.db", url):
        config = Config(archive=archive, cache=tmp_path, timed_on=(0, 1), price="1/2")
        api.run_suite("core", target="cuda", lanes=3, config=config, budget=Budget(evaluations=7))
        assert played[-1].count == 3
        module, _, function = played[-1].play.partition(":")
        assert getattr(importlib.import_module(module), function) is api.play_lane_run
        settings, observer = json.loads(json.dumps(played[-1].settings)), SilentObserver()
        api.play_lane_run("t.py", 5, observer, settings)
        assert calls[-1] == {
            "spec": "t.py", "target": "cuda", "budget": Budget(evaluations=7), "seed": 5, "config": config,
            "observer": observer, "overrides": None, "reuse": True, "suite": SuitePlace(played[-1].settings["suite"], 0, ""),
        }  # fmt: skip
        assert Activities(opened.database).get(played[-1].settings["suite"]) is not None


def test_a_benchmark_folder_names_tasks_by_level(calls: list[dict[str, Any]], tmp_path: Path) -> None:
    for level in (1, 2):
        (tmp_path / f"level{level}").mkdir()
        (tmp_path / f"level{level}" / "1_same.py").write_text("")
    found = api.run_suite(str(tmp_path), config=Config(archive=tmp_path / "a.db", cache=tmp_path))
    assert [s.task for s in found] == ["level1/1_same", "level2/1_same"]


def test_a_machine_without_a_compiler_is_told_before_any_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(name: str, config: Config) -> None:
        raise ToolchainError("no g++")

    monkeypatch.setattr(api, "make_target", no_compiler)
    monkeypatch.setattr(api, "optimize_task", lambda *_, **__: pytest.fail("no task may be begun"))
    with pytest.raises(ToolchainError, match=r"no g\+\+"):
        api.run_suite("core", config=Config())


# ---------------------------------------------------------------- whole runs, with a judge by formula


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Config]:
    """Real searches of the expert and a real archive; only loading, building and judging are stand-ins."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.setattr(scripted_run, "speed", lambda c: 1.2 + int(c.content_key[:4], 16) / 2**16)
    monkeypatch.setattr(api, "make_target", lambda name, config: scripted_run.StubTarget())
    task = chain_task()
    monkeypatch.setattr(api, "_load", lambda spec, *_: task.model_copy(update={"name": Path(spec).stem}))
    monkeypatch.setattr(scripted_run.run_module, "describe", lambda *_: scripted_run.HERE)
    with scripted_run.stubs():
        yield Config(archive=tmp_path / "a.db", cache=tmp_path / "cache", near_limit=1e9)


def searched(config: Config, **fields: Any) -> list[RunSummary]:
    folder, budget = str(config.cache.parent), Budget(evaluations=8, seconds=None)
    return api.run_suite(folder, config=config, budget=budget, **fields)


def test_an_interrupted_suite_goes_on_with_the_runs_it_has_finished(stubbed: Config) -> None:
    kept: list[RunSummary] = []

    def killed(summary: RunSummary, left: int) -> None:
        kept.append(summary)
        if left == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searched(stubbed, samples=2, finished=killed)
    assert [(s.task, s.seed, s.status) for s in kept] == [("a", 0, "win"), ("b", 0, "win"), ("a", 1, "win")]
    found = searched(stubbed, samples=2)
    assert found[:3] == kept
    assert [(s.task, s.seed) for s in found] == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert len(Archive(stubbed.archive).runs()) == 4
    assert found[0].threads == 2
    assert found[0].best is not None
    assert [r.baseline for r in found[0].best.ratios] == ["eager"]


def test_samples_judge_for_themselves_and_other_runs_take_what_is_there(stubbed: Config) -> None:
    runs = searched(stubbed, samples=2, limit=1)
    runs += searched(stubbed.model_copy(update={"reuse": False}), seed=5, limit=1)
    runs += searched(stubbed, seed=5, limit=1)
    archive = Archive(stubbed.archive)
    reused = [sum(e.kind == "reused" for e in archive.run_entries(s.run_id)) for s in runs]
    assert reused[:3] == [0, 0, 0]
    assert reused[3] > 0


def test_a_run_on_a_machine_that_was_too_busy_is_played_again(
    stubbed: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = scripted_run.StubExecutor.confirm

    def confirm_beside_others(self: Any, candidate: Candidate) -> Result:
        result = quiet(self, candidate)
        ratios = tuple(r.model_copy(update={"low": 0.0}) for r in result.timing.ratios)
        timing = result.timing.model_copy(update={"ratios": ratios, "busy": "a process waited"})
        return result.model_copy(update={"timing": timing})

    with monkeypatch.context() as patch:
        patch.setattr(scripted_run.StubExecutor, "confirm", confirm_beside_others)
        spoilt = searched(stubbed, seed=0)
    assert [(s.status, s.reason) for s in spoilt] == 2 * [
        ("too-busy", "the machine was too busy to confirm anything: a process waited")
    ]
    again = searched(stubbed, seed=0)
    assert [s.status for s in again] == ["win", "win"]
    assert searched(stubbed, seed=0) == again
