"""What is timed runs on the processors that are kept for it, and so does who asks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from warpsmith.judge.timing.timed_process import TimedProcess
from warpsmith.judge.timing.timing_session import TimingSession


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


def test_processes_move_and_the_supervisor_comes_back(sleeping: subprocess.Popen[bytes]) -> None:
    before = os.sched_getaffinity(0)
    kept = {min(before)}
    timed = TimedProcess.__new__(TimedProcess)
    timed.pid = sleeping.pid
    bench = SimpleNamespace(_timed_on=kept)
    with TimingSession.pin(bench, [timed]):  # type: ignore[arg-type]
        assert os.sched_getaffinity(sleeping.pid) == kept
        assert os.sched_getaffinity(0) == kept
    assert os.sched_getaffinity(0) == before
    with TimingSession.pin(SimpleNamespace(_timed_on=None), [timed]):  # type: ignore[arg-type]
        assert os.sched_getaffinity(0) == before, "anywhere, unless some are kept"


def test_a_process_that_has_ended_is_left_alone(sleeping: subprocess.Popen[bytes]) -> None:
    timed = TimedProcess.__new__(TimedProcess)
    timed.pid = sleeping.pid
    sleeping.kill()
    sleeping.wait()
    timed.move({min(os.sched_getaffinity(0))})


def test_a_process_is_stopped_and_goes_on(sleeping: subprocess.Popen[bytes]) -> None:
    def state() -> str:
        with open(f"/proc/{sleeping.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]

    timed = TimedProcess.__new__(TimedProcess)
    timed.pid = sleeping.pid
    timed.pause()
    os.waitid(os.P_PID, sleeping.pid, os.WSTOPPED)
    assert state() == "T"
    timed.resume()
    os.waitid(os.P_PID, sleeping.pid, os.WCONTINUED)
    assert state() != "T"
