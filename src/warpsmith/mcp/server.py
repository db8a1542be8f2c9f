"""The tools of the MCP server, each one call of the service.

In: a `AuthoringService`. Out: an `MCPServer` whose tools have typed inputs and outputs. An error that is the caller's
to mend is a tool error of one line. Judging takes from seconds to a minute: progress is reported while it
runs, and a call that is given up does not stop it; its verdict is in the archive.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field, ValidationError

from .. import __version__
from ..authoring.answers import MAX_SOURCE_BYTES, Answer
from ..authoring.author_views import (
    AttemptRow,
    BoardRow,
    HeaderView,
    ProfileView,
    RegionView,
    TaskRow,
    TaskView,
    VerdictView,
)
from ..authoring.service import AuthoringService
from ..errors import UsageError, WarpsmithError
from ..knowledge.index import Passage
from ..records import Record

POLL_SECONDS = 0.1
REPORT_SECONDS = 5.0  # between two reports of the same stage
LOOKS = ToolAnnotations(read_only_hint=True)
INSTRUCTIONS = """\
Warpsmith judges kernels for PyTorch modules. A unit is one source file that replaces a region, a connected
part of a module's graph.
1. list_tasks or a path of yours, then read_task: source, graph, limits, proposed regions.
2. header for a region: task.h, the rules, a unit that works. knowledge and history: what may help, what was
   tried.
3. submit_unit: it is built, verified on many inputs and shapes, and timed against eager and torch.compile.
   Read the evidence, mend, submit again; `onto` adds units to a candidate that is there. A win is judged twice.
4. board shows the best so far. The first submission for a task opens its judge: about half a minute. Where a
   call timed out, history has the verdict later.
Speedups count over the best baseline, with the interval above 1. limit_share says what is left to gain."""

TaskName = Annotated[
    str, Field(description="A task of list_tasks, a path of a task file, or package.module:Class")
]
RegionName = Annotated[
    str,
    Field(description="Number of a proposed region, node names separated by commas, or 'all'; empty: 'all'"),
]
T = TypeVar("T")


class UnitText(Record):
    """One kernel source."""

    source: str = Field(
        description="The whole unit file, beginning with '// warpsmith-unit: 1'", max_length=MAX_SOURCE_BYTES
    )
    region: str = Field(
        default="",
        description="What it covers, as for header; empty: what its '// covers:' line says, else all",
    )


class Server(MCPServer[Any]):
    """Errors of tools are one line."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_wrong_arguments(error.__cause__)) from error.__cause__
            raise


