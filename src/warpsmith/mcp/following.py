"""A job as a tool waits for it, with progress; errors as the one line that a tool tells.

In: an author and a request. Out: the job once it has ended, or as it is after a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from ..authoring.author import Author, expect_success
from ..authoring.jobs import JobRequest, JobView
from ..errors import WarpsmithError
from .arguments import MAX_WAIT_SECONDS

LOOK_SECONDS = 2.0  # of one look at a job; it returns at once when the job changes
REPORT_SECONDS = 5.0  # between two reports of the same stage
T = TypeVar("T")


async def run_job(
    context: Context[Any, Any], service: Author, request: JobRequest, wait_s: float = MAX_WAIT_SECONDS
) -> JobView:
    """Submit a job and wait for it. A job that failed is an error of the tool."""
    with tell_errors():
        job = await anyio.to_thread.run_sync(service.submit, request)
        job = await follow_job(context, service, job, wait_s)
        return expect_success(job)


async def follow_job(context: Context[Any, Any], service: Author, job: JobView, wait_s: float) -> JobView:
    """The job once it has ended, or after so many seconds, with progress while it runs."""
    started, said, at = time.monotonic(), "", 0.0
    while not job.ended and (left_s := wait_s - (time.monotonic() - started)) > 0:
        elapsed = time.monotonic() - started
        stage = job.stage or "waiting for the judge"
        if stage != said or elapsed - at >= REPORT_SECONDS:
            said, at = stage, elapsed
            await context.report_progress(round(elapsed, 1), None, stage)
        look = _bind(service.job, job.job_id, min(LOOK_SECONDS, left_s))
        job = await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
    return job


def _bind(function: Callable[..., T], *arguments: Any) -> Callable[[], T]:
    return lambda: function(*arguments)


@contextmanager
def tell_errors() -> Iterator[None]:
    """Tell an error as the one line that the caller reads."""
    try:
        yield
    except WarpsmithError as error:
        raise ToolError(" ".join(str(error).split())) from error
