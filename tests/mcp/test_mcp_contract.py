"""The tools, as a client of the protocol calls them, keep the contract of every face."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client
from pydantic import TypeAdapter

from warpsmith.authoring.author import LocalAuthor
from warpsmith.authoring.author_views import (
    AttemptRow,
    BoardRow,
    CodeView,
    HeaderView,
    RegionView,
    SourceView,
    TaskRow,
    TaskView,
    VerdictView,
)
from warpsmith.authoring.jobs import JobRequest, JobView
from warpsmith.authoring.service import AuthoringService
from warpsmith.errors import UsageError
from warpsmith.knowledge.index import Passage
from warpsmith.mcp.server import build_server
from warpsmith.testing import AuthorContract


class McpAuthor:
    """The calls of an author as calls of tools."""

    def __init__(self, service: AuthoringService) -> None:
        self._service = service

    def tasks(self, suite: str = "core") -> list[TaskRow]:
        return self._call(list[TaskRow], "list_tasks", suite=suite)

    def read_task(self, task: str) -> TaskView:
        return self._call(TaskView, "read_task", task=task)

    def region(self, task: str, region: str = "") -> RegionView:
        return self._call(RegionView, "region", task=task, region=region)

    def header(self, task: str, region: str = "") -> HeaderView:
        return self._call(HeaderView, "header", task=task, region=region)

    def machine_page(self, gpu: str = "") -> str:
        return self._call(str, "machine", gpu=gpu)

    def history(self, task: str, last: int = 20) -> list[AttemptRow]:
        return self._call(list[AttemptRow], "history", task=task, last=last)

    def board(self, task: str) -> list[BoardRow]:
        return self._call(list[BoardRow], "board", task=task)

    def knowledge(self, query: str, most: int = 3) -> list[Passage]:
        return self._call(list[Passage], "knowledge", query=query, most=most)

    def verdict(self, candidate: str) -> VerdictView:
        return self._call(VerdictView, "verdict", candidate=candidate)

    def source(self, candidate: str) -> SourceView:
        return self._call(SourceView, "source", candidate=candidate)

    def submit(self, request: JobRequest) -> JobView:
        given: dict[str, Any] = {"task": request.task}
        candidates = [
            {
                "units": [{"source": u.source, "region": u.region} for u in s.units],
                "onto": s.onto,
                "note": s.note,
            }
            for s in request.submissions
        ]
        if request.kind == "screen":
            more = {"confirm": request.confirm, "author": request.author, "wait_s": 0}
            return self._call(JobView, "submit_units", **given, candidates=candidates, **more)
        if request.kind == "check":
            return self._call(JobView, "check_units", **given, candidates=candidates)
        if request.kind == "tune":
            tuned = {"candidate": request.candidates[0], "settings": request.settings}
            return self._call(JobView, "tune", **tuned)
        if request.kind == "inspect":
            self._call(list[CodeView], "inspect_code", **given, candidates=list(request.candidates))
        elif request.kind == "profile":
            self._call(dict, "profile", **given)
        else:
            one = candidates[0] if candidates else {"units": []}
            self._call(VerdictView, "submit_unit", **given, **one, author=request.author)
        return self.jobs(1)[0]

    def job(self, job: str, wait_s: float = 0.0) -> JobView:
        return self._call(JobView, "job", job=job, wait_s=wait_s)

    def jobs(self, last: int = 20) -> list[JobView]:
        return self._call(list[JobView], "jobs", last=last)

    def cancel(self, job: str) -> JobView:
        return self._call(JobView, "cancel", job=job)

    def _call(self, kind: Any, tool: str, **given: Any) -> Any:
        async def run() -> Any:
            async with Client(build_server(LocalAuthor(self._service))) as client:
                return await client.call_tool(tool, given)

        answer = asyncio.run(run())
        if answer.is_error:
            raise UsageError(answer.content[0].text)
        content = answer.structured_content
        is_wrapped = kind is str or getattr(kind, "__origin__", None) is list
        return TypeAdapter(kind).validate_python(content["result"] if is_wrapped else content)


@pytest.fixture
def author(service: AuthoringService) -> McpAuthor:
    return McpAuthor(service)


class TestMcpAuthor(AuthorContract):
    pass
