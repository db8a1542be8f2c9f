"""Time in run queues: none for who is alone, most of it for one of several on one processor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from warpsmith.processes.run_queue import find_longest_wait_ns, list_queued_ns, read_queued_ns

SPIN = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


def test_wait_of_processes_that_share_a_processor_is_seen() -> None:
    if not list_queued_ns(os.getpid()) or not os.path.exists("/proc/self/schedstat"):
        pytest.skip("this kernel keeps no account of run queues")
    cpu = min(os.sched_getaffinity(0))
    spinning = [subprocess.Popen(["taskset", "-c", str(cpu), sys.executable, "-c", SPIN]) for _ in range(3)]
    try:
        pid = spinning[0].pid
        before, deadline = list_queued_ns(pid), time.monotonic() + 15
        while find_longest_wait_ns(pid, before) < 2e8 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert find_longest_wait_ns(pid, before) >= 2e8
        spinning[0].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        assert find_longest_wait_ns(pid, list_queued_ns(pid)) == 0, "only what came since"
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def test_process_that_ended_has_waited_for_nothing() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert list_queued_ns(process.pid) == {}
    assert find_longest_wait_ns(process.pid, {}) == 0
    assert read_queued_ns("/proc/nothing/schedstat") == 0
