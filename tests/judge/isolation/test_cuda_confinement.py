"""The CUDA runner's protocol and confinement, with a CUDA runtime that keeps "device" memory on the host.

What a GPU does is in `test_cuda_runner.py`; here the real runner, built by the real nvcc, meets units that
compute, misbehave and try to get out.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest

from warpsmith import machine
from warpsmith.errors import JudgeError, ToolchainError
from warpsmith.judge.isolation.cuda_runner import LEVELS, CudaRunner, confinement, probe
from warpsmith.judge.isolation.runner import ENDINGS, RunnerCrashed, RunnerTimeout
from warpsmith.judge.isolation.runner_program import cuda_runner_program
from warpsmith.processes.buffers import Scratch, ValuesFile
from warpsmith.records import TensorSpec
from warpsmith.targets import cuda_toolkit

try:
    KIT = cuda_toolkit.toolkit()
except ToolchainError as missing:
    pytest.skip(str(missing), allow_module_level=True)
if not (KIT.libraries / "libcudart.so.13").exists():
    pytest.skip("the fake runtime stands in for CUDA 13's", allow_module_level=True)

HERE = Path(__file__).parent
N = 801
SPEC = TensorSpec(shape=(N,), dtype="float32", stride=(1,))
X = np.linspace(-1, 1, N, dtype=np.float32)
COPY = f"for (int i = 0; i < {N}; i++) y[i] = 2 * x[i];"
SMALL = TensorSpec(shape=(5,), dtype="float32", stride=(1,))
Run = Callable[..., CudaRunner]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cuda_runner_program(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runtime")
    command = [
        machine.find_compiler(),
        "-x",
        "c",
        "-shared",
        "-fPIC",
        "-w",
        str(HERE / "fake_cudart.c"),
        "-o",
    ]
    name = "libcudart.so.13"
    script = f"-Wl,-soname,{name},--version-script,{HERE / 'fake_cudart.map'}"
    subprocess.run([*command, str(folder / name), script], check=True)
    return folder


@pytest.fixture
def start(tmp_path: Path, program: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """start(body, head) → a runner with that unit loaded."""
    running: list[CudaRunner] = []
    monkeypatch.setenv("LD_LIBRARY_PATH", str(runtime))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def built(name: str, body: str, head: str, workspace: int) -> Path:
        source, library = tmp_path / f"{name}.c", tmp_path / f"{name}.so"
        source.write_text(f"""{head}
#include <stdint.h>
uint64_t warpsmith_workspace_bytes(void) {{ return {workspace}; }}
int warpsmith_run(const void* const* in, void* const* out, void* workspace, void* stream) {{
  const float* x = in[0]; float* y = out[0]; {body} return 0; }}
""")
        compiler = [machine.find_compiler(), "-x", "c", "-shared", "-fPIC", "-w", "-O1"]
        subprocess.run([*compiler, str(source), "-o", str(library)], check=True)
        return library

    def start(
        body: str,
        head: str = "",
        workspace: int = 64,
        timeout: float = 10.0,
        later: Sequence[str] = (),
        inputs: int = 1,
    ) -> CudaRunner:
        """`later`: bodies at the shape of `SMALL` with so many `inputs`, and with twice as much workspace."""
        more = [
            (built(f"later{i}", text, head, 2 * workspace), [SMALL] * inputs, [SMALL])
            for i, text in enumerate(later)
        ]
        runner = CudaRunner(
            built("unit", body, head, workspace), [SPEC], [SPEC], scratch=scratch, threads=1, timeout=timeout,
            memory_bytes=1 << 26, program=program, later=more,
        )  # fmt: skip
        running.append(runner)
        return runner

    with Scratch() as scratch:
        yield start
        for runner in running:
            runner.close()


def test_every_level_of_confinement_lets_the_gpu_work(start: Run, program: Path) -> None:
    outcomes = [probe(program, level) for level in LEVELS]
    if ENDINGS[62] in outcomes:
        pytest.skip("this kernel lacks a part of the confinement")
    assert outcomes == [""] * 4
    assert confinement(program, "") == LEVELS[0]
    assert start(COPY).isolation.startswith("device copies+landlock")


def test_no_device(start: Run, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "none")
    with pytest.raises(JudgeError, match="no CUDA device could be used: see `nvidia-smi`"):
        confinement(program, "none")
    with pytest.raises(JudgeError, match="no CUDA device"):
        start(COPY)


def test_outputs_and_clocks(start: Run) -> None:
    runner, files = start(COPY), list[Path]()
    for poison in (0, 1):
        run = runner.run([X], poison)
        assert (run.guard_ok, run.inputs_unchanged) == (True, True)
        assert np.array_equal(run.outputs[0].view(np.float32), 2 * X)
        assert run.values_file is not None
        files.append(run.values_file)
        assert np.array_equal(ValuesFile(run.values_file, [SPEC]).array(0), 2 * X), (
            "where the reference worker looks"
        )
        assert 0 < run.seconds <= run.wall
    assert files[0] != files[1]
    assert runner.run([X], 0).values_file == files[0]
    for cold in (False, True):
        batch = runner.batch(5, cold)
        assert len(batch.ns) == 5
        assert 0 < sum(batch.ns) * 1e-9 <= batch.host <= batch.wall
        assert np.array_equal(runner.read()[0].view(np.float32), 2 * X)
    runner.close()
    assert not any(file.exists() for file in files)


def test_one_process_runs_a_unit_at_one_shape_after_the_other(start: Run) -> None:
    few = "for (int i = 0; i < 5; i++) y[i] = 3 * x[i];"
    runner = start(COPY, later=[few, f"{few} y[5] = 1;", "*(volatile int*)8 = 1;"])
    first = runner.pid
    assert np.array_equal(runner.run([X], 0).outputs[0].view(np.float32), 2 * X)
    runner.pick(1)
    with pytest.raises(ValueError, match="run the unit once"):
        runner.time(3, False)
    for poison in (0, 1):
        run = runner.run([X[:5]], poison)
        assert (run.guard_ok, run.inputs_unchanged) == (True, True)
        assert np.array_equal(run.outputs[0].view(np.float32), 3 * X[:5])
    assert len(runner.time(3, True)) == 3
    runner.pick(2)
    assert runner.run([X[:5]], 0).guard_detail == "out0: 0 bytes past its end"
    assert runner.pid == first
    runner.pick(3)
    with pytest.raises(RunnerCrashed, match="SIGSEGV"):
        runner.run([X[:5]], 0)


def test_one_process_runs_units_with_other_numbers_of_buffers(start: Run) -> None:
    runner = start(
        COPY, later=["for (int i = 0; i < 5; i++) y[i] = x[i] - ((const float*)in[1])[i];"], inputs=2
    )
    runner.run([X], 0)
    runner.pick(1)
    for poison in (0, 1):
        run = runner.run([X[:5], 2 * X[:5]], poison)
        assert (run.guard_ok, run.inputs_unchanged) == (True, True)
        assert np.array_equal(run.outputs[0].view(np.float32), -X[:5])
    assert len(runner.time(3, True)) == 3


def test_timed_calls_start_from_poison(start: Run) -> None:
    """A unit that notices that it is timed and does nothing leaves NaN, not the last run's results."""
    runner = start(f"static int calls; if (calls++ == 0) {COPY}")
    runner.run([X], 0)
    runner.time(3, True)
    assert np.isnan(runner.read()[0].view(np.float32)).all()


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (COPY + f"y[{N}] = 1;", "out0: 0 bytes past its end"),
        (COPY + "y[-3] = 1;", "out0: 9 bytes before its start"),
        (COPY + "((char*)workspace)[64] = 1;", "workspace: 0 bytes past its end"),
    ],
)
def test_writes_outside_a_buffer(start: Run, body: str, detail: str) -> None:
    run = start(body).run([X], 0)
    assert (run.guard_ok, run.guard_detail) == (False, detail)


