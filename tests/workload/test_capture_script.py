"""`warpsmith capture SCRIPT`: the script runs as `__main__`, and its model is found."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warpsmith.cli import app
from warpsmith.config import Config
from warpsmith.errors import UsageError
from warpsmith.processes.buffers import Scratch
from warpsmith.tasks.load import load_task
from warpsmith.workload.capturing import capture_script

SCRIPT = """
import sys
import torch
from torch import nn

if __name__ == "__main__":
    print("rows", sys.argv[1:])
    large = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)).eval()
    small = nn.Linear(2, 2)
    with torch.no_grad():
        for _ in range(int(sys.argv[1])):
            large(torch.randn(256, 64))
        small(torch.randn(1, 2))
"""


@pytest.fixture(name="script")
def _script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_command_writes_json_and_tasks_that_load(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_peaks: Callable[..., Path]
) -> None:
    cache = with_peaks(tmp_path / "cache")
    monkeypatch.setattr(Config, "load", lambda *_: Config(cache=cache, archive=tmp_path / "a.db"))
    command = ["capture", "-q", "--json", "-", "--write", str(tmp_path / "tasks"), str(script), "3", "--json"]
    outcome = CliRunner().invoke(app, command, catch_exceptions=False)
    assert outcome.exit_code == 0
    data = json.loads(outcome.stdout)
    assert (data["model"], data["calls"]) == ("Sequential", 3)
    assert any("--model NAME" in note for note in data["notes"])
    assert data["tasks"]
    with Scratch() as scratch:
        task = load_task(data["tasks"][0], scratch=scratch)
    assert task.graph.nodes


def test_model_is_named_or_what_ran_longest(script: Path, tmp_path: Path) -> None:
    config, argv = Config(cache=tmp_path / "cache"), list(sys.argv)
    assert type(capture_script(script, ["2"], config).model).__name__ == "Sequential"
    assert capture_script(script, ["2"], config, name="large.0").model.in_features == 64
    assert type(capture_script(script, ["2"], config, name="small").model).__name__ == "Linear"
    assert sys.argv == argv
    with pytest.raises(UsageError, match="it has large, small"):
        capture_script(script, ["2"], config, name="medium")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("print(1)", "calls no torch.nn.Module"),
        ("x = 1\n1 / 0", r"ZeroDivisionError.*script.py:2"),
        ("import sys\nsys.exit(3)", "exit code 3"),
        ("this is no Python", "SyntaxError"),
    ],
)
def test_script_that_fails_is_told_in_one_line(script: Path, tmp_path: Path, text: str, words: str) -> None:
    script.write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        capture_script(script, [], Config(cache=tmp_path))
    assert "\n" not in str(caught.value)


def test_script_may_end_with_sys_exit(script: Path, tmp_path: Path) -> None:
    script.write_text(f"{SCRIPT}\n    sys.exit(0)\n")
    assert type(capture_script(script, ["1"], Config(cache=tmp_path)).model).__name__ == "Sequential"


def test_missing_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name a Python file"):
        capture_script(tmp_path / "none.py", [], Config(cache=tmp_path))
