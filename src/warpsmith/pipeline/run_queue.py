"""The queue from which the lanes of a suite take its runs. Any thread may call it."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence

from .suite import PlannedRun

ATTEMPTS = 2  # at a run whose lane ends


class RunQueue:
    """`is_stopped`: whether somebody wants no other run to begin. `attempts`: how often a run is tried whose lanes end."""

    def __init__(
        self, runs: Sequence[PlannedRun], is_stopped: Callable[[], bool] = lambda: False, attempts: int = ATTEMPTS
    ) -> None:  # fmt: skip
        self._lock, self._is_stopped, self._limit = threading.Lock(), is_stopped, attempts
        self._runs = deque(runs)
        self._attempts: Counter[int] = Counter()
        self._closed = False

    def take(self) -> PlannedRun | None:
        """Take the next run; None where there is none left."""
        with self._lock:
            if self._closed or not self._runs or self._is_stopped():
                return None
            run = self._runs.popleft()
            self._attempts[run.index] += 1
            return run

    def count_waiting(self) -> int:
        """Count the runs that are still to be taken."""
        with self._lock:
            return 0 if self._closed or self._is_stopped() else len(self._runs)

    def put_back(self, run: PlannedRun) -> bool:
        """Put a run whose lane has ended behind all others, which may leave it more memory; False where it was tried often enough."""
        with self._lock:
            if self._closed or self._attempts[run.index] >= self._limit:
                return False
            self._runs.append(run)
            return True

    def count_attempts(self, run: PlannedRun) -> int:
        """Count how often the run was taken."""
        with self._lock:
            return self._attempts[run.index]

    def close(self) -> None:
        """Let nobody take another run."""
        with self._lock:
            self._closed = True
