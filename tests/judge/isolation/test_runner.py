"""The candidate runner with real libraries: what it computes, what it notices, what it survives.

Libraries are built here without the target's checks, so that each attack meets the runner's own confinement.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from warpsmith import machine
from warpsmith.errors import ToolchainError
from warpsmith.judge.isolation import runner as runner_module
from warpsmith.judge.isolation.arena import POISON
from warpsmith.judge.isolation.runner import CandidateRunner, RunnerCrashed, RunnerTimeout
from warpsmith.judge.isolation.runner_program import runner_program
from warpsmith.processes.buffers import Scratch
from warpsmith.records import TensorSpec
from warpsmith.targets.task_header import task_header

N = 801
SPEC = TensorSpec(shape=(N,), dtype="float32", stride=(1,))
BYTES = TensorSpec(shape=(N,), dtype="uint8", stride=(1,))
X = np.linspace(-1, 1, N, dtype=np.float32)
COPY = "for (int i = 0; i < in0_numel; i++) out0[i] = in0[i];"
FEW = TensorSpec(shape=(5,), dtype="float32", stride=(1,))
Run = Callable[..., CandidateRunner]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runner_program(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def start(tmp_path: Path, program: Path, scratch: Scratch) -> Iterator[Run]:
    """start(body, head) → a runner with that unit loaded."""
    running: list[CandidateRunner] = []

    def start(
        body: str, head: str = "", output: TensorSpec = SPEC, timeout: float = 20.0, memory: int = 1 << 28
    ) -> CandidateRunner:
        (tmp_path / "task.h").write_text(task_header([SPEC], [output], 2))
        signature = "static void unit(const in0_t* in0, out0_t* out0, void* workspace, void*)"
        (tmp_path / "unit.cpp").write_text(f'{head}\n#include "task.h"\n{signature} {{\n{body}\n}}\n')
        compiler, library = machine.find_compiler(), tmp_path / f"unit{len(running)}.so"
        command = [compiler, "-O1", "-std=c++17", "-fPIC", "-fopenmp", "-c", "unit.cpp", "-o", "unit.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
        subprocess.run([compiler, "-shared", "unit.o", "-o", library], cwd=tmp_path, check=True)
        runner = CandidateRunner(
            library,
            [SPEC],
            [output],
            scratch=scratch,
            threads=2,
            timeout=timeout,
            memory_bytes=memory,
            program=program,
        )
        running.append(runner)
        return runner

    yield start
    for runner in running:
        runner.close()


def test_outputs_and_clocks(start: Run) -> None:
    runner = start(
        "#pragma omp parallel for num_threads(THREADS)\nfor (int i = 0; i < N_; i++) out0[i] = 2 * in0[i];",
        "#define N_ 801",
    )
    for poison in (0, 1):
        run = runner.run([X], poison)
        assert run.guard_ok
        assert run.inputs_unchanged
        assert np.array_equal(run.outputs[0].view(np.float32), 2 * X)
        assert 0 < run.seconds <= run.wall
    assert "rlimits" in runner.isolation


def test_inputs_may_change_from_run_to_run(start: Run) -> None:
    runner = start(COPY)
    for factor in (1, 2, 3):
        assert np.array_equal(runner.run([X * factor], 0).outputs[0].view(np.float32), X * factor)
    with pytest.raises(ValueError, match="do not fit"):
        runner.run([X[1:]], 0)


def test_another_library_runs_in_a_process_of_its_own(start: Run, scratch: Scratch, program: Path) -> None:
    one, two = start(COPY), start("for (int i = 0; i < 5; i++) out0[i] = 3 * in0[i];", output=FEW)
    with CandidateRunner(
        one.library, [SPEC], [SPEC], scratch=scratch, threads=2, timeout=20.0, memory_bytes=1 << 28,
        program=program, later=[(two.library, [SPEC], [FEW])],
    ) as runner:  # fmt: skip
        first = runner.pid
        assert np.array_equal(runner.run([X], 0).outputs[0].view(np.float32), X)
        runner.pick(1)
        assert runner.pid != first
        with pytest.raises(ValueError, match="run the unit once"):
            runner.time(3, False)
        assert np.array_equal(runner.run([X], 1).outputs[0].view(np.float32), 3 * X[:5])


def test_the_runner_is_built_with_the_compiler_that_was_chosen(
    start: Run, tmp_path: Path, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, compiler = start(COPY).library, machine.find_compiler()
    cached = tmp_path / "cache" / "key" / "unit.so"
    cached.parent.mkdir(parents=True)
    library.rename(cached)
    monkeypatch.setenv("CXX", "/nowhere/g++")
    options = {"scratch": scratch, "threads": 1, "timeout": 20.0, "memory_bytes": 1 << 28}
    with CandidateRunner(cached, [SPEC], [SPEC], compiler=compiler, **options) as runner:  # type: ignore[arg-type]
        assert np.array_equal(runner.run([X], 0).outputs[0].view(np.float32), X)
    with pytest.raises(ToolchainError, match="from CXX"):
        CandidateRunner(cached, [SPEC], [SPEC], **options)  # type: ignore[arg-type]


def test_timing(start: Run) -> None:
    runner = start(COPY)
    with pytest.raises(ValueError, match="run the unit once"):
        runner.time(3, False)
    runner.run([X], 0)
    for cold in (False, True):
        batch = runner.batch(5, cold)
        assert len(batch.ns) == 5
        assert min(batch.ns) > 0
        assert 0 < batch.share <= 1
    assert len(runner.time(7, False)) == 7
    assert np.array_equal(runner.read()[0].view(np.float32), X)


def test_unwritten_elements_differ_between_poisons(start: Run) -> None:
    runner = start("out0[0] = 1;", output=BYTES)
    one, two = (runner.run([X], p).outputs[0] for p in (0, 1))
    assert one[0] == two[0] == 1
    assert (one[1:] != two[1:]).all()


@pytest.mark.parametrize("word", POISON)
@pytest.mark.parametrize(
    ("bits", "exponent"), [("float16", 0x7C00), ("bfloat16", 0x7F80), ("float32", 0), ("float64", 0)]
)
def test_poison_is_nan_in_every_format(word: int, bits: str, exponent: int) -> None:
    data = np.full(8, word, np.uint16)
    nan = (data & exponent) == exponent if exponent else np.isnan(data.view(bits))
    assert nan.all()


def test_buffers_move(start: Run) -> None:
    runner = start("out0[0] = (float)((uintptr_t)in0 % 65536); out0[1] = (float)((uintptr_t)in0 % 64);")
    seen = [runner.run([X], 0).outputs[0].view(np.float32)[:2] for _ in range(6)]
    assert len({float(s[0]) for s in seen}) > 1
    assert all(s[1] == 0 for s in seen)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("for (int i = 0; i <= in0_numel; i++) out0[i] = in0[i];", "out0: 0 bytes past its end"),
        (COPY + "out0[-3] = 1;", "out0: 9 bytes before its start"),
        (COPY + "((volatile char*)workspace)[64] = 1;", "workspace: 0 bytes past its end"),
        (COPY + "((volatile float*)in0)[-1] = 7;", "in0: 1 bytes before its start"),
    ],
)
def test_writes_outside_a_buffer(start: Run, body: str, detail: str) -> None:
    run = start(body, "#define WORKSPACE_BYTES 64").run([X], 0)
    assert (run.guard_ok, run.guard_detail) == (False, detail)
    assert run.inputs_unchanged


def test_odd_sizes_have_guards_to_the_byte(start: Run) -> None:
    runner = start("for (int i = 0; i < 802; i++) out0[i] = 5;", output=BYTES)
    assert [runner.run([X], p).guard_detail for p in (0, 1)] == ["out0: 0 bytes past its end"] * 2


def test_a_changed_input_is_named(start: Run) -> None:
    run = start(COPY + "((float*)in0)[3] = 7;").run([X], 0)
    assert (run.inputs_unchanged, run.input_detail, run.guard_ok) == (False, "in0", True)


def test_the_workspace_holds_no_memory_of_the_last_run(start: Run) -> None:
    runner = start(
        "float* w = (float*)workspace; out0[0] = w[0] == 42; w[0] = 42;", "#define WORKSPACE_BYTES 4"
    )
    assert [runner.run([X], 0).outputs[0].view(np.float32)[0] for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("body", "head", "message"),
    [
        ("volatile char* volatile p = 0; *p = 1;", "", "SIGSEGV"),
        ("abort();", "#include <stdlib.h>", "SIGABRT"),
        ("free((void*)in0);", "#include <stdlib.h>", "SIGABRT"),
        ("fork();", "#include <unistd.h>", "EPERM or SIGSYS"),
        ('execl("/bin/sh", "sh", (char*)0);', "#include <unistd.h>", "SIGSYS"),
        ("socket(2, 1, 0);", "#include <sys/socket.h>", "SIGSYS"),
        ("kill(getppid(), 9);", "#include <signal.h>\n#include <unistd.h>", "SIGSYS"),
        ('if (open("/etc/passwd", 0) < 0) abort();', "#include <fcntl.h>\n#include <stdlib.h>", "SIGSYS"),
        ('open("/tmp/ws-escape", 65, 438);', "#include <fcntl.h>", "SIGSYS"),
        ('dlopen("libz.so.1", 2);', "#include <dlfcn.h>", "SIGSYS"),
        ("ptrace(PTRACE_ATTACH, getppid(), 0, 0);", "#include <sys/ptrace.h>\n#include <unistd.h>", "SIGSYS"),
        ("write(1, in0, 8);", "#include <unistd.h>", "SIGSYS"),
        ("exit(0);", "#include <stdlib.h>", "exit code 0"),
        (
            "if (mmap(0, 4096, 7, 34, -1, 0) == MAP_FAILED) abort();",
            "#include <sys/mman.h>\n#include <stdlib.h>",
            "SIGABRT",
        ),
        ("#pragma omp parallel num_threads(9)\nout0[0] = 1;", "", "exit code 1"),
    ],
)
def test_crashes_and_escapes(start: Run, body: str, head: str, message: str) -> None:
    runner = start(body, head)
    if message.startswith("EPERM"):
        runner.run([X], 0)  # fork is clone, which fails as it would for want of processes
        assert psutil.Process(runner.pid).children() == []
        return
    if "SIGSYS" in message and "seccomp" not in runner.isolation:
        pytest.skip("this kernel has no seccomp")
    with pytest.raises(RunnerCrashed, match=message):
        runner.run([X], 0)
    assert not Path("/tmp/ws-escape").exists()


def test_a_hang_is_killed(start: Run) -> None:
    runner = start("for (volatile int i = 0;;) i = i;", timeout=0.5)
    pid, started = runner.pid, time.monotonic()
    with pytest.raises(RunnerTimeout, match=r"no answer in 0\.5 s"):
        runner.run([X], 0)
    assert time.monotonic() - started < 5
    assert not psutil.pid_exists(pid)


def test_wait_for_a_processor_is_not_charged_to_the_unit(start: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps in place of waiting: longer than its time-out, and shorter than that and the wait."""
    head = "#include <time.h>\n"
    body = "struct timespec t = {1, 0}; nanosleep(&t, 0); for (int64_t i = 0; i < out0_numel; i++) out0[i] = in0[i];"
    runner = start(body, head, timeout=0.5)
    monkeypatch.setattr(runner_module, "find_longest_wait_ns", lambda pid, before: 4_000_000_000)
    assert runner.run([X], 0).outputs
    monkeypatch.setattr(runner_module, "find_longest_wait_ns", lambda pid, before: 100_000_000)
    with pytest.raises(RunnerTimeout):
        runner.run([X], 0)


