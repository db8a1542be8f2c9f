"""Workers: answers, errors, deaths, time-outs; killed with everything they started, and with their parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import TaskError
from warpsmith.processes.worker import Worker, WorkerDied, WorkerFailed, WorkerTimeout, one_line

HERE = Path(__file__).parent


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with Worker("echo_worker", tmp_path / "work", env={"PYTHONPATH": str(HERE)}) as worker:
        yield worker


def gone(pid: int, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def test_what_it_prints_is_no_answer(worker: Worker) -> None:
    assert worker.call("echo", a=1, b=["x", None]) == {"a": 1, "b": ["x", None]}
    big = "x" * (3 << 20)
    assert worker.call("echo", big=big) == {"big": big}
    assert "forged" in worker.log.read_text()


def test_an_error_is_an_answer(worker: Worker) -> None:
    with pytest.raises(WorkerFailed, match=r"^no such op$") as caught:
        worker.call("fail", message="no such op\nsecond line")
    assert caught.value.kind == "TaskError"
    with pytest.raises(WorkerFailed) as caught:
        worker.call("leave")
    assert caught.value.kind == "SystemExit"
    assert worker.call("echo", still="here") == {"still": "here"}


def test_what_fails_after_the_answer_answers_the_next_request(worker: Worker) -> None:
    assert worker.call("answer_first", message="") == {"message": ""}
    assert worker.call("answer_first", message="too late") == {"message": "too late"}
    with pytest.raises(WorkerFailed, match="too late"):
        worker.call("echo")
    assert worker.call("echo", a=1) == {"a": 1}


def test_death_names_the_cause(worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(WorkerDied, match="signal SIGABRT"):
        worker.call("crash")
    assert not worker.alive
    with (
        Worker("echo_worker", tmp_path / "other", env={"PYTHONPATH": str(HERE)}) as other,
        pytest.raises(WorkerDied, match="exit code 7"),
    ):
        other.call("end")


def test_a_missing_module_is_a_death(tmp_path: Path) -> None:
    with Worker("no_such_module", tmp_path) as worker, pytest.raises(WorkerDied, match="exit code 1"):
        worker.call("echo")


def test_time_is_limited(worker: Worker) -> None:
    worker.call("echo")
    with pytest.raises(WorkerTimeout):
        worker.call("hang", timeout=0.2)
    assert not worker.alive


def test_it_is_killed_with_what_it_started(worker: Worker) -> None:
    pid = worker.call("fork")["pid"]
    worker.close()
    assert gone(pid)
    worker.close()  # twice is fine


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from warpsmith.processes.worker import Worker
worker = Worker("echo_worker", Path("{tmp_path}"), env={{"PYTHONPATH": "{HERE}"}})
started = worker.call("fork")["pid"]
print(worker.process.pid, started, flush=True)
os.kill(started, signal.SIGSTOP)
worker.pause()
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    for pid in done.stdout.split():
        assert gone(int(pid)), "and with all that it has started, stopped or not"


@given(st.text())
def test_one_line(text: str) -> None:
    for error in (TaskError(text), ValueError(text)):
        line = one_line(error)
        assert len(line) <= 300
        assert len(line.splitlines()) <= 1
    assert one_line(ValueError("")) == "ValueError"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("backend='inductor' raised:\nAssertionError: both strides\n\nSet TORCH", "backend='inductor' raised: AssertionError: both strides"),
        ("LoweringException: IndexError:\n  target: aten.x\n", "LoweringException: IndexError: target: aten.x"),
        ("C++ compile error\n\nCommand:\ng++ x.cpp\n\nOutput:\nx.h:3: fatal error: no omp.h\n", "C++ compile error: x.h:3: fatal error: no omp.h"),
        ("only this:\n\n", "only this:"),
    ],
)  # fmt: skip
def test_one_line_holds_what_follows_a_colon_and_a_compilers_error(message: str, line: str) -> None:
    assert one_line(RuntimeError(message)) == f"RuntimeError: {line}"


def test_a_worker_that_has_no_group_of_its_own_yet_is_killed(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after the fork a child is still in its parent's group."""

    def no_such_group(pid: int, how: int) -> None:
        raise ProcessLookupError

    assert worker.call("echo", value=1)
    monkeypatch.setattr(os, "killpg", no_such_group)
    worker.close()
    assert gone(worker.process.pid)
