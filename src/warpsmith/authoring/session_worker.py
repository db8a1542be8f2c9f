"""One judge at a time, kept open between submissions, because opening one takes half a minute.

Work for a task in, a future out. All of it runs in one thread, in order: one machine has one judge, and
what a judge starts ends with the thread that started it (the kernel tells children of a thread's death), so
that thread must live on. A judge is closed when another task's turn comes, when nothing was asked of it for
a while, after an error, and with the worker.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ..records import Task

IDLE_SECONDS = 300.0  # after which an open judge gives its memory back
GRACE_SECONDS = 1.0  # for work that is under way when the worker is closed

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
    future: Future[Any]


class JudgeSessionWorker(Generic[S]):
    """A context manager. `open_on(task)` opens a judge; it is called, as all work, in the worker's thread."""

    def __init__(self, open_on: Callable[[Task], S], idle_seconds: float = IDLE_SECONDS) -> None:
        self._open_on, self._idle = open_on, idle_seconds
        self._jobs: queue.SimpleQueue[_Job[S] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._opened: S | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def opened(self) -> S | None:
        """The session that is open now, for those who only look."""
        return self._opened

    def submit(self, task: Task, work: Callable[[S], T]) -> Future[T]:
        """`work` gets the judge that is open on the task. Its exception, or the opening's, is the future's."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the worker is closed")
            if self._thread is None:
                # A daemon: a program that ends does not wait for a judgement, and takes the judge's processes along.
                self._thread = threading.Thread(target=self._serve, name="judge", daemon=True)
                self._thread.start()
        self._jobs.put(_Job(task, work, future))
        return future

    def close(self) -> None:
        """Waits for work under way no longer than `GRACE_SECONDS`: its processes die with this one. Safe to
        call twice.
        """
        with self._lock:
            thread, self._closed = self._thread, True
        if thread is None or not thread.is_alive():
            return
        self._cancel_waiting()
        self._jobs.put(None)
        thread.join(GRACE_SECONDS)

    def _cancel_waiting(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            if job is not None:
                job.future.cancel()

    def __enter__(self) -> JudgeSessionWorker[S]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._idle if self._opened is not None else None)
            except queue.Empty:
                self._end()
                continue
            if job is None:
                self._end()
                return
            self._do(job)

    def _do(self, job: _Job[S]) -> None:
        if not job.future.set_running_or_notify_cancel():
            return
        try:
            answer = job.work(self._on(job.task))
        except BaseException as error:  # noqa: BLE001 - the thread's boundary: the future takes it to who asked
            self._end()  # whatever broke, the next one gets a fresh judge
            job.future.set_exception(error)
        else:
            job.future.set_result(answer)

    def _on(self, task: Task) -> S:
        if self._opened is None or self._opened.task.id != task.id:
            self._end()
            self._opened = self._open_on(task)
        return self._opened

    def _end(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
