"""A real Ray cluster of several nodes on this machine, which leaves nothing behind: no process, no file."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

STORE_BYTES = 80 << 20  # Ray's least; where /dev/shm has less, it takes /tmp
MARK = "WARPSMITH_TEST_RAY"  # a variable that all processes of the cluster inherit
# A busy machine's nodes answer late, and are not dead for it; one that is ended is noticed at once all the same.
PATIENT = {"health_check_timeout_ms": 60_000, "health_check_failure_threshold": 10}
END_S = 20.0  # for processes that have been told to end


@contextmanager
def start_cluster(nodes: int) -> Iterator[tuple[Cluster, list[Any]]]:
    """Start a head without processors, and nodes of one. Afterwards no process of it is left, or this fails."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # short, for paths of sockets are
    before = dict(os.environ)
    os.environ |= {MARK: folder, "RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}
    whole = Cluster()
    try:
        arguments = {"object_store_memory": STORE_BYTES, "include_dashboard": False}
        whole.add_node(num_cpus=0, _system_config=PATIENT, **arguments)
        added = [whole.add_node(num_cpus=1, **arguments) for _ in range(nodes)]
        ray.init(address=whole.address, log_to_driver=False, logging_level="ERROR")
        yield whole, added
    finally:
        ray.shutdown()
        whole.shutdown()
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ |= before
        left = wait_for_ends(folder)
        shutil.rmtree(folder, ignore_errors=True)
        assert left == []
        assert not Path(folder).exists()


def wait_for_ends(folder: str) -> list[str]:
    """Wait until the processes that carry the mark have ended; name those that have not."""
    deadline = time.monotonic() + END_S
    while (marked := list_marked(folder)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return marked


def list_marked(folder: str) -> list[str]:
    names = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == folder:
                names.append(f"{process.pid} {process.name()}")
        except psutil.Error:  # it has ended, or is another user's
            continue
    return names
