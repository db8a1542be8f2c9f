"""A limit on wall time that ends work wherever it is.

A batch system kills a job at its limit without asking. What is being judged at that moment is lost either way, so the end comes by
a signal rather than between steps of unknown length: processes are closed in order, and there is time to report.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeIsUp(KeyboardInterrupt):
    """Like an interrupt, it passes every handler of errors on its way out."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raises TimeIsUp in the block after so many seconds. For the main thread only."""
    if seconds is None:
        yield
        return
    deadline = time.monotonic() + seconds

    def ring(number: int, frame: FrameType | None) -> None:
        # The program itself rings early to raise an interrupt again that got lost.
        raise TimeIsUp if time.monotonic() >= deadline else KeyboardInterrupt

    previous_handler = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)
