"""Waits for a file descriptor to be readable, whatever its number: `select` knows numbers below 1024 alone, and a judge of a large network has
thousands of files mapped, each of which holds one.
"""

from __future__ import annotations

import contextlib
import math
import resource
import select


def is_readable(descriptor: int, seconds: float | None = 0.0) -> bool:
    """Wait for so long (None: until it is) for something to read or the other end to close; return whether it came to that."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else max(0, math.ceil(seconds * 1000))))


def allow_open_files() -> None:
    """Raise this process's limit of open files to what it may have."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


__all__ = ["allow_open_files", "is_readable"]