def test_a_changed_input_and_what_was_never_written(start: Run) -> None:
    runner = start("((float*)x)[3] = 7; y[0] = 1;")
    one, two = (runner.run([X], p) for p in (0, 1))
    assert (one.inputs_unchanged, one.input_detail) == (False, "in0")
    assert (one.outputs[0][4:] != two.outputs[0][4:]).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 700;", r"the unit crashed: an illegal memory access was encountered \(CUDA error 700\)"),
        ("*(volatile char*)0 = 1;", "SIGSEGV"),
        ("exit(0);", "exit code 0"),
        ("fork();", "SIGSYS, a forbidden system call"),
        ('execl("/bin/sh", "sh", (char*)0);', "SIGSYS"),
        ("socket(2, 1, 0);", "SIGSYS"),
        ("kill(getppid(), 9);", "SIGSYS"),
        ("ptrace(16, getppid(), 0, 0);", "SIGSYS"),
    ],
)
def test_crashes_and_escapes(start: Run, body: str, message: str) -> None:
    head = "#include <signal.h>\n#include <stdlib.h>\n#include <sys/ptrace.h>\n#include <sys/socket.h>\n#include <unistd.h>"
    runner = start(body, head)
    if "SIGSYS" in message and "seccomp" not in runner.isolation:
        pytest.skip("this kernel has no seccomp")
    pid = runner.pid
    with pytest.raises(RunnerCrashed, match=message):
        runner.run([X], 0)
    assert not psutil.pid_exists(pid)
    assert np.array_equal(start(COPY).run([X], 0).outputs[0].view(np.float32), 2 * X)


def test_files_are_out_of_reach(start: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("seed")
    paths = [str(secret), "/etc/passwd", "/proc/1/environ", str(tmp_path / "new"), "/proc/self/statm"]
    tries = "".join(
        f'y[{i}] = open("{path}", {"O_RDWR | O_CREAT, 0600" if path.endswith("new") else "O_RDONLY"}) < 0;'
        for i, path in enumerate(paths)
    )
    runner = start(tries, "#include <fcntl.h>")
    if "landlock" not in runner.isolation:
        pytest.skip("this kernel has no Landlock")
    denied = runner.run([X], 0).outputs[0].view(np.float32)[:5]
    assert list(denied) == [1, 1, 1, 1, 0]
    assert not (tmp_path / "new").exists()


def test_a_hang_is_killed(start: Run) -> None:
    runner = start("for (volatile int i = 0;;) i = i;", timeout=0.5)
    pid, started = runner.pid, time.monotonic()
    with pytest.raises(RunnerTimeout, match=r"no answer in 0\.5 s"):
        runner.run([X], 0)
    assert time.monotonic() - started < 5
    assert not psutil.pid_exists(pid)


def test_a_library_that_does_not_load(start: Run) -> None:
    with pytest.raises(RunnerCrashed, match="cannot be loaded"):
        start("missing(1);", "extern void missing(int);")
