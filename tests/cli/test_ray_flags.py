"""The options of commands that can play on a Ray cluster: shared, passed on, and refused where they mean nothing."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from warpsmith import api
from warpsmith.cli.ray_flags import RayFlags
from warpsmith.cli.run import optimize
from warpsmith.cli.suite import suite
from warpsmith.cluster.settings import RaySettings
from warpsmith.records import RunSummary

COMMANDS = {"suite": ("suite", "core"), "optimize": ("optimize", "t.py")}


def win(task: str = "t") -> RunSummary:
    return RunSummary(run_id="r", task=task, target="cpu", status="win")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Hold what each command passes on as `ray`."""
    passed: list[Any] = []
    monkeypatch.setattr(api, "run_suite", lambda _, **fields: passed.append(fields["ray"]) or [win()])
    monkeypatch.setattr(api, "optimize_task", lambda _, **fields: passed.append(fields["ray"]) or win())
    return passed


def test_commands_that_play_on_a_cluster_share_their_options() -> None:
    names = set(RayFlags.__dataclass_fields__)
    for command in (optimize, suite):
        parameters = set(inspect.signature(command).parameters)
        assert names <= parameters
        assert "cluster_flags" not in parameters


@pytest.mark.parametrize("name", COMMANDS)
def test_the_cluster_is_passed_on(name: str, command: Any, seen: list[Any]) -> None:
    options = ("--ray", "10.0.0.7:6379", "--ray-accelerator", "H100", "--ray-trust", "--key-file", "key")
    assert command(*COMMANDS[name], "--quiet", *options)[0] == 0
    assert command(*COMMANDS[name], "--quiet")[0] == 0
    assert seen == [RaySettings("10.0.0.7:6379", 1, "H100", True, Path("key")), None]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("option", [("--ray-accelerator", "H100"), ("--ray-trust",), ("--key-file", "key")])
def test_what_says_how_a_cluster_plays_is_refused_without_one(
    option: tuple[str, ...], name: str, command: Any, seen: list[Any]
) -> None:
    code, out, err = command(*COMMANDS[name], *option)
    assert (code, out, seen) == (2, "", [])
    assert (
        err
        == f"warpsmith: {option[0]} says how a Ray cluster plays: give --ray auto, an address or local, too\n"
    )


@pytest.mark.parametrize("option", [("--replay", "3f2a00"), ("--from", "kernel.cpp")])
def test_what_a_cluster_cannot_do_is_refused_in_one_line(option: tuple[str, ...], command: Any) -> None:
    code, out, err = command("optimize", "t.py", "--ray", "auto", "--quiet", *option)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "--ray" in err
