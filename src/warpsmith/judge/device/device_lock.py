"""Who may use a device: many compute at a time, or one measures alone.

In: nothing, for the threads of one judge; or a file that all judges of a device share, so that several runs on one GPU
take turns, too. A measurement that is waiting goes before those who would begin to compute, so that it gets its turn.
Whoever has a turn may take one again. A process that computes for long is paused whenever somebody wants to measure;
what it had queued on the device the measurement waits for (`timing/cuda_clock.py`).
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ... import machine
from ...errors import JudgeError

WAITING = "waiting for the GPU, which another run has"
LOOK_SECONDS = 0.02  # between two looks whether somebody wants to measure
# After a measurement: so long others follow at once; so long all else goes on.
FOLLOWS_SECONDS, REST_SECONDS = 0.5, 4.0


def device_lock(device: str) -> Path | None:
    """The file that this user's runs on the GPU share; None for a CPU, whose processors runs divide among them."""
    found = machine.gpu() if device == "cuda" else None
    name = f"warpsmith-{os.getuid()}-{found.uuid}.lock" if found is not None else ""
    return Path(tempfile.gettempdir()) / name if name else None


class Turns:
    def __init__(self, lock: Path | None = None, progress: Callable[[str], None] = lambda text: None) -> None:
        self._changed = threading.Condition()
        self._computing = self._waiting = 0
        self._measuring = False
        self._mine = threading.local()
        self._shared = _FileLock(lock, progress) if lock is not None else None

    @contextmanager
    def computing(self) -> Iterator[None]:
        if getattr(self._mine, "turn", ""):
            yield
            return
        with self._changed:
            while not self._may_compute():
                self._changed.wait(LOOK_SECONDS if self._shared is not None else None)
            if self._shared is not None and not self._computing:
                self._shared.take(alone=False)
            self._computing += 1
        self._mine.turn = "computing"
        try:
            yield
        finally:
            self._mine.turn = ""
            with self._changed:
                self._computing -= 1
                if self._shared is not None and not self._computing:
                    self._shared.give()
                self._changed.notify_all()

    def _may_compute(self) -> bool:
        """Nobody joins those who compute here while another run wants to measure: some of them would always be left."""
        if self._measuring or self._waiting:
            return False
        return not self._computing or self._shared is None or not self._shared.wanted()

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Raises RuntimeError in a thread that is computing: it would wait for itself."""
        if getattr(self._mine, "turn", "") == "measuring":
            yield
            return
        if getattr(self._mine, "turn", ""):
            raise RuntimeError("a measurement cannot begin while its own thread computes")
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._measuring and not self._computing)
                if self._shared is not None:
                    self._shared.take(alone=True)
                self._measuring = True
            finally:
                self._waiting -= 1
        self._mine.turn = "measuring"
        try:
            yield
        finally:
            self._mine.turn = ""
            with self._changed:
                self._measuring = False
                if self._shared is not None:
                    self._shared.give()
                self._changed.notify_all()

    @contextmanager
    def background(self, pause: Callable[[], None], resume: Callable[[], None]) -> Iterator[None]:
        """While the block runs another process computes, which `pause` stops whenever anybody measures, and first of all."""
        if getattr(self._mine, "turn", ""):
            yield
            return
        ended = threading.Event()

        def watch() -> None:
            while not ended.is_set():
                with self.computing():
                    resume()
                    while not ended.wait(LOOK_SECONDS) and not self._wanted():
                        pass
                    if not ended.is_set():
                        pause()

        pause()
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            resume()

    def _wanted(self) -> bool:
        return self._waiting > 0 or (self._shared is not None and self._shared.wanted())


class _FileLock:
    """Shared, or exclusive, among processes; it ends with the process. Who measures keeps the gate shut from when it waits for
    those who compute until it is done. Measurements follow one another; after them nobody shuts the gate for a while, unless nobody
    computes: to stop all who do takes time, too.
    """

    def __init__(self, path: Path, progress: Callable[[str], None]) -> None:
        self._progress, self._alone = progress, False
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            gate = path.with_suffix(".gate")
            self._turn, self._gate, self._look = (os.open(p, flags, 0o600) for p in (path, gate, gate))
        except OSError as error:
            raise JudgeError(f"cannot open {path}, by which runs share the GPU: {error.strerror}") from error

    def take(self, alone: bool) -> None:
        if not self._taken(alone):
            self._progress(WAITING)
            while not self._taken(alone):
                time.sleep(LOOK_SECONDS)
        self._alone = alone

    def _taken(self, alone: bool) -> bool:
        if not alone:
            return self._shared()
        since = time.time() - os.fstat(self._gate).st_mtime
        if FOLLOWS_SECONDS < since < REST_SECONDS and not self._idle() and not self.wanted():
            return False  # an open gate stays open meanwhile: who looked at it just now would stop computing
        for file in (self._gate, self._turn):
            if not locked(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
                self._progress(WAITING)
                fcntl.flock(file, fcntl.LOCK_EX)
        return True

    def _idle(self) -> bool:
        """Does nobody compute or measure?"""
        free = locked(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if free:
            fcntl.flock(self._turn, fcntl.LOCK_UN)
        return free

    def _shared(self) -> bool:
        if not locked(self._gate, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return False
        fcntl.flock(self._turn, fcntl.LOCK_SH)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        return True

    def wanted(self) -> bool:
        """Whether somebody measures or waits for it."""
        if locked(self._look, fcntl.LOCK_SH | fcntl.LOCK_NB):
            fcntl.flock(self._look, fcntl.LOCK_UN)
            return False
        return True

    def give(self) -> None:
        if self._alone:
            os.utime(self._gate)
        fcntl.flock(self._turn, fcntl.LOCK_UN)
        if self._alone:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def __del__(self) -> None:
        for name in ("_turn", "_gate", "_look"):
            if (file := getattr(self, name, None)) is not None:
                os.close(file)


def locked(file: int, how: int) -> bool:
    """`flock`, which does not wait."""
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    return True