def test_a_memory_eater_gets_no_memory(start: Run) -> None:
    head = "#include <stdlib.h>\n#include <string.h>\n"
    body = """
for (int i = 0; i < 64; i++) {
  char* p = (char*)malloc(1 << 26);
  if (!p) { out0[0] = i; return; }
  memset(p, 1, 1 << 26);
  out0[1] += p[9];
}
"""
    eaten = start(body, head).run([X], 0).outputs[0].view(np.float32)[0]
    assert 1 <= eaten <= 4  # of 64 MiB each, out of 256


def test_too_much_workspace(start: Run) -> None:
    with pytest.raises(RunnerCrashed, match=r"4\.0 GiB of workspace; 0\.2 is the limit"):
        start(COPY, "#define WORKSPACE_BYTES (1ull << 32)")


def test_a_library_that_does_not_load(start: Run) -> None:
    with pytest.raises(RunnerCrashed, match="cannot be loaded"):
        start("missing(1);", "extern void missing(int);")


def test_a_forged_answer_does_not_help(start: Run) -> None:
    """A unit that answers for the runner is bounded by what the bytes say."""
    head = "#include <unistd.h>\n#include <stdint.h>"
    body = """
uint64_t r[4] = {0, 1, 0, 0};
for (int fd = 3; fd < 64; fd++) if (write(fd, r, 32) == 32) break;
for (;;) pause();
"""
    runner = start(body, head, timeout=2.0)
    try:
        run = runner.run([X], 0)
    except RunnerCrashed:
        return  # killed for writing to another descriptor first
    assert np.isnan(run.outputs[0].view(np.float32)).all()


def test_it_is_stopped_between_commands(start: Run) -> None:
    runner = start(COPY)
    runner.run([X], 0)
    assert psutil.Process(runner.pid).status() == psutil.STATUS_STOPPED


def test_nothing_is_left(start: Run, scratch: Scratch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with start(COPY) as runner:
        runner.run([X], 0)
        pid = runner.pid
    runner.close()
    assert not psutil.pid_exists(pid)
    assert len(os.listdir("/proc/self/fd")) == before
    assert list(scratch.path.iterdir()) == []


def test_it_dies_with_the_supervisor(start: Run) -> None:
    library = start(COPY).library
    code = f"""
import os, signal
from pathlib import Path
from warpsmith.judge.isolation import runner as runner_module
from warpsmith.judge.isolation.runner import CandidateRunner
from warpsmith.processes.buffers import Scratch
from warpsmith.records import TensorSpec
spec = TensorSpec(shape=({N},), dtype="float32", stride=(1,))
runner = CandidateRunner(
    Path("{library}"), [spec], [spec], scratch=Scratch(), threads=2, timeout=9, memory_bytes=1 << 28
)
print(runner.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    pid, deadline = int(done.stdout), time.monotonic() + 5
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not psutil.pid_exists(pid)
