"""The how-to for coding agents says what is true: its settings parse, its commands and tools exist."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from warpsmith.cli import app

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "coding-agents.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [text for kind, text in found if kind == language]


def servers() -> list[dict[str, Any]]:
    found = [json.loads(text) for text in blocks("json")] + [tomllib.loads(text) for text in blocks("toml")]
    return [next(iter(settings.values()))["warpsmith"] for settings in found]


def commands() -> list[list[str]]:
    """Every `warpsmith …` of the page, those that are started by an agent's own command too."""
    lines = [line.split(" #")[0] for text in blocks("") for line in text.splitlines()]
    started = [shlex.split(line.split(" -- ")[-1]) for line in lines]
    return [c[1:] for c in started if c[:1] == ["warpsmith"]] + [s["args"] for s in servers()]


def test_there_is_something_to_check() -> None:
    assert len(servers()) == 4
    assert len(commands()) >= 9
    assert {s["command"] for s in servers()} == {"warpsmith"}


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_a_command_is_one(arguments: list[str]) -> None:
    group = typer.main.get_command(app)
    command = group.commands[arguments[0]]  # type: ignore[attr-defined]
    command.make_context(arguments[0], arguments[1:])  # raises for an option that is none


def test_tools_are_those_of_the_server(service: Any) -> None:
    pytest.importorskip("mcp")
    from warpsmith.authoring.author import LocalAuthor
    from warpsmith.mcp.server import build_server

    named = re.findall(r"^\| (`[^|]*`) \|", PAGE, re.MULTILINE)
    told = {name for cell in named for name in re.findall(r"`(\w+)`", cell)}
    tools = build_server(LocalAuthor(service))._tool_manager.list_tools()
    assert told == {tool.name for tool in tools}
