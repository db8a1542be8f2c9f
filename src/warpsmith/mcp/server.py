"""The tools of the MCP server, each one call of an author.

In: an `Author`, in this process or elsewhere. Out: an `MCPServer` whose tools have typed inputs and outputs. An error that is the caller's
to mend is a tool error of one line. What takes long is a job: a tool waits for it for a while and reports progress; a call that is given up
does not stop it, and `job` has it later.
"""

from __future__ import annotations

import socket
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field, ValidationError

from .. import __version__
from ..authoring.answers import MAX_NOTE_CHARACTERS
from ..authoring.author import Author
from ..authoring.author_views import (
    AttemptRow,
    BoardRow,
    CodeView,
    HeaderView,
    ProfileView,
    RegionView,
    SourceView,
    TaskRow,
    TaskView,
    VerdictView,
)
from ..authoring.jobs import MAX_BATCH, MAX_SETTINGS, Confirm, JobRequest, JobView, Submission
from ..errors import UsageError
from ..knowledge.index import Passage
from .arguments import (
    WAIT_SECONDS,
    AuthorName,
    CandidateId,
    CandidateText,
    Onto,
    RegionName,
    Shared,
    TaskName,
    UnitText,
    Wait,
    make_answers,
    make_submissions,
)
from .following import follow_job, run_job, tell_errors

LOOKS = ToolAnnotations(read_only_hint=True)
INSTRUCTIONS = """\
Warpsmith judges kernels for PyTorch modules. A unit is one source file that replaces a region, a connected
part of a module's graph. A candidate is one unit, or several for different regions.
1. list_tasks or a path of yours, then read_task: source, graph, limits, proposed regions.
2. header for a region: task.h, the rules, a unit that works. machine: what it runs on. profile: where the time goes. knowledge,
   history, and source of any candidate: what may help, what was tried, what to build upon.
3. submit_units: several variants at once. They are built, tried on two inputs and timed alone, seconds each. This is an
   estimate, no verdict. check_units only compiles.
4. tune: a search over the values of a candidate's declared tunables.
5. Ask for a verdict on what looks best: submit_units with confirm="best", or submit_unit. It is verified on many
   inputs and shapes, timed against eager and torch.compile, and a win is judged twice; this takes a minute.
6. board shows the best so far. What takes long is a job with an id: where a call returns a job that has not ended,
   ask for it with job.
Times are compared with one fixed baseline of the task; speedups count over the best baseline, with the interval above 1.
limit_share says what is left to gain. A note that the machine is busy means that times may be too long."""


class Server(MCPServer[Any]):
    """Errors of tools are one line."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_wrong_arguments(error.__cause__)) from error.__cause__
            raise


def build_server(service: Author) -> Server:
    server = Server("warpsmith", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    _add_looking(server, service)
    _add_results(server, service)
    _add_judging(server, service)
    _add_jobs(server, service)
    return server


def _add_looking(server: Server, service: Author) -> None:
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
            return service.read_task(task)

    @server.tool(annotations=LOOKS)
    def region(task: TaskName, region: RegionName = "") -> RegionView:
        """One region: inputs and outputs in the order of the ABI, signature, limit, known techniques."""
        with tell_errors():
            return service.region(task, region)

    @server.tool(annotations=LOOKS)
    def header(task: TaskName, region: RegionName = "") -> HeaderView:
        """Read what a unit for a region includes (task.h), the rules that a unit keeps to, and a unit that works."""
        with tell_errors():
            return service.header(task, region)

    @server.tool(annotations=LOOKS)
    def machine(
        gpu: Annotated[
            str,
            Field(max_length=64, description="A GPU's short name, such as h100; empty: the judge's machine"),
        ] = "",
    ) -> str:
        """Describe the machine that units are timed on: cores, caches, vector widths, rates measured; or a GPU by its name."""
        with tell_errors():
            return service.machine_page(gpu)

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


def _add_results(server: Server, service: Author) -> None:
    @server.tool(annotations=LOOKS)
    def history(
        task: TaskName, last: Annotated[int, Field(ge=1, le=200, description="How many")] = 20
    ) -> list[AttemptRow]:
        """List what was screened and judged for a task, by whom, with which values, time and outcome, newest first."""
        with tell_errors():
            return service.history(task, last)

    @server.tool(annotations=LOOKS)
    def verdict(candidate: CandidateId) -> VerdictView:
        """The last word on a candidate, with its evidence."""
        with tell_errors():
            return service.verdict(candidate)

    @server.tool(annotations=LOOKS)
    def source(candidate: CandidateId) -> SourceView:
        """Any candidate's sources, values of tunables, time, and difference from its parent: to read and to build upon."""
        with tell_errors():
            return service.source(candidate)

    @server.tool(annotations=LOOKS)
    def board(task: TaskName) -> list[BoardRow]:
        """The fastest correct candidates of a task, with values and times, and who wrote them."""
        with tell_errors():
            return service.board(task)


