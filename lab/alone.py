"""Several judgements at a time on one machine, of which one at most measures while the others stand still.

In: the stages that a judge tells of its progress. While one that measures lasts, the process that tells them holds a lock,
and its siblings, with all that they started, are stopped (SIGSTOP); afterwards they go on. `thaw` is for their parent, when
one of them was killed on the way.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

MEASURING = ("measuring", "timing")  # how the stages begin
SETTLING = 0.3  # seconds in which a GPU ends what it was given before


class Alone:
    def __init__(self, lock: Path) -> None:
        """Waits for one that measures now."""
        self._file = lock.open("a")
        self._held = False
        fcntl.flock(self._file, fcntl.LOCK_EX)
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def told(self, stage: str) -> None:
        wanted = stage.startswith(MEASURING)
        if wanted and not self._held:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            send(signal.SIGSTOP, siblings())
            time.sleep(SETTLING)
        elif self._held and not wanted:
            send(signal.SIGCONT, siblings())
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._held = wanted


def siblings() -> Iterator[psutil.Process]:
    """The other children of this process's parent, and all theirs."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(os.getppid()).children():
            if child.pid != os.getpid():
                yield from family(child)


def family(process: psutil.Process) -> Iterator[psutil.Process]:
    """A process before what it started, so that a stopped one starts no more unseen."""
    yield process
    with contextlib.suppress(psutil.Error):
        for child in process.children():
            yield from family(child)


def send(number: signal.Signals, processes: Iterator[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def thaw(lock: Path) -> None:
    """This process's children and all theirs go on, unless one of them measures."""
    with lock.open("a") as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for child in psutil.Process().children():
            send(signal.SIGCONT, family(child))
