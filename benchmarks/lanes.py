"""Processes side by side on one machine, each on processors of its own: which those are, what they may write, how one is waited for."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

from warpsmith import machine
from warpsmith.errors import UsageError


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


def environment(folder: Path, cache: Path, cores: int) -> dict[str, str]:
    """Nothing is written to the user's own places; torch uses the cores that this process may use."""
    home = str(cache / "home")
    return {
        **os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": str(cores), "PYTHONUNBUFFERED": "1",
        "XDG_CACHE_HOME": home, "XDG_DATA_HOME": home,
    }  # fmt: skip


def waited(process: subprocess.Popen[bytes], deadline: float, stop: threading.Event) -> bool:
    """Whether it ended by itself before the deadline and before anybody said stop."""
    while process.poll() is None:
        if time.monotonic() > deadline or stop.wait(0.5):
            return False
    return True
