"""The judge's two torch helpers: the task host, which runs the task's Python, and the reference worker, which
never does.

In: a task. Out: values files and the reference worker's answers. Both can be restarted when one is lost; they
die with this process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...processes.buffers import Scratch
from ...processes.worker import Worker
from ...records import Task
from ...tasks.client import TaskHost
from ..device.device_lock import DeviceLock

REFERENCE_MODULE = "warpsmith.judge.correctness.reference"
OPEN_SECONDS = 120.0  # a torch import on a busy machine


class Workers:
    """A context manager. `device` "cpu" or "cuda": where the reference worker computes. Raises what `Worker`
    raises (reference worker) and TaskError (host).
    """

    def __init__(
        self,
        task: Task,
        scratch: Scratch,
        threads: int,
        device: str = "cpu",
        device_lock: DeviceLock | None = None,
    ) -> None:
        self.task, self.scratch, self.threads, self.device = task, scratch, threads, device
        self._device_lock = device_lock or DeviceLock()
        self._host: TaskHost | None = None
        self._reference: Worker | None = None
        self._file = scratch.new("task")
        self._file.write_text(task.model_dump_json())

    def __enter__(self) -> Workers:
        self._launch()  # both import torch at the same time
        return self

    def _launch(self) -> None:
        env = {"OMP_NUM_THREADS": str(self.threads)}
        self._reference = Worker(REFERENCE_MODULE, self.scratch.new("reference"), env=env)
        self._reference.send("open", task_file=str(self._file), threads=self.threads, device=self.device)
        self._opened = False
        self._host = TaskHost(self.task.source, scratch=self.scratch)

    def call(self, op: str, timeout: float, **fields: Any) -> dict[str, Any]:
        """Ask the reference worker."""
        assert self._reference is not None
        if not self._opened:
            self._reference.receive(OPEN_SECONDS)
            self._opened = True
        worker = self._reference
        with self._device_lock.run_in_background(worker.pause, worker.resume):
            return worker.call(op, timeout, **fields)

    def materialise(self, variant: str, seed: int, path: Path) -> None:
        """The task's own values at a seed."""
        assert self._host is not None
        if not self._host.worker.alive:
            self._host.close()
            self._host = TaskHost(self.task.source, scratch=self.scratch)
        self._host.materialise(self.task.variant(variant), seed, path)

    @property
    def processes(self) -> tuple[Worker, ...]:
        """The processes that run now."""
        host = self._host.worker if self._host is not None else None
        return tuple(worker for worker in (host, self._reference) if worker is not None)

    def restart(self) -> None:
        self.close()
        self._launch()

    def close(self) -> None:
        for worker in (self._host, self._reference):
            if worker is not None:
                worker.close()
        self._host = self._reference = None

    def __exit__(self, *_: object) -> None:
        self.close()
