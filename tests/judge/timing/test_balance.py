"""How evenly threads share work, read from outside: a real runner, once with all threads busy and once with one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from warpsmith import machine
from warpsmith.judge.isolation.runner import CandidateRunner
from warpsmith.judge.isolation.runner_program import runner_program
from warpsmith.judge.timing.balance import LEAST_US, balance, processor_ns
from warpsmith.processes.buffers import Scratch
from warpsmith.records import TensorSpec
from warpsmith.targets.task_header import task_header

N = 801
SPEC = TensorSpec(shape=(N,), dtype="float32", stride=(1,))
X = np.linspace(-1, 1, N, dtype=np.float32)
CALL_US = 500.0  # about what WORK takes
WORK = """
float s = 0;
#pragma omp parallel num_threads(THREADS) reduction(+ : s)
if (BUSY) for (int k = 0; k < 400000; k++) s += in0[k % 801] * 1e-6f;
for (int i = 0; i < 801; i++) out0[i] = in0[i] + s;
"""
Start = Callable[[str], CandidateRunner]


@pytest.fixture
def start(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """start(busy) → a runner that has run a unit whose threads work where that condition holds."""
    program = runner_program(tmp_path_factory.mktemp("cache"))
    running: list[CandidateRunner] = []

    def start(busy: str) -> CandidateRunner:
        (tmp_path / "task.h").write_text(task_header([SPEC], [SPEC], 2))
        signature = "static void unit(const in0_t* in0, out0_t* out0, void* workspace, void*)"
        body = WORK.replace("BUSY", busy)
        source = f'#include <omp.h>\n#include "task.h"\n{signature} {{\n{body}\n}}\n'
        (tmp_path / "unit.cpp").write_text(source)
        compiler, library = machine.find_compiler(), tmp_path / "unit.so"
        command = [compiler, "-O1", "-std=c++17", "-fPIC", "-fopenmp", "-c", "unit.cpp", "-o", "unit.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
        subprocess.run([compiler, "-shared", "unit.o", "-o", library], cwd=tmp_path, check=True)
        runner = CandidateRunner(
            library, [SPEC], [SPEC], scratch=scratch, threads=2, timeout=20.0, memory_bytes=1 << 28,
            program=program,
        )  # fmt: skip
        running.append(runner)
        runner.run([X], 0)
        return runner

    with Scratch() as scratch:
        yield start
        for runner in running:
            runner.close()


@pytest.mark.skipif(not processor_ns(os.getpid()), reason="this kernel keeps no account of threads")
def test_one_busy_thread_is_told_from_two(start: Start) -> None:
    """On a busy machine two threads may need different time for the same work, in one try or the other."""
    tries = [balance(start("1"), 2, CALL_US) for _ in range(3)]
    one = balance(start("omp_get_thread_num() == 0"), 2, CALL_US)
    assert None not in tries
    assert one is not None
    assert max(t for t in tries if t is not None) > 0.8
    assert 0.5 <= one < 0.6


def test_a_short_call_or_a_single_thread_is_not_looked_at(start: Start) -> None:
    runner = start("1")
    process = runner.pid
    assert balance(runner, 2, LEAST_US / 2) is None
    assert balance(runner, 1, CALL_US) is None
    assert runner.pid == process


def test_a_restarted_process_has_the_same_buffers_and_confinement(start: Start) -> None:
    runner = start("0")
    process, isolation = runner.pid, runner.isolation
    runner.restart({"OMP_WAIT_POLICY": "passive"})
    assert runner.pid != process
    assert not processor_ns(process)
    assert runner.isolation == isolation
    assert np.array_equal(runner.read()[0].view(np.float32), X)
    assert len(runner.time(3, True)) == 3
    assert np.array_equal(runner.run([2 * X], 1).outputs[0].view(np.float32), 2 * X)


def test_a_unit_that_does_not_come_back_is_not_measured(start: Start) -> None:
    runner = start("1")
    runner.library.unlink()
    assert balance(runner, 2, CALL_US) is None
