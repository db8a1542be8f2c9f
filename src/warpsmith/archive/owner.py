"""Which process a run belongs to, so that a second process never takes over a run that is still going.

A process of this machine is asked for directly. Of one on another machine only its last write is known: a run that wrote
nothing for `LEASE_SECONDS` is given up by it. Whoever lost a run that way learns it at its next write, which is refused,
so that no run has two writers.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

import psutil

LEASE_SECONDS = (
    1800.0  # the longest that a live run is silent: loading a task, a model's answers, one judgement
)


@cache
def this_host() -> str:
    """Its name, and what tells machines and containers of one name apart: the boot and the space of process ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        space = "".join(c for c in os.readlink("/proc/self/ns/pid") if c.isdigit())
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}/{boot}.{space}"


def this_process() -> str:
    """host:pid:start time of the calling process; the start time tells a reused pid apart."""
    return f"{this_host()}:{os.getpid()}:{psutil.Process().create_time():.2f}"


def is_gone(owner: str, silent: float = 0.0, lease: float = LEASE_SECONDS) -> bool:
    """Return whether the process has ended (or gave the run up: empty). One on another machine counts as ended when it
    was silent, in seconds, for longer than its lease.
    """
    if not owner:
        return True
    host, pid, started = owner.rsplit(":", 2)
    if host not in (this_host(), socket.gethostname()):  # versions before 0.3 wrote the bare name
        return silent > lease
    try:
        process = psutil.Process(int(pid))
        return f"{process.create_time():.2f}" != started or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
