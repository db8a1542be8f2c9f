"""A bound on the time that a check may take, and what happens when it is over.

In: seconds, or none. Out: what is left, and calls whose failure counts as "no time" once the bound is over: whoever
waits for a process that was killed for it gets an error of that process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ...errors import WarpsmithError
from ...progress import duration

T = TypeVar("T")
AGAIN_SECONDS = 0.2  # between two kills: a process may have been started meanwhile


class TimeBound:
    def __init__(self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock, self._start = seconds, clock, clock()

    @property
    def remaining(self) -> float | None:
        """Seconds that are left; None where there is no limit."""
        return None if self.seconds is None else max(0.0, self.seconds - self._spent)

    @property
    def over(self) -> bool:
        return self.remaining == 0.0

    @property
    def _spent(self) -> float:
        return self._clock() - self._start

    def __str__(self) -> str:
        limit = "" if self.seconds is None else f" of {duration(self.seconds)}"
        return f"{duration(self._spent)}{limit}"

    def attempt(self, call: Callable[[], T]) -> T | None:
        """Return what the call returns; None where it failed after the time was over, or is not begun for that."""
        if self.over:
            return None
        try:
            return call()
        except (WarpsmithError, OSError):
            if not self.over:
                raise
            return None

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """`stop` is called, in a thread of its own, from when the time is over until the block ends."""
        ended = threading.Event()

        def watch() -> None:
            if not ended.wait(self.remaining):
                stop()
                while not ended.wait(AGAIN_SECONDS):
                    stop()

        watcher = threading.Thread(target=watch, daemon=True)
        if self.seconds is not None:
            watcher.start()
        try:
            yield
        finally:
            ended.set()
            if watcher.is_alive():
                watcher.join()
