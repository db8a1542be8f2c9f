"""Jobs of this process while they run: who waits for one is woken by each change; every change that counts is in the journal first.

In: jobs, their rows and ends. Out: views of them. Jobs of another process on the same archive are read from the journal.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

from ..errors import UsageError
from .author_views import VerdictView
from .job_journal import JobJournal
from .jobs import JobView

POLL_SECONDS = 0.2  # between looks at a job of another process
MAX_REMEMBERED = 200  # jobs that have ended


class LiveJob:
    """A job that this process does."""

    def __init__(self, job: JobView) -> None:
        self.job = job
        self.future: Future[Any] | None = None
        self.given_up = False  # its author cancelled it

    @property
    def id(self) -> str:
        return self.job.job_id


class JobBoard:
    """Safe to use from several threads."""

    def __init__(self, journal: JobJournal) -> None:
        self._journal = journal
        self._changed = threading.Condition()
        self._live: dict[str, LiveJob] = {}

    def add(self, job: JobView) -> LiveJob:
        live = LiveJob(job)
        with self._changed:
            self._live[job.job_id] = live
            ended = [name for name, live_job in self._live.items() if live_job.job.ended]
            for name in ended[:-MAX_REMEMBERED]:
                del self._live[name]
        return live

    def begin(self, live: LiveJob) -> None:
        job = live.job
        self.update(
            live, state="running", started_at=job.started_at or _now(), starts=job.starts + 1, rows=(), error=""
        )  # fmt: skip

    def update(self, live: LiveJob, durable: bool = True, **changes: Any) -> None:
        with self._changed:
            live.job = live.job.model_copy(update=changes)
            if durable:
                self._journal.change(live.job)
            self._changed.notify_all()

    def tell_stage(self, task: str, text: str) -> None:
        """Say what the judge of a task is doing to all who wait for it."""
        with self._changed:
            waiting = [live for live in self._live.values() if live.job.task == task and not live.job.ended]
        for live in waiting:
            self.update(live, durable=False, stage=text)

    def put_row(self, live: LiveJob, row: VerdictView) -> None:
        """The latest word on a candidate takes the place of an earlier one."""
        rows = {r.candidate: r for r in live.job.rows} | {row.candidate: row}
        self.update(live, rows=tuple(rows.values()))

    def end(self, job_id: str, error: str, kind: str) -> None:
        with self._changed:
            live = self._live.get(job_id)
        if live is not None and not live.job.ended:
            state = "failed" if error else "done"
            self.update(live, state=state, error=error, error_kind=kind, finished_at=_now(), stage="")

    def finish(self, job: JobView, error: str) -> None:
        """End a job that cannot be begun."""
        self.update(self.add(job), state="failed", error=error, error_kind="JudgeError", finished_at=_now())

    def cancel(self, job_id: str) -> JobView:
        with self._changed:
            live = self._live.get(job_id)
        if live is None:
            job = self._read(job_id)
            if not job.ended:
                raise UsageError(f"job {job_id} is done by another process: cancel it there")
            return job
        live.given_up = True  # what is being judged now is judged to its end; nobody waits for it
        if live.future is not None:
            live.future.cancel()
        if not live.job.ended:
            self.update(live, state="cancelled", finished_at=_now(), stage="")
        return live.job

    def read(self, job_id: str, wait_s: float) -> JobView:
        """The job; with `wait_s`, as soon as it changes from what it is now, or after so many seconds."""
        before = self._read(job_id)
        mark = (before.state, len(before.rows), before.stage)

        def has_changed() -> bool:
            job = self._read(job_id)
            return job.ended or (job.state, len(job.rows), job.stage) != mark

        self._wait_for(job_id, has_changed, wait_s)
        return self._read(job_id)

    def wait_until_ended(self, job_id: str, seconds: float) -> JobView:
        self._wait_for(job_id, lambda: self._read(job_id).ended, seconds)
        return self._read(job_id)

    def _wait_for(self, job_id: str, condition: Any, seconds: float) -> None:
        if seconds <= 0:
            return
        with self._changed:
            if job_id in self._live:
                self._changed.wait_for(condition, seconds)
                return
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def _read(self, job_id: str) -> JobView:
        live = self._live.get(job_id)
        if live is not None:
            return live.job
        entry = self._journal.get(job_id)
        if entry is None:
            raise UsageError(f"no job {job_id[:40]!r}")
        return entry[0]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
