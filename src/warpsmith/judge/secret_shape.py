"""A candidate's units at shapes that are drawn for this judge and stand nowhere: with it ends what can be written for known shapes.

In: a task, and candidates that are right at its own shapes. Out: a `Verification` at the secret ones. They are exported once, at the
first confirmation, and have trusted processes of their own; units are built for them there and not in a search.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np

from ..errors import TaskError
from ..processes.buffers import Scratch
from ..processes.worker import WorkerDied, WorkerFailed, WorkerTimeout
from ..records import Candidate, Task
from ..targets.target import Target
from ..tasks.client import TaskHost
from ..tasks.secret_variant import SECRET_SHAPE, draw_secret_variant
from .building import build_all
from .correctness.evidence import Case, Evidence
from .correctness.input_families import OWN, SECRET
from .correctness.verify import Limits, Verification, Verifier
from .correctness.workers import Workers
from .device.device_lock import DeviceLock

FAMILIES = (OWN, "normal", SECRET)
EVIDENCE_BYTES = 1 << 28


class SecretShape:
    """Opened by its first use; to be closed."""

    def __init__(
        self, task: Task, target: Target, *, scratch: Scratch, threads: int, device: str, device_lock: DeviceLock,
        random: np.random.Generator, progress: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.task, self.target, self.scratch, self.threads = task, target, scratch, threads
        self.device, self.device_lock, self.random, self.progress = device, device_lock, random, progress
        self._drawn = False
        self._whole: Task | None = None  # the task with the secret variant
        self._stack = ExitStack()
        self._evidence: Evidence | None = None

    def verify(self, candidate: Candidate, limits: Limits) -> Verification:
        """Build and verify at the secret shape; where there is none, everything holds. Raises what `Worker.call` raises."""
        task = self._draw_task()
        if task is None:
            return Verification()
        built = build_all([candidate], task, self.target, (SECRET_SHAPE,))[0]
        if built.status != "ok":
            return Verification((), built.status, built.reason)
        try:
            evidence = self._open(task)
            verifier = Verifier(task, evidence, self.scratch, limits, self.device_lock)
            seed = int(self.random.integers(1 << 62))
            cases = [Case(SECRET_SHAPE, family, seed) for family in FAMILIES]
            try:
                return verifier.verify(candidate, built.libraries, cases)
            finally:
                for case in cases:
                    evidence.forget(case)
        except TaskError as error:
            self._whole = None
            self.progress(f"note: no secret shape: {error}")
            return Verification()
        except (WorkerDied, WorkerFailed, WorkerTimeout):
            self.close()
            raise

    def _draw_task(self) -> Task | None:
        if not self._drawn:
            self._drawn = True
            with TaskHost(self.task.source, scratch=self.scratch, exports=True) as host:
                variant, reason = draw_secret_variant(host, self.task, self.random)
            if variant is None:
                self.progress(f"note: no secret shape: {reason}")
            else:
                self._whole = self.task.model_copy(update={"variants": (*self.task.variants, variant)})
        return self._whole

    def _open(self, task: Task) -> Evidence:
        if self._evidence is None:
            workers = Workers(task, self.scratch, self.threads, self.device, self.device_lock)
            self._stack.enter_context(workers)
            own_seed = int(self.random.integers(1 << 62))
            self._evidence = Evidence(task, workers, self.scratch, own_seed, EVIDENCE_BYTES)
        return self._evidence

    def close(self) -> None:
        """End its processes; the next use starts others."""
        self._evidence = None
        self._stack.close()