def build_server(service: AuthoringService) -> Server:
    server = Server("warpsmith", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    _add_looking(server, service)
    _add_judging(server, service)
    return server


def _add_looking(server: Server, service: AuthoringService) -> None:
    @server.tool(annotations=LOOKS)
    def list_tasks(
        suite: Annotated[str, Field(description="A suite's name, or a folder of task files")] = "core",
    ) -> list[TaskRow]:
        """Tasks that can be optimized: those of a suite, and those the archive has runs of."""
        with tell_errors():
            return service.tasks(suite)

    @server.tool(annotations=LOOKS)
    def read_task(task: TaskName) -> TaskView:
        """A module's source, graph, FLOPs, least bytes, limit, baselines if measured, regions worth a kernel."""
        with tell_errors():
            return service.read(service.task(task), task)

    @server.tool(annotations=LOOKS)
    def region(task: TaskName, region: RegionName = "") -> RegionView:
        """One region: inputs and outputs in the order of the ABI, signature, limit, known techniques."""
        with tell_errors():
            return service.region(service.task(task), region)

    @server.tool(annotations=LOOKS)
    def header(task: TaskName, region: RegionName = "") -> HeaderView:
        """Read what a unit for a region includes (task.h), the rules that a unit keeps to, and a unit that works."""
        with tell_errors():
            return service.header(service.task(task), region)

    @server.tool(annotations=LOOKS)
    def history(
        task: TaskName, last: Annotated[int, Field(ge=1, le=200, description="How many")] = 20
    ) -> list[AttemptRow]:
        """List what was judged for a task so far, by whom and with which outcome, newest first."""
        with tell_errors():
            return service.history(service.task(task), last)

    @server.tool(annotations=LOOKS)
    def knowledge(
        query: Annotated[
            str, Field(max_length=4000, description="An operation, a bottleneck, an error message")
        ],
        most: Annotated[int, Field(ge=1, le=10)] = 3,
    ) -> list[Passage]:
        """Written knowledge on kernels for this target: techniques, hardware, numerics, errors and their causes."""
        with tell_errors():
            return service.knowledge(query, most)

    @server.tool(annotations=LOOKS)
    def verdict(
        candidate: Annotated[str, Field(max_length=64, description="A candidate's id")],
    ) -> VerdictView:
        """The last verdict on a candidate, with its evidence."""
        with tell_errors():
            return service.verdict(candidate)

    @server.tool(annotations=LOOKS)
    def board(task: TaskName) -> list[BoardRow]:
        """The fastest correct candidates of a task, and who wrote them."""
        with tell_errors():
            return service.board(service.task(task))


def _add_judging(server: Server, service: AuthoringService) -> None:
    @server.tool()
    async def profile(task: TaskName, context: Context[Any, Any]) -> ProfileView:
        """Measure where the reference spends its time here, baselines, limit, what was seen of the fastest units."""
        with tell_errors():
            loaded = await anyio.to_thread.run_sync(service.task, task)
            return await follow(context, service, service.profile(loaded))

    @server.tool()
    async def submit_unit(
        task: TaskName,
        units: Annotated[list[UnitText], Field(description="One unit, or several for different regions")],
        context: Context[Any, Any],
        onto: Annotated[
            str,
            Field(max_length=64, description="A candidate's id or 'best': keep its other units; empty: none"),
        ] = "",
        author: Annotated[str, Field(max_length=80, description="Your name, for the board")] = "agent",
        note: Annotated[str, Field(max_length=400, description="Why it should be faster")] = "",
    ) -> VerdictView:
        """Build, verify and time a candidate against PyTorch: why it failed, or how fast it is. It is kept."""
        answers = [Answer(source=u.source, region=u.region, name=f"unit {i}") for i, u in enumerate(units, 1)]
        with tell_errors():
            loaded = await anyio.to_thread.run_sync(service.task, task)
            candidate = await anyio.to_thread.run_sync(
                lambda: service.candidate(loaded, answers, onto=onto, author=author, note=note)
            )
            return await follow(context, service, service.submit(loaded, candidate))


async def follow(context: Context[Any, Any], service: AuthoringService, job: Future[T]) -> T:
    """The job's outcome, with progress while it runs."""
    started, said, at = time.monotonic(), "", 0.0
    while not job.done():
        elapsed = time.monotonic() - started
        stage = service.stage if job.running() else "waiting for the judge"
        if stage != said or elapsed - at >= REPORT_SECONDS:
            said, at = stage, elapsed
            await context.report_progress(round(elapsed, 1), None, stage)
        await anyio.sleep(POLL_SECONDS)
    return job.result()


@contextmanager
def tell_errors() -> Iterator[None]:
    """Tell an error as the one line that the caller reads."""
    try:
        yield
    except WarpsmithError as error:
        raise ToolError(" ".join(str(error).split())) from error


def run_http(server: Server, host: str, port: int) -> None:
    """Serve at http://host:port/mcp until interrupted. Raises UsageError where the port is taken."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise UsageError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another --http PORT"
            ) from error
        config = uvicorn.Config(
            server.streamable_http_app(host=host), log_level="warning", timeout_graceful_shutdown=2
        )
        uvicorn.Server(config).run(sockets=[listening])


def _wrong_arguments(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
