"""`--json` on every command that prints data: one JSON document on standard output, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from test_suite_command import suite_of, summary

from warpsmith import api, machine
from warpsmith.archive import Archive
from warpsmith.cli import inspect, options
from warpsmith.cli.main import app
from warpsmith.records import Admission
from warpsmith.testing import chain_candidate, chain_task, scripted_result

# Command → why it has no --json.
NO_DATA = {
    "ask": "it writes a folder and names it",
    "mcp": "its standard output is the protocol's",
    "ui": "it serves pages until it is stopped",
    "serve": "it serves until it is interrupted",
    "skills install": "it writes a folder and names it",
    "export": "it writes a file or a folder and names it",
    "archive export": "it writes a file and names it",
    "bundle create": "it writes a bundle and names it",
    "bundle kit": "it writes a folder and names it",
}
# Those whose work is a judge's; their JSON is looked at where they are tested.
JUDGING = {
    "demo",
    "judge",
    "judge-files",
    "tell",
    "tune",
    "board",
    "profile",
    "bundle run",
    "bundle import",
    "capture",
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "optimize": ("t.py", "--quiet"), "suite": ("core", "--quiet"), "compare": ("a.json", "a.json"), "report": (),
    "archive list": (), "archive find": ("chain",), "archive show": (), "archive path": (), "archive foreign": (),
    "archive import": ("other.jsonl",), "archive dataset": ("set", "--license", "MIT"), "lessons": (),
    "site build": ("out", "--quiet"), "knowledge": ("softmax",), "tasks list": (), "tasks show": ("t.py",), "tasks check": ("t.py",), "doctor": (),
    "version": (), "history": (f"archive:{chain_task().id}",), "source": (chain_candidate("a").id,), "jobs": (),
}  # fmt: skip


def walk(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that is no group, with its name."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for part, inner in command.commands.items():
        yield from walk(inner, f"{name} {part}".strip())


TREE = dict(walk(typer.main.get_command(app)))


def test_every_command_that_prints_data_has_json() -> None:
    without = {name for name, c in TREE.items() if "--json" not in {o for p in c.params for o in p.opts}}
    assert without == set(NO_DATA)
    assert JUDGING | set(COMMANDS) == set(TREE) - set(NO_DATA), "say here how each new command is tried"


@pytest.fixture
def _outcomes(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, environment = chain_task(), machine.describe()
    for file in ("archive.db", "other.db"):
        archive = Archive(tmp_path / file)
        archive.begin_run("run-1", task, "cpu", 7, {}, environment)
        candidate = chain_candidate("a")
        archive.add_confirmation(
            "run-1", candidate, scripted_result(candidate, 2.0, environment.id, confirmed=True)
        )
        archive.finish_run(summary("chain").model_copy(update={"run_id": "run-1"}))
    assert command("archive", "export", "other.jsonl", "--archive", "other.db")[0] == 0
    Path("a.json").write_text(summary().model_dump_json())
    monkeypatch.setattr(api, "optimize_task", lambda *_, **__: summary())
    monkeypatch.setattr(api, "run_suite", suite_of(summary()))
    monkeypatch.setattr(api, "check_task", lambda *_, **__: (task, Admission(admitted=True, mutants={})))
    monkeypatch.setattr(inspect, "load", lambda *_: task)
    monkeypatch.setattr("warpsmith.doctor.findings", lambda *_: [("python", True, "3 × 4")])


@pytest.mark.usefixtures("_outcomes")
@pytest.mark.parametrize("name", COMMANDS)
def test_standard_output_is_one_json_document(command: Any, name: str) -> None:
    code, out, err = command(*name.split(), *COMMANDS[name], "--json", "-")
    assert code == 0, err
    assert json.loads(out) is not None


@pytest.mark.usefixtures("_outcomes")
@pytest.mark.parametrize("name", ["report", "archive show", "archive path", "version"])
def test_a_file_of_json_comes_beside_the_text(command: Any, name: str) -> None:
    code, out, _ = command(*name.split(), "--json", "j.json")
    assert code == 0
    assert out
    assert json.loads(Path("j.json").read_text())


def test_every_json_option_is_the_shared_one() -> None:
    shared = SimpleNamespace(**vars(options.JsonOption.__metadata__[0]))
    for name, one in TREE.items():
        helps = [p.help for p in one.params if "--json" in p.opts]
        assert helps in ([], [shared.help]), name
