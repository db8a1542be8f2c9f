"""Judges of several tasks, each in a worker of its own: work for one task goes to the judge that is open on it.

Work for a task in, a future out. At most so many are open at a time; what they measure takes turns by the machine's device lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from ..records import Task
from .session_worker import IDLE_SECONDS, JudgeSessionWorker, S

T = TypeVar("T")


class JudgePool(Generic[S]):
    """Safe to use from several threads. `open_on(task)` opens a judge, in the thread of its worker."""

    def __init__(
        self, open_on: Callable[[Task], S], most: int = 1, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._workers = [JudgeSessionWorker(open_on, idle_seconds) for _ in range(max(1, most))]
        self._lock = threading.Lock()

    def submit(self, task: Task, work: Callable[[S], T], yields_s: float = 0.0) -> Future[T]:
        """See `JudgeSessionWorker.submit`."""
        with self._lock:
            return self._choose(task.id).submit(task, work, yields_s)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    def _choose(self, task_id: str) -> JudgeSessionWorker[S]:
        """The worker that is on the task already; else one that has nothing to do, a closed one first; else the least busy."""
        tasks = {id(worker): worker.tasks for worker in self._workers}
        for worker in self._workers:
            if task_id in tasks[id(worker)]:
                return worker
        return min(self._workers, key=lambda w: (w.load, w.opened is not None))
