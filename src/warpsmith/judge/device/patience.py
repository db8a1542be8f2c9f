"""Waiting for a GPU's memory, which other runs may have for a while.

In: an error of a process. Out: whether it found no memory, whether to try once more, and one line that says what happened.
"""

from __future__ import annotations

import re
import time

from ...processes.worker import WorkerFailed

PATIENCE_S, PAUSE_S = 45.0, 2.0  # to wait for memory, in all and at a time
NO_MEMORY = "OutOfMemoryError"  # torch's
SIGNS = (
    "out of memory",
    "outofmemoryerror",
    "alloc_failed",
    "memoryallocation",
)  # of CUDA, cuBLAS, cuDNN, compilers
WAITING = "waiting for the GPU's memory, which other runs have"


class Patience:
    """The time to wait, from the first time that memory was missing."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = PATIENCE_S if seconds is None else seconds
        self._since: float | None = None

    @property
    def waited(self) -> float:
        """Seconds since memory was missing first."""
        self._since = time.monotonic() if self._since is None else self._since
        return time.monotonic() - self._since

    @property
    def over(self) -> bool:
        return self.waited >= self._seconds

    def wait(self) -> None:
        time.sleep(PAUSE_S)


def is_out_of_memory(error: BaseException | None) -> bool:
    """True where a process said, or whoever asked it was told, that its GPU has no memory left."""
    if not isinstance(error, WorkerFailed):
        return error is not None and is_out_of_memory(error.__cause__)
    text = str(error).lower()
    return error.kind == NO_MEMORY or any(sign in text for sign in SIGNS)


def describe_no_memory(error: BaseException, waited: float) -> str:
    """One line for whoever reads why a baseline is missing."""
    request = re.search(r"Tried to allocate ([\d.]+ \w+)", str(error))
    free = re.search(r"([\d.]+ \w+) is free", str(error))
    room = f" for {request[1]} more" if request else ""
    room += f" ({free[1]} free)" if free else ""
    return (
        f"the GPU had no memory{room}, tried again for {waited:.0f} s: "
        "run it when other processes leave more room, or make the sizes smaller"
    )
