"""The tools as a client sees them, over the SDK's in-process transport; judging is by formula."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from scripted_author_session import ScriptedAuthorSession, unit

from warpsmith import mcp as package
from warpsmith.authoring.author import LocalAuthor
from warpsmith.authoring.service import AuthoringService
from warpsmith.errors import UsageError
from warpsmith.records import Candidate, Result, Task

pytest.importorskip("mcp")

from mcp import Client

from warpsmith.mcp.server import build_server

JUDGING = {"submit_unit", "submit_units", "check_units", "tune", "profile", "inspect_code", "cancel"}
TOOLS = JUDGING | {
    "list_tasks", "read_task", "region", "header", "machine", "history", "knowledge", "verdict", "board", "source", "job", "jobs",
}  # fmt: skip


def with_client(
    service: AuthoringService, body: Callable[[Client], Awaitable[Any]], mode: str = "auto"
) -> Any:
    async def run() -> Any:
        async with Client(build_server(LocalAuthor(service)), mode=mode) as client:
            return await body(client)

    return asyncio.run(run())


def calls(service: AuthoringService, *wanted: tuple[str, dict[str, Any]], mode: str = "auto") -> list[Any]:
    async def body(client: Client) -> list[Any]:
        return [await client.call_tool(name, given) for name, given in wanted]

    return with_client(service, body, mode)


def spec(task: Task) -> str:
    return f"archive:{task.id}"


def test_every_tool_is_typed(service: AuthoringService) -> None:
    async def body(client: Client) -> Any:
        return (await client.list_tools()).tools

    tools = with_client(service, body)
    assert {t.name for t in tools} == TOOLS
    for tool in tools:
        assert tool.description
        assert tool.output_schema
        assert set(tool.input_schema["properties"]) or tool.name == "list_tasks"
        assert "context" not in tool.input_schema["properties"]
        reads = tool.annotations is not None and tool.annotations.read_only_hint
        assert bool(reads) == (tool.name not in JUDGING)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_cycle(service: AuthoringService, task: Task, mode: str) -> None:
    wrong, good = ({"source": unit(o), "region": "all"} for o in ("incorrect", 2.0))
    rows, view, header, first, second, seen, board, history = (
        answer.structured_content
        for answer in calls(
            service,
            ("list_tasks", {}),
            ("read_task", {"task": spec(task)}),
            ("header", {"task": spec(task), "region": "1"}),
            ("submit_unit", {"task": spec(task), "units": [wrong], "author": "Eve"}),
            ("submit_unit", {"task": spec(task), "units": [good], "author": "Ada", "note": "fewer passes"}),
            ("profile", {"task": spec(task)}),
            ("board", {"task": spec(task)}),
            ("history", {"task": spec(task), "last": 5}),
            mode=mode,
        )
    )  # fmt: skip
    assert any(r["name"] == "softmax_middle" for r in rows["result"])
    assert view["regions"][0]["nodes"] == ["n0", "n1"]
    assert "in0_shape" in header["task_h"]
    assert (first["status"], first["correct"]) == ("incorrect", False)
    assert first["evidence"]
    assert (second["correct"], second["win"]) == (True, True)
    assert [n["node"] for n in seen["nodes"]] == ["n1", "n0"]
    assert [(r["author"], r["rank"]) for r in board["result"]] == [("Ada", 1)]
    assert history["result"][-1]["author"] == "Eve"
    assert ScriptedAuthorSession.opened == 1
    verdict = calls(service, ("verdict", {"candidate": second["candidate"]}))[0].structured_content
    assert verdict["win"] is True
    assert calls(service, ("knowledge", {"query": "softmax", "most": 1}))[0].structured_content is not None


@pytest.mark.parametrize(
    ("tool", "given", "says"),
    [
        ("read_task", {"task": "none.py"}, "cannot read none.py"),
        ("read_task", {}, "task: Field required"),
        ("header", {"task": "SPEC", "region": "77"}, "there is no region 77"),
        ("region", {"task": "SPEC", "region": "n7"}, "no node 'n7'"),
        ("history", {"task": "SPEC", "last": 0}, "last: Input should be greater"),
        ("verdict", {"candidate": "nothing"}, "no candidate 'nothing'"),
        ("submit_unit", {"task": "SPEC", "units": []}, "1 to 16 units"),
        ("submit_unit", {"task": "SPEC", "units": [{"source": "int x;"}]}, "unit 1, line 1"),
        ("submit_unit", {"task": "SPEC", "units": [{"source": "x" * 300_000}]}, "units.0.source: String should have at most"),
        ("submit_unit", {"task": "SPEC", "units": [{"code": "x"}]}, "units.0.source: Field required"),
        ("submit_unit", {"task": "SPEC", "units": [{"source": unit(1.0)}], "onto": "best"}, "no best candidate"),
        ("list_tasks", {"suite": "nowhere"}, "neither a folder nor a suite"),
        ("no_such_tool", {}, "Unknown tool"),
    ],
)  # fmt: skip
def test_an_error_is_one_line(
    service: AuthoringService, task: Task, tool: str, given: dict[str, Any], says: str
) -> None:
    given = {k: spec(task) if v == "SPEC" else v for k, v in given.items()}
    answer = calls(service, (tool, given))[0]
    text = answer.content[0].text
    assert answer.is_error
    assert says in text
    assert len(text.splitlines()) == 1
    assert ScriptedAuthorSession.opened == 0


def test_progress_is_told_while_it_is_judged(
    service: AuthoringService, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stage lasts until it was told: progress is of what is being done when a client looks."""
    is_opening_told, is_judging_told, told = threading.Event(), threading.Event(), []
    opened, judged = ScriptedAuthorSession.__init__, ScriptedAuthorSession.judge_candidate

    def open_slowly(self: ScriptedAuthorSession, *given: Any) -> None:
        opened(self, *given)
        assert is_opening_told.wait(10)

    def slow(self: ScriptedAuthorSession, candidate: Candidate, known: Result | None = None) -> Result:
        assert is_judging_told.wait(10)
        return judged(self, candidate, known)

    async def progress(seconds: float, total: float | None, message: str | None) -> None:
        told.append(message)
        if message == "opening the scripted judge":
            is_opening_told.set()
        elif message is not None and message.startswith("judging"):
            is_judging_told.set()

    async def body(client: Client) -> Any:
        given = {"task": spec(task), "units": [{"source": unit(1.5)}]}
        return await client.call_tool("submit_unit", given, progress_callback=progress)

    monkeypatch.setattr(ScriptedAuthorSession, "__init__", open_slowly)
    monkeypatch.setattr(ScriptedAuthorSession, "judge_candidate", slow)
    assert with_client(service, body).structured_content["correct"]
    assert "opening the scripted judge" in told


def test_a_judge_that_breaks_is_an_error_of_the_tool(
    service: AuthoringService, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: ScriptedAuthorSession, candidate: Candidate, known: Result | None = None) -> Result:
        raise UsageError("the disk\nis full")

    monkeypatch.setattr(ScriptedAuthorSession, "judge_candidate", broken)
    answer = calls(service, ("submit_unit", {"task": spec(task), "units": [{"source": unit(1.5)}]}))[0]
    assert answer.is_error
    assert answer.content[0].text == "Error executing tool submit_unit: the disk is full"


def test_without_the_extra_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'warpsmith\[mcp\]'"):
        package.expect_startable(None)


def test_a_port_is_a_port() -> None:
    with pytest.raises(UsageError, match="--http 70000"):
        package.expect_startable(70_000)
