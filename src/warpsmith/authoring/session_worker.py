"""One judge at a time, kept open between submissions, because opening one takes half a minute.

Work for a task in, a future out. All of it runs in one thread, one at a time, because what a judge starts ends with the thread that
started it (the kernel tells children of a thread's death), so that thread must live on. Work is done in the order in which it came; what
may wait (a verdict, beside a quick screening) says for how long it lets others go first, and what the open judge is for goes before what
would close it, for a while. A judge is closed when another task's turn comes, when nothing was asked of it for a while, after an
error, and with the worker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ..records import Task

IDLE_SECONDS = 300.0  # after which an open judge gives its memory back
GRACE_SECONDS = 1.0  # for work that is under way when the worker is closed
STICKY_SECONDS = 60.0  # that work for the open judge may go before older work for another

T = TypeVar("T")


class Closing(Protocol):
    """A thing that is open on a task and can be closed."""

    @property
    def task(self) -> Task: ...

    def close(self) -> None:
        """End every process. Safe to call twice."""
        ...


S = TypeVar("S", bound=Closing)


@dataclass
class _Job(Generic[S]):
    task: Task
    work: Callable[[S], Any]
    due: float  # its place: when it came, and for how long it lets others go first
    future: Future[Any] = field(default_factory=Future)


class JudgeSessionWorker(Generic[S]):
    """A context manager. `open_on(task)` opens a judge; it is called, as all work, in the worker's thread."""

    def __init__(self, open_on: Callable[[Task], S], idle_seconds: float = IDLE_SECONDS) -> None:
        self._open_on, self._idle = open_on, idle_seconds
        self._changed = threading.Condition()
        self._waiting: list[_Job[S]] = []
        self._thread: threading.Thread | None = None
        self._opened: S | None = None
        self._running: str = ""  # id of the task that is worked on
        self._closed = False

    @property
    def opened(self) -> S | None:
        """The session that is open now, for those who only look."""
        return self._opened

    @property
    def tasks(self) -> list[str]:
        """List the ids of the tasks that it is open on or has work for."""
        with self._changed:
            opened = [self._opened.task.id] if self._opened is not None else []
            running = [self._running] if self._running else []
            return [*opened, *running, *(job.task.id for job in self._waiting)]

    @property
    def load(self) -> int:
        """Count the work that waits or is under way."""
        with self._changed:
            return len(self._waiting) + bool(self._running)

    def submit(self, task: Task, work: Callable[[S], T], yields_s: float = 0.0) -> Future[T]:
        """`work` gets the judge that is open on the task. Its exception, or the opening's, is the future's. `yields_s`: seconds by
        which later work may go first.
        """
        job: _Job[S] = _Job(task, work, time.monotonic() + yields_s)
        with self._changed:
            if self._closed:
                raise RuntimeError("the worker is closed")
            if self._thread is None:
                # A daemon: a program that ends does not wait for a judgement, and takes the judge's processes along.
                self._thread = threading.Thread(target=self._serve, name="judge", daemon=True)
                self._thread.start()
            self._waiting.append(job)
            self._changed.notify_all()
        return job.future

    def close(self) -> None:
        """Waits for work under way no longer than `GRACE_SECONDS`: its processes die with this one. Safe to
        call twice.
        """
        with self._changed:
            thread, self._closed = self._thread, True
            cancelled, self._waiting = self._waiting, []
            self._changed.notify_all()
        for job in cancelled:
            job.future.cancel()
        if thread is not None and thread.is_alive():
            thread.join(GRACE_SECONDS)

    def __enter__(self) -> JudgeSessionWorker[S]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        while True:
            with self._changed:
                idle_s = self._idle if self._opened is not None else None
                came = self._changed.wait_for(lambda: self._closed or self._waiting, idle_s)
                job = self._take_next() if self._waiting else None
                self._running = job.task.id if job is not None else ""
            if job is not None:
                self._do(job)
            elif not came or self._closed:
                self._end()
            if self._closed and job is None:
                return

    def _take_next(self) -> _Job[S]:
        """The earliest due; one for the open judge goes first while the other has not waited for long."""
        first = min(self._waiting, key=lambda job: job.due)
        if self._opened is not None:
            task_id = self._opened.task.id
            same = [j for j in self._waiting if j.task.id == task_id and j.due <= first.due + STICKY_SECONDS]
            first = min(same, key=lambda job: job.due, default=first)
        self._waiting.remove(first)
        return first

    def _do(self, job: _Job[S]) -> None:
        try:
            if not job.future.set_running_or_notify_cancel():
                return
            answer = job.work(self._on(job.task))
        except BaseException as error:  # noqa: BLE001 - the thread's boundary: the future takes it to who asked
            self._end()  # whatever broke, the next one gets a fresh judge
            job.future.set_exception(error)
        else:
            job.future.set_result(answer)
        finally:
            self._running = ""

    def _on(self, task: Task) -> S:
        if self._opened is None or self._opened.task.id != task.id:
            self._end()
            self._opened = self._open_on(task)
        return self._opened

    def _end(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
