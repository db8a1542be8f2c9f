"""What an author can do, in one protocol: the same calls whether the service is in this process, behind HTTP, or behind MCP.

In: plain text and records. Out: views. `LocalAuthor` is the service as one owner sees it; `warpsmith.serving.client.RemoteAuthor` forwards to a
service elsewhere. The command line and the MCP server know this protocol alone. Errors are WarpsmithErrors of one line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from .. import __version__, machine
from ..errors import make_error
from ..knowledge.index import Passage
from ..records import Record
from .author_views import (
    AttemptRow,
    BoardRow,
    HeaderView,
    RegionView,
    SourceView,
    TaskRow,
    TaskView,
    VerdictView,
)
from .describe import name_hardware
from .jobs import JobRequest, JobView
from .machine_page import write_machine_page
from .observing import Observation
from .service import AuthoringService

WAIT_SECONDS = 20.0  # of one call that waits for a job
Overrides = dict[str, Any] | None


class ServiceView(Record):
    """Who answers."""

    version: str  # of warpsmith
    target: str
    hardware: str  # that results are measured on
    can_judge: bool  # False: it has no such device, and answers what needs none


class Author(Protocol):
    def about(self) -> ServiceView:
        """Say what service this is."""
        ...

    def tasks(self, suite: str = "core") -> list[TaskRow]:
        """List the tasks of a suite, and those the archive has runs of."""
        ...

    def open_task(self, task: str, overrides: Overrides = None) -> TaskRow:
        """Load a task by its name (a path where the service is this process) and keep it in the archive."""
        ...

    def add_task(self, name: str, source: str, overrides: Overrides = None) -> TaskRow:
        """Hand in a task file's text; it is its owner's alone."""
        ...

    def read_task(self, task: str) -> TaskView:
        """Source, graph, limit, baselines and regions of a task."""
        ...

    def region(self, task: str, region: str = "") -> RegionView:
        """One region of a task."""
        ...

    def header(self, task: str, region: str = "") -> HeaderView:
        """The header, the rules and an example for a region."""
        ...

    def machine_page(self, gpu: str = "") -> str:
        """Describe the machine that units are timed on, or a GPU by its short name."""
        ...

    def observe(self, task: str) -> Observation:
        """Return what a policy may see of a task: see `observing`."""
        ...

    def history(self, task: str, last: int = 20) -> list[AttemptRow]:
        """List what was screened and judged for a task, newest first."""
        ...

    def board(self, task: str) -> list[BoardRow]:
        """The fastest correct candidates of a task."""
        ...

    def knowledge(self, query: str, most: int = 3) -> list[Passage]:
        """Passages of the written knowledge base."""
        ...

    def verdict(self, candidate: str) -> VerdictView:
        """The last word on a candidate."""
        ...

    def source(self, candidate: str) -> SourceView:
        """A candidate's sources, values, and difference from its parent."""
        ...

    def submit(self, request: JobRequest) -> JobView:
        """Ask for a job; returns at once."""
        ...

    def job(self, job: str, wait_s: float = 0.0) -> JobView:
        """A job as it is; with `wait_s`, as soon as it changes, or after so many seconds."""
        ...

    def jobs(self, last: int = 20) -> list[JobView]:
        """Jobs of this author, newest first."""
        ...

    def cancel(self, job: str) -> JobView:
        """Give a job up."""
        ...


class LocalAuthor:
    """The service as one owner sees it; "" is the operator, who may name files of this machine."""

    def __init__(self, service: AuthoringService, owner: str = "") -> None:
        self.service, self.owner = service, owner

    def about(self) -> ServiceView:
        target = self.service.target_name
        can_judge = target != "cuda" or machine.gpu() is not None
        return ServiceView(
            version=__version__, target=target, hardware=name_hardware(target), can_judge=can_judge
        )

    def tasks(self, suite: str = "core") -> list[TaskRow]:
        return self.service.tasks(suite, self.owner)

    def open_task(self, task: str, overrides: Overrides = None) -> TaskRow:
        loaded = self.service.task(task, overrides, self.owner)
        self.service.archive.add_task(loaded)
        return TaskRow(task=f"archive:{loaded.id}", name=loaded.name, where="archive")

    def add_task(self, name: str, source: str, overrides: Overrides = None) -> TaskRow:
        return self.service.add_task(name, source, overrides, self.owner)

    def read_task(self, task: str) -> TaskView:
        return self.service.read(self._load(task), task)

    def region(self, task: str, region: str = "") -> RegionView:
        return self.service.region(self._load(task), region)

    def header(self, task: str, region: str = "") -> HeaderView:
        view = self.service.header(self._load(task), region, self.owner)
        return view if not self.owner else view.model_copy(update={"helpers": Path(view.helpers).name})

    def machine_page(self, gpu: str = "") -> str:
        return write_machine_page(self.service.config, self.service.target_name, gpu)

    def observe(self, task: str) -> Observation:
        return self.service.observe(self._load(task), task, self.owner)

    def history(self, task: str, last: int = 20) -> list[AttemptRow]:
        return self.service.history(self._load(task), last, self.owner)

    def board(self, task: str) -> list[BoardRow]:
        return self.service.board(self._load(task), self.owner)

    def knowledge(self, query: str, most: int = 3) -> list[Passage]:
        return self.service.knowledge(query, most)

    def verdict(self, candidate: str) -> VerdictView:
        return self.service.verdict(candidate, self.owner)

    def source(self, candidate: str) -> SourceView:
        return self.service.source(candidate, self.owner)

    def submit(self, request: JobRequest) -> JobView:
        return self.service.submit(request, self.owner)

    def job(self, job: str, wait_s: float = 0.0) -> JobView:
        return self.service.job(job, min(wait_s, WAIT_SECONDS), self.owner)

    def jobs(self, last: int = 20) -> list[JobView]:
        return self.service.jobs(last, self.owner)

    def cancel(self, job: str) -> JobView:
        return self.service.cancel(job, self.owner)

    def _load(self, task: str) -> Any:
        return self.service.task(task, owner=self.owner)


def wait_for_end(
    author: Author, job: JobView, seconds: float | None = None, progress: Callable[[JobView], None] = lambda job: None
) -> JobView:  # fmt: skip
    """Poll a job until it has ended, or for so many seconds; `progress` hears each change."""
    deadline = time.monotonic() + seconds if seconds is not None else None
    while not job.ended:
        left_s = WAIT_SECONDS if deadline is None else min(WAIT_SECONDS, deadline - time.monotonic())
        if left_s <= 0:
            break
        job = author.job(job.job_id, left_s)
        progress(job)
    return job


def expect_success(job: JobView) -> JobView:
    """Raises the error that ended the job."""
    if job.state == "failed":
        raise make_error(job.error_kind, job.error)
    return job


__all__ = ["Author", "LocalAuthor", "ServiceView", "expect_success", "wait_for_end"]
