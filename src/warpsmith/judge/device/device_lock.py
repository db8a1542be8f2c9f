"""The device lock: many compute at a time and share it, or one measures and holds it exclusively.

In: nothing, for the threads of one judge; or a file that all judges of a device share, so that several runs on one GPU
take turns, too. A measurement that waits goes before those who would begin to compute, so that it is not starved. A thread
that holds the lock may take it again. A process that computes for long is paused whenever somebody wants to measure;
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

WAITING = "waiting for the device, which another run has"
POLL_SECONDS = 0.02  # between two looks whether somebody wants to measure
# After a measurement: so long others follow at once; so long all else goes on.
FOLLOWS_SECONDS, REST_SECONDS = 0.5, 4.0
PATIENCE_SECONDS = 10.0  # of who would compute, until it stands in the queue of those who measure


def lock_file(device: str) -> Path | None:
    """The file that this user's runs on the GPU share; None for a CPU, whose processors runs divide among them."""
    gpu = machine.gpu() if device == "cuda" else None
    name = f"warpsmith-{os.getuid()}-{gpu.uuid}.lock" if gpu is not None else ""
    return Path(tempfile.gettempdir()) / name if name else None


def processor_lock_file() -> Path:
    """The file by which judges of this user that are kept open take turns on the processors."""
    return Path(tempfile.gettempdir()) / f"warpsmith-{os.getuid()}-cpu.lock"


class DeviceLock:
    def __init__(self, lock: Path | None = None, progress: Callable[[str], None] = lambda text: None) -> None:
        self._changed = threading.Condition()
        self._sharers = self._waiting = 0
        self._exclusive = False
        self._thread = threading.local()
        self._file = _FileLock(lock, progress) if lock is not None else None

    @contextmanager
    def hold_shared(self) -> Iterator[None]:
        """Hold it together with others who compute."""
        if getattr(self._thread, "holds", ""):
            yield
            return
        with self._changed:
            while not self._may_share():
                self._changed.wait(POLL_SECONDS if self._file is not None else None)
            if self._file is not None and not self._sharers:
                self._file.acquire(exclusive=False)
            self._sharers += 1
        self._thread.holds = "shared"
        try:
            yield
        finally:
            self._thread.holds = ""
            with self._changed:
                self._sharers -= 1
                if self._file is not None and not self._sharers:
                    self._file.release()
                self._changed.notify_all()

    def _may_share(self) -> bool:
        """Nobody joins those who compute here while another run wants to measure: some of them would always be left."""
        if self._exclusive or self._waiting:
            return False
        return not self._sharers or self._file is None or not self._file.is_wanted()

    @contextmanager
    def hold_exclusive(self) -> Iterator[None]:
        """Hold it alone, to measure. Raises RuntimeError in a thread that is computing: it would wait for itself."""
        if getattr(self._thread, "holds", "") == "exclusive":
            yield
            return
        if getattr(self._thread, "holds", ""):
            raise RuntimeError("a measurement cannot begin while its own thread computes")
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._exclusive and not self._sharers)
                if self._file is not None:
                    self._file.acquire(exclusive=True)
                self._exclusive = True
            finally:
                self._waiting -= 1
        self._thread.holds = "exclusive"
        try:
            yield
        finally:
            self._thread.holds = ""
            with self._changed:
                self._exclusive = False
                if self._file is not None:
                    self._file.release()
                self._changed.notify_all()

    @contextmanager
    def run_in_background(self, pause: Callable[[], None], resume: Callable[[], None]) -> Iterator[None]:
        """Let another process compute while the block runs, which `pause` stops whenever anybody measures, and first of all."""
        if getattr(self._thread, "holds", ""):
            yield
            return
        ended = threading.Event()

        def watch() -> None:
            while not ended.is_set():
                with self.hold_shared():
                    resume()
                    while not ended.wait(POLL_SECONDS) and not self._is_wanted():
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

    def _is_wanted(self) -> bool:
        return self._waiting > 0 or (self._file is not None and self._file.is_wanted())


class _FileLock:
    """Shared, or exclusive, among processes; it ends with the process. Who measures keeps the gate shut from when it waits for
    those who compute until it is done. Measurements follow one another; after them nobody shuts the gate for a while, unless nobody
    computes: to stop all who do takes time, too.

    The kernel lets whoever releases a lock take it again before those who sleep for it have woken. Who wants to measure therefore
    holds the queue while it waits for the gate: whoever measured before it stands behind it. Who would compute and has waited for
    long stands in the queue, too: measurements that follow one another without end do not keep it out.
    """

    def __init__(self, path: Path, progress: Callable[[str], None]) -> None:
        self._progress, self._held_exclusively = progress, False
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            gate, queue = path.with_suffix(".gate"), path.with_suffix(".queue")
            self._main, self._gate, self._probe, self._queue = (
                os.open(p, flags, 0o600) for p in (path, gate, gate, queue)
            )
        except OSError as error:
            raise JudgeError(
                f"cannot open {path}, by which runs share the device: {error.strerror}"
            ) from error

    def acquire(self, exclusive: bool) -> None:
        if not self._try(exclusive):
            self._progress(WAITING)
            patience = time.monotonic() + PATIENCE_SECONDS
            while not self._try(exclusive):
                if not exclusive and time.monotonic() > patience:
                    self._share_in_turn()
                    break
                time.sleep(POLL_SECONDS)
        self._held_exclusively = exclusive

    def _try(self, exclusive: bool) -> bool:
        if not exclusive:
            return self._try_shared()
        since = time.time() - os.fstat(self._gate).st_mtime
        if FOLLOWS_SECONDS < since < REST_SECONDS and not self._is_free() and not self.is_wanted():
            return False  # an open gate stays open meanwhile: who looked at it just now would stop computing
        for file in (self._queue, self._gate):
            self._wait_for(file)
        fcntl.flock(self._queue, fcntl.LOCK_UN)
        self._wait_for(self._main)
        return True

    def _wait_for(self, file: int) -> None:
        """Take the file's lock alone, whenever that is possible."""
        if not try_flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
            self._progress(WAITING)
            fcntl.flock(file, fcntl.LOCK_EX)

    def _is_free(self) -> bool:
        """True where nobody computes or measures."""
        free = try_flock(self._main, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if free:
            fcntl.flock(self._main, fcntl.LOCK_UN)
        return free

    def _try_shared(self) -> bool:
        if not try_flock(self._gate, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return False
        fcntl.flock(self._main, fcntl.LOCK_SH)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        return True

    def _share_in_turn(self) -> None:
        """Stand in the queue for a shared turn, as those who want to measure do for theirs."""
        self._wait_for(self._queue)
        fcntl.flock(self._gate, fcntl.LOCK_SH)
        fcntl.flock(self._main, fcntl.LOCK_SH)
        for file in (self._gate, self._queue):
            fcntl.flock(file, fcntl.LOCK_UN)

    def is_wanted(self) -> bool:
        """True where somebody measures or waits for it."""
        if try_flock(self._probe, fcntl.LOCK_SH | fcntl.LOCK_NB):
            fcntl.flock(self._probe, fcntl.LOCK_UN)
            return False
        return True

    def release(self) -> None:
        if self._held_exclusively:
            os.utime(self._gate)
        fcntl.flock(self._main, fcntl.LOCK_UN)
        if self._held_exclusively:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def __del__(self) -> None:
        for name in ("_main", "_gate", "_probe", "_queue"):
            if (file := getattr(self, name, None)) is not None:
                os.close(file)


def try_flock(file: int, how: int) -> bool:
    """`flock`, which does not wait."""
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    return True