def _add_judging(server: Server, service: Author) -> None:
    @server.tool()
    async def profile(task: TaskName, context: Context[Any, Any]) -> ProfileView:
        """Measure where the reference spends its time here, baselines, limit, what was seen of the fastest units."""
        job = await run_job(context, service, JobRequest(kind="profile", task=task))
        if job.profile is None:
            raise ToolError(f"there is no profile: job {job.job_id} ended as {job.state}")
        return job.profile

    @server.tool()
    async def check_units(
        task: TaskName,
        candidates: Annotated[list[CandidateText], Field(max_length=MAX_BATCH)],
        context: Context[Any, Any],
    ) -> JobView:
        """Compile candidates at every shape of the task and look for what is forbidden; nothing runs, no judge is opened."""
        with tell_errors():
            request = JobRequest(kind="check", task=task, submissions=make_submissions(candidates))
        return await run_job(context, service, request, WAIT_SECONDS)

    @server.tool()
    async def submit_units(
        task: TaskName,
        candidates: Annotated[
            list[CandidateText], Field(max_length=MAX_BATCH, description="Variants to compare")
        ],
        context: Context[Any, Any],
        confirm: Annotated[
            Confirm, Field(description="Who also gets a verdict, a minute each: nobody, the best, or all")
        ] = "none",
        author: AuthorName = "agent",
        shared: Shared = False,
        wait_s: Wait = WAIT_SECONDS,
    ) -> JobView:
        """Screen several candidates: built, right on two inputs or not, timed alone. Seconds each; an estimate, no verdict."""
        with tell_errors():
            request = JobRequest(
                kind="screen", task=task, submissions=make_submissions(candidates), confirm=confirm, author=author,
                shared=shared,
            )  # fmt: skip
        return await run_job(context, service, request, wait_s)

    @server.tool()
    async def submit_unit(
        task: TaskName,
        units: Annotated[list[UnitText], Field(description="One unit, or several for different regions")],
        context: Context[Any, Any],
        onto: Onto = "",
        author: AuthorName = "agent",
        note: Annotated[
            str, Field(max_length=MAX_NOTE_CHARACTERS, description="Why it should be faster")
        ] = "",
    ) -> VerdictView:
        """Build, verify and time one candidate against PyTorch: why it failed, or how fast it is. It is kept; a win is judged twice."""
        with tell_errors():
            submission = Submission(units=make_answers(units), onto=onto, note=note)
            request = JobRequest(kind="verdict", task=task, submissions=(submission,), author=author)
        return _only_row(await run_job(context, service, request))

    @server.tool()
    async def inspect_code(
        task: TaskName,
        candidates: Annotated[list[CandidateId], Field(min_length=1, max_length=8, description="Ids")],
        context: Context[Any, Any],
    ) -> list[CodeView]:
        """Machine code of candidates beside their parents': hot loop, vector widths, registers, spills; a GPU's counters and stalls."""
        request = JobRequest(kind="inspect", task=task, candidates=tuple(candidates))
        return list((await run_job(context, service, request)).code)

    @server.tool()
    async def tune(
        candidate: CandidateId,
        context: Context[Any, Any],
        settings: Annotated[int, Field(ge=1, le=MAX_SETTINGS, description="How many to try")] = 24,
        confirm: Annotated[Confirm, Field(description="Who also gets a verdict")] = "none",
        wait_s: Wait = WAIT_SECONDS,
    ) -> JobView:
        """Screen a candidate at other values of the tunables that its units declare; `best` is the one to go on with."""

        def ask() -> JobRequest:
            task = service.source(candidate).task
            return JobRequest(
                kind="tune", task=task, candidates=(candidate,), settings=settings, confirm=confirm
            )

        with tell_errors():
            request = await anyio.to_thread.run_sync(ask)
        return await run_job(context, service, request, wait_s)


def _add_jobs(server: Server, service: Author) -> None:
    @server.tool(annotations=LOOKS)
    async def job(
        job: Annotated[str, Field(max_length=64, description="A job's id")],
        context: Context[Any, Any],
        wait_s: Wait = 0.0,
    ) -> JobView:
        """A job as it is now, with what it has found so far; `wait_s`: wait for its end so long."""
        with tell_errors():
            view = await anyio.to_thread.run_sync(service.job, job)
            return await follow_job(context, service, view, wait_s)

    @server.tool(annotations=LOOKS)
    def jobs(last: Annotated[int, Field(ge=1, le=200)] = 20) -> list[JobView]:
        """Your jobs, newest first."""
        with tell_errors():
            return service.jobs(last)

    @server.tool()
    def cancel(job: Annotated[str, Field(max_length=64, description="A job's id")]) -> JobView:
        """Give a job up; what it has found is kept."""
        with tell_errors():
            return service.cancel(job)


def _only_row(job: JobView) -> VerdictView:
    if not job.rows:
        raise ToolError(f"there is no verdict: job {job.job_id} ended as {job.state}")
    return job.rows[-1]


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
