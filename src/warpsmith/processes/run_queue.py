"""How long threads have worked, and waited for a processor, by the kernel's own account: the first two fields of
`/proc/<pid>/task/<tid>/schedstat` (Linux `Documentation/scheduler/sched-stats.rst`), in nanoseconds.

In: a process. Out: what its main thread has worked, its waits by thread, or the most that any thread has waited since.
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def read_queued_ns(path: str) -> int:
    """Read how long the thread of a `schedstat` file has waited; 0 where the kernel keeps no account."""
    return _read_field(path, 1)


def read_worked_ns(pid: int) -> int:
    """Read how long the main thread of a process has been on a processor; 0 where the kernel keeps no account."""
    return _read_field(f"/proc/{pid}/schedstat", 0)


def _read_field(path: str, place: int) -> int:
    try:
        with open(path) as file:
            return int(file.read().split()[place])
    except (OSError, IndexError, ValueError):
        return 0


def list_queued_ns(pid: int) -> dict[str, int]:
    """List how long each thread of a process has waited so far, by the thread's folder; none where it has ended."""
    try:
        threads = [entry.path for entry in os.scandir(f"/proc/{pid}/task")]
    except OSError:
        return {}
    return {path: read_queued_ns(f"{path}/schedstat") for path in threads}


def find_longest_wait_ns(pid: int, before: Mapping[str, int]) -> int:
    """Find the most that any thread has waited since `before` was listed."""
    return max((ns - before.get(path, 0) for path, ns in list_queued_ns(pid).items()), default=0)


__all__ = ["find_longest_wait_ns", "list_queued_ns", "read_queued_ns", "read_worked_ns"]
