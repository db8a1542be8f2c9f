"""Supervisor's side of the processes that time one callable: start, ask for blocks, check their clock, stop.

In: worker modules and folders. Out: `Block`s, each a few calls' nanoseconds as the process reports them
beside the supervisor's own wall clock over the same requests. No torch here.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ...errors import JudgeError, WarpsmithError
from ...processes.run_queue import find_longest_wait_ns, list_queued_ns, read_queued_ns, read_worked_ns
from ...processes.worker import Worker, WorkerDied, WorkerTimeout, pause_group, resume_group
from ...records import Graph
from ..layout import Rows

ZYGOTE_MODULE = "warpsmith.judge.timing.zygote"
SETTLE_SECONDS = 0.02  # longest wait for a process's idle threads to stop spinning
SETTLE_POLL = 0.0005
BATCH_SECONDS = 60.0  # beyond what a block should take


@dataclass(frozen=True)
class Block:
    """Consecutive calls of one process."""

    ns: tuple[int, ...]  # the process's own clock, one entry a call
    between_ns: int  # its own clock between the calls: cache eviction, resets
    wall_ns: int  # the supervisor's clock over the whole request
    queued_ns: int = 0  # the kernel's account of how long the two sides waited for a processor meanwhile
    stalled_ns: int = (
        0  # the same of the process's thread that waited longest; the others wait for it at a barrier
    )
    charged_ns: int = (
        0  # of `ns`: for work on a GPU that outlasted the calls, or of other threads before them
    )
    late_ns: int = (
        0  # its own clock over the last change of the contents, right before a call (the median of the calls)
    )
    others_ns: int = (
        0  # processor time of the process's other threads before a call (median), by its own account
    )
    worked_ns: int = (
        0  # the kernel's account of how long the process's main thread was on a processor meanwhile
    )


class TimedProcess:
    """One callable in its own process, ready to be timed. It may write to `folder`.

    `expected` is the seconds of a call, once known.
    """

    def __init__(self, name: str, worker: Worker, folder: Path) -> None:
        self.name, self.worker, self.folder = name, worker, folder
        self.expected, self.isolation = 0.0, ""
        self.quiet = True  # whether the device had no other work when it was prepared last
        self.pid = worker.pid if isinstance(worker, ForkedWorker) else worker.process.pid

    def prepare(self, values: Path, warmup: int, timeout: float = 120.0, alone: bool = True) -> float:
        """Fresh values at fresh addresses, then the warm-up calls. Returns the seconds that they took. `alone`: whether
        this process has the device to itself.
        """
        answer = self.worker.call("prepare", timeout, values=str(values), warmup=warmup, alone=alone)
        self.quiet = answer.get("quiet", True) is True
        return _number(answer.get("seconds"))

    def again(self, warmup: int, timeout: float = 120.0) -> None:
        """The warm-up calls once more, on the values and at the addresses of the last `prepare`; nobody else has the device."""
        self.quiet = self.worker.call("again", timeout, warmup=warmup).get("quiet", True) is True

    def block(self, n: int, evictions: int, seed: int, fresh: bool = True) -> Block:
        timeout = BATCH_SECONDS + 20 * n * self.expected
        queued, threads, worked = self._queue_ns(), list_queued_ns(self.pid), read_worked_ns(self.pid)
        start = time.perf_counter_ns()
        answer = self.worker.call("time", timeout, n=n, evictions=evictions, seed=seed, fresh=fresh)
        wall = time.perf_counter_ns() - start
        queued = self._queue_ns() - queued
        stalled, worked = find_longest_wait_ns(self.pid, threads), read_worked_ns(self.pid) - worked
        ns = tuple(int(_number(t)) for t in answer.get("ns", ()))
        if len(ns) != n or min(ns) <= 0:
            raise WorkerDied(f"the {self.name} process sent times that are not times")
        charged = int(_number(answer.get("charged_ns", 0)))
        return Block(
            ns, int(_number(answer.get("between_ns"))), wall, queued, stalled, charged,
            int(_number(answer.get("late_ns", 0))), int(_number(answer.get("others_ns", 0))), worked,
        )  # fmt: skip

    def _queue_ns(self) -> int:
        """Nanoseconds that this thread and the process's main thread have spent in run queues so far."""
        return read_queued_ns("/proc/thread-self/schedstat") + read_queued_ns(f"/proc/{self.pid}/schedstat")

    def outputs(self, path: Path, rows: Sequence[Rows] = ()) -> Path:
        """Have the last timed call's outputs, or some rows of each, written to a new values file, in a folder that the
        process may write.
        """
        self.worker.call("outputs", 60.0, path=str(path), **({"rows": rows} if rows else {}))
        return path

    def allow_tf32(self, allowed: bool) -> None:
        """Allow its calls to compute float32 in TF32, or not; where it started with that off, it stays off."""
        self.worker.call("allow_tf32", 60.0, allowed=allowed)

    def pause(self) -> None:
        pause_group(self.pid)

    def resume(self) -> None:
        resume_group(self.pid)

    def move(self, processors: Collection[int]) -> None:
        """All of its threads to these processors."""
        with suppress(OSError):  # a thread, or the process, has just ended
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                os.sched_setaffinity(int(thread), processors)

    def rest(self) -> None:
        """Have it give back the memory that its calls took, until it is prepared again."""
        self.worker.call("rest", 60.0)

    def settle(self) -> None:
        """Wait until the threads of an idle OpenMP pool, which spin after a parallel region, have gone to
        sleep.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        while _running(self.pid) and time.monotonic() < deadline:
            time.sleep(SETTLE_POLL)

    def close(self) -> None:
        self.worker.close()


def _running(pid: int) -> bool:
    """True where any thread of the process is on a processor or wants one."""
    try:
        for task in os.scandir(f"/proc/{pid}/task"):
            with open(f"{task.path}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] == b"R":
                    return True
    except OSError:  # a thread, or the process, has just ended
        return False
    return False


def _number(value: Any) -> float:
    """Read a number as JSON may hold it: an integer of any length, too."""
    with suppress(OverflowError):
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    raise WorkerDied("a timing process sent a malformed answer")


class ForkedWorker(Worker):
    """A child of the zygote, spoken to like any worker. Killed with everything it started; the zygote
    collects it.
    """

    def __init__(self, zygote: Worker, folder: Path, threads: int, memory_bytes: int | None) -> None:
        self.module, self.workdir, self.zygote = "candidate", folder, zygote
        self.log = folder / "log.txt"
        self._buffer = b""
        self._ended: int | None = None
        request, answer = folder / "request", folder / "answer"
        os.mkfifo(request, 0o600)
        os.mkfifo(answer, 0o600)
        self._request = os.open(
            request, os.O_RDWR
        )  # both ends: the child must not read an end of file before we write
        self._answer = os.open(answer, os.O_RDONLY | os.O_NONBLOCK)
        try:
            fields = {"request": str(request), "answer": str(answer), "folder": str(folder)}
            reply = zygote.call("fork", 20.0, **fields, threads=threads, memory_bytes=memory_bytes)
        except WarpsmithError as error:
            self._close_pipes()
            raise JudgeError(f"the candidates' starter process was lost: {error}") from error
        self.pid = int(reply["pid"])

    def _make_died_error(self) -> WorkerDied:
        self.close()
        code = self._ended
        ending = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        return WorkerDied(f"the candidate ended unexpectedly ({ending})")

    def receive(self, timeout: float) -> dict[str, Any]:
        try:
            return super().receive(timeout)
        except WorkerTimeout as error:
            raise WorkerTimeout("the candidate gave no answer in time and was stopped") from error

    @property
    def alive(self) -> bool:
        return self._ended is None and psutil.pid_exists(self.pid)

    def close(self) -> None:
        """Kill and collect. The pid is still the child's own: only the zygote's `reap` frees it."""
        if self._ended is not None:
            return
        if not self._has_exited():
            self._kill()
        try:
            self._ended = int(self.zygote.call("reap", 20.0, pid=self.pid)["code"])
        except WarpsmithError:
            self._ended = -signal.SIGKILL  # the zygote is gone, and its children with it
        self._close_pipes()

    def _has_exited(self) -> bool:
        try:
            return psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            return True

    def _kill(self) -> None:
        try:
            family = psutil.Process(self.pid).children(recursive=True)
        except psutil.Error:
            family = []
        for kill, pid in [(os.killpg, self.pid), *((os.kill, child.pid) for child in family)]:
            try:
                kill(pid, signal.SIGKILL)
            except OSError:
                continue

    def _close_pipes(self) -> None:
        for fd in (self._request, self._answer):
            if fd >= 0:
                os.close(fd)
        self._request = self._answer = -1


def start_zygote(
    graph_file: Path, workdir: Path, threads: int, flush_bytes: int, device: str = "cpu"
) -> Worker:
    """Start the process that candidates are forked from. Raises JudgeError."""
    worker = Worker(ZYGOTE_MODULE, workdir, env=environment(threads))
    try:
        worker.call("open", 120.0, graph_file=str(graph_file), flush_bytes=flush_bytes, device=device)
    except WarpsmithError as error:
        worker.close()
        raise JudgeError(f"cannot start the candidates' process: {error}") from error
    return worker


def environment(threads: int, **extra: str) -> dict[str, str]:
    """Variables of a timing process: the same on both sides of every comparison."""
    return {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0", **extra}


def fork_candidate(
    zygote: Worker, folder: Path, parts: list[dict[str, Any]], threads: int, memory_bytes: int | None,
    name: str = "candidate", graph: Graph | None = None,
) -> TimedProcess:  # fmt: skip
    """A candidate's process with its libraries loaded; `graph`: the candidate's, where it is not the zygote's.
    Raises WorkerDied, WorkerTimeout or WorkerFailed for its own faults.
    """
    folder.mkdir(parents=True)
    if graph is not None:
        (folder / "graph.json").write_text(graph.model_dump_json())
    worker = ForkedWorker(zygote, folder, threads, memory_bytes)
    process = TimedProcess(name, worker, folder)
    graph_file = "" if graph is None else str(folder / "graph.json")
    try:
        process.isolation = str(
            worker.call("load", 30.0, parts=parts, graph_file=graph_file).get("isolation", "")
        )
    except BaseException:
        worker.close()
        raise
    return process
