"""Action, commit hook and containers: their texts hold together, and their commands judge the kernels that a pull request changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from warpsmith.cli import app

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "integrations" / "github-action"
TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1)
def get_inputs():
    return [torch.rand(8, 100)]
"""
WRONG = """# warpsmith-task: task.py
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x * 0.01
"""


def options_of(command: str) -> set[str]:
    """The options of a command of `warpsmith`."""
    tree: Any = typer.main.get_command(app)
    return {option for parameter in tree.commands[command].params for option in parameter.opts}


def test_hook_runs_a_command_that_exists() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, command, *rest = hook["entry"].split()
    assert program == "warpsmith"
    assert {w for w in rest if w.startswith("--")} <= options_of(command)
    assert {"id", "name", "language"} <= set(hook)
    assert hook["require_serial"], "files are judged one after another: each is measured"


def test_action_hands_its_inputs_to_the_script() -> None:
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    install, judge = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in (install, judge))
    read = {v.split("inputs.")[1].split(" ")[0] for v in judge["env"].values()}
    assert read == set(action["inputs"])
    script = (ACTION / "judge.sh").read_text()
    assert all(f"${{{name}:-" in script for name in judge["env"])
    assert {w for w in script.replace("\\\n", " ").split() if w.startswith("--") and w != "--"} >= {
        "--target", "--baselines", "--json", "--markdown",
    }  # fmt: skip
    assert {"--target", "--baselines", "--json", "--markdown"} <= options_of("judge-files")
    assert os.access(ACTION / "judge.sh", os.X_OK)


@pytest.fixture
def judge_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A repository whose second commit adds a wrong kernel; a call runs the action's script there, as its runner does."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "warpsmith").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m warpsmith "$@"\n')
    (bin_folder / "warpsmith").chmod(0o755)
    repository = tmp_path / "repository"
    repository.mkdir()
    monkeypatch.chdir(repository)
    git("init", "-q", "-b", "main")
    Path("task.py").write_text(TASK)
    Path("notes.md").write_text("notes\n")
    git("add", "-A")
    git("commit", "-qm", "task")
    Path("a kernel.py").write_text(WRONG)
    Path("notes.md").write_text("more notes\n")
    git("add", "-A")
    git("commit", "-qm", "kernel")

    def call(**variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "WARPSMITH_CACHE": str(tmp_path / "cache"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), **variables,
        }  # fmt: skip
        return subprocess.run(
            [str(ACTION / "judge.sh")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return call


def git(*arguments: str) -> None:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    subprocess.run(["git", *who, *arguments], check=True, capture_output=True)


@pytest.mark.slow
def test_kernel_that_a_pull_request_adds_is_judged(judge_changes: Callable[..., Any], tmp_path: Path) -> None:
    done = judge_changes(BASE="main~1", PATHS=".\n", TARGET="cpu", BASELINES="eager", JSON="verdicts.json")
    assert done.returncode == 1, done.stderr
    (row,) = json.loads(Path("verdicts.json").read_text())
    assert (row["solution"], row["verdict"], row["rule"]) == ("a kernel.py", "incorrect", "budget")
    assert done.stdout.startswith("a kernel.py: incorrect: budget")
    assert "| a kernel.py | task.py | incorrect | budget" in (tmp_path / "summary.md").read_text()


def test_pull_request_without_kernels_is_nothing_to_judge(judge_changes: Callable[..., Any]) -> None:
    assert "nothing to judge" in judge_changes(BASE="main", PATHS=".").stdout
    assert "nothing to judge" in judge_changes(BASE="main~1", PATHS="*.md\n").stdout
    shallow = judge_changes(BASE="0" * 40, PATHS=".")
    assert shallow.returncode == 2
    assert "fetch-depth: 0" in shallow.stderr


@pytest.mark.parametrize("file", sorted((ROOT / "docker").glob("*.Dockerfile")), ids=lambda file: file.stem)
def test_container_file_passes_its_linter(file: Path) -> None:
    linter = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if linter is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([linter, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    text = file.read_text()
    copied = {w for line in text.splitlines() if line.startswith("COPY ") for w in line.split()[1:-1]}
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "README.md", "src"} <= copied, "what the build of the package reads"
