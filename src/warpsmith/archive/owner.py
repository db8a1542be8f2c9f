"""Which process a run belongs to, so that a second process never takes over a run that is still going."""

from __future__ import annotations

import os
import socket

import psutil


def this_process() -> str:
    """host:pid:start time of the calling process; the start time tells a reused pid apart."""
    return f"{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time():.2f}"


def is_gone(owner: str) -> bool:
    """Whether the process is known to have ended (or gave the run up: empty). Of a process on another
    machine nothing is known.
    """
    if not owner:
        return True
    host, pid, started = owner.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    try:
        return f"{psutil.Process(int(pid)).create_time():.2f}" != started
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
