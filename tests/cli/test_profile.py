"""The command `profile`: which winner it takes, and how observations reach the terminal and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warpsmith import machine
from warpsmith.archive import Archive
from warpsmith.cli import profile as command
from warpsmith.errors import ArchiveError, UsageError
from warpsmith.profile import observe
from warpsmith.profile.observation import Observation
from warpsmith.records import Candidate, Unit
from warpsmith.testing import chain_region, chain_task, scripted_result

TASK = chain_task()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """One run with a confirmed win of 2."""
    store = Archive(tmp_path / "a.db")
    unit = Unit(region=chain_region(TASK.graph, 0, 1), language="c++", source="// a")
    candidate = Candidate(task_id=TASK.id, target="cpu", units=(unit,))
    environment = machine.describe()
    store.begin_run("run-1", TASK, "cpu", 7, {}, environment)
    result = scripted_result(candidate, 2.0)
    assert result.timing is not None
    timing = result.timing.model_copy(update={"confirmed": True})
    changed = {"timing": timing, "environment": environment.id}
    store.add_confirmation("run-1", candidate, result.model_copy(update=changed))
    return tmp_path / "a.db"


def test_the_winner_of_a_run_is_observed(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: dict[str, Any] = {}

    def observed(candidate: Candidate, task: Any, target: Any, **more: Any) -> list[Observation]:
        seen.update(more, candidate=candidate, task=task)
        return [Observation(observer="roofline", metrics={"share": 0.5})]

    monkeypatch.setattr(observe, "profile", observed)
    command.profile("run-1", archive, str(tmp_path / "out.json"))
    assert seen["task"] == TASK
    assert seen["candidate"].units[0].source == "// a"
    assert seen["seconds"] == pytest.approx(50e-6)
    assert "roofline\n  share: 0.5\n" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())[0]["metrics"] == {"share": 0.5}


def test_an_unknown_run_and_a_missing_archive_are_told(archive: Path, tmp_path: Path) -> None:
    with pytest.raises((ArchiveError, UsageError), match="no run nothing"):
        command.profile("nothing", archive)
    with pytest.raises(ArchiveError, match="no archive"):
        command.profile(None, tmp_path / "missing.db")
