"""Work side by side on one machine, each lane on processors of its own, and processes with a time limit.

In: how many lanes of how many physical cores, and what is to be done. Out: results as they are done; of a process its
exit code, its last words and its seconds.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from warpsmith import machine
from warpsmith.errors import UsageError
from warpsmith.processes.worker import kill_tree

Item = TypeVar("Item")
Answer = TypeVar("Answer")
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Ended:
    code: int | None  # None: killed at its limit, or because all were stopped
    seconds: float
    log: list[str]


def slots(jobs: int, cores: int) -> list[set[int]]:
    """Processors for each of `jobs` tasks: neighbouring physical cores, one hyperthread of each. Raises UsageError."""
    first: dict[str, int] = {}
    for cpu in machine.affinity():
        siblings = machine.CPU_DIR / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        first.setdefault(siblings.read_text().strip() if siblings.exists() else str(cpu), cpu)
    free = list(first.values())
    if jobs * cores > len(free):
        raise UsageError(f"--jobs {jobs} --cores {cores}: there are {len(free)} physical cores")
    return [set(free[i * cores : (i + 1) * cores]) for i in range(jobs)]


def divide(jobs: int, cores: int | None) -> list[set[int]]:
    """Processors of each task: so many physical cores, by default as many as each can have. Raises UsageError."""
    everything = machine.affinity()
    if jobs == 1 and cores is None:
        return [set(everything)]
    if cores is not None:
        return slots(jobs, cores)
    for share in range(len(everything) // jobs, 0, -1):
        with contextlib.suppress(UsageError):
            return slots(jobs, share)
    return slots(jobs, 1)


def environment(folder: Path, cache: Path, cores: int) -> dict[str, str]:
    """Nothing is written to the user's own places; torch uses the cores that this process may use."""
    home = str(cache / "home")
    return {
        **os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": str(cores), "PYTHONUNBUFFERED": "1",
        "XDG_CACHE_HOME": home, "XDG_DATA_HOME": home,
    }  # fmt: skip


def run_on_lanes(
    work: Callable[[Item], Answer | None],
    todo: Iterable[Item],
    lanes: Sequence[set[int]],
    stop: threading.Event,
) -> Iterator[Answer]:
    """Yield what `work` returns as it is done, save None. Each thread, and so what it starts, keeps to one lane."""
    free: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
    for processors in lanes:
        free.put(processors)
    pool = ThreadPoolExecutor(len(lanes), initializer=lambda: os.sched_setaffinity(0, free.get()))
    with pool:
        waiting = [pool.submit(work, item) for item in todo]
        try:
            for done in as_completed(waiting):
                answer = done.result()
                if answer is not None:
                    yield answer
        finally:
            stop.set()


def run_limited(
    command: Sequence[str],
    *,
    limit_s: float,
    log: Path,
    stop: threading.Event | None = None,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command in a session of its own; at the limit it is killed with all that it started."""
    start = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env
        )
    try:
        ended = waited(process, start + limit_s, stop or threading.Event())
    finally:
        kill_tree(process)
    lines = log.read_text(errors="replace").splitlines()
    return Ended(process.returncode if ended else None, time.monotonic() - start, lines)


def waited(process: subprocess.Popen[bytes], deadline: float, stop: threading.Event) -> bool:
    """Wait; whether it ended by itself before the deadline and before anybody said stop."""
    while process.poll() is None:
        rest = deadline - time.monotonic()
        if rest < 0 or stop.wait(min(POLL_SECONDS, rest)):
            return False
    return True
