"""Whatever can be wrong, through the real program: one clear line, a non-zero exit code, nothing lost.

One of each ending is a process of its own, and so is all that ends, limits or kills one; the others run in this process, which
has imported everything.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest

from warpsmith.cli.main import main

Here = Callable[..., subprocess.CompletedProcess[str]]
PROGRAM = [sys.executable, "-m", "warpsmith"]
HEAD = "import torch\nimport torch.nn as nn\nrows = 64\n"
MODEL = "class Model(nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, dim=-1)\n"
INPUTS = "def get_inputs():\n    return [torch.randn(rows, 96)]\n"
INIT = "def get_init_inputs():\n    return []\n"
GOOD = HEAD + MODEL + INPUTS + INIT
QUICK = ("--baselines", "eager")

BAD_TASKS = {
    "syntax error": (HEAD + "class Model(:\n", "syntax"),
    "no Model": (HEAD + INPUTS + INIT, "Model"),
    "no get_inputs": (HEAD + MODEL + INIT, "get_inputs"),
    "get_inputs of another shape": (
        HEAD
        + MODEL
        + "def get_inputs():\n    return [torch.randn(2), torch.randn(2), torch.randn(2)]\n"
        + INIT,
        "",
    ),
    "get_inputs that raises": (HEAD + MODEL + "def get_inputs():\n    return 1 / 0\n" + INIT, "get_inputs"),
    "data-dependent control flow": (
        GOOD.replace("return torch.softmax(x, dim=-1)", "return x if x.sum() > 0 else -x"),
        "",
    ),
    "random numbers": (GOOD.replace("torch.softmax(x, dim=-1)", "x + torch.rand(1)"), "rand"),
    "exits": (HEAD + "import os\nos._exit(3)\n" + MODEL + INPUTS + INIT, ""),
    "crashes": (HEAD + "import os\nos.kill(os.getpid(), 11)\n" + MODEL + INPUTS + INIT, ""),
    "allocates 100 GB": (HEAD + "hog = bytearray(100 << 30)\n" + MODEL + INPUTS + INIT, ""),
    "inputs of 100 GB": (GOOD.replace("rows = 64", "rows = 1 << 28"), ""),
}


@pytest.fixture(name="environment")
def _environment(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, with_peaks: Callable[..., Path]
) -> dict[str, str]:
    """A clean archive a test, and one cache for all, so that the machine's peaks are measured once. Of what
    a search found one candidate is confirmed. One thread: beside other tests, threads would wait for one another most of the time.
    """
    cache = with_peaks(tmp_path_factory.getbasetemp() / "cache")
    return os.environ | {
        "WARPSMITH_ARCHIVE": str(tmp_path / "archive.db"), "WARPSMITH_CACHE": str(cache), "NO_COLOR": "1",
        "WARPSMITH_CONFIRM": "1", "WARPSMITH_THREADS": "1",
    }  # fmt: skip


@pytest.fixture(name="good")
def _good(tmp_path: Path) -> Path:
    path = tmp_path / "good.py"
    path.write_text(GOOD)
    return path


def warpsmith(
    *arguments: str | Path,
    env: dict[str, str],
    before: Callable[[], None] | None = None,
    timeout: float = 240,
) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=timeout, preexec_fn=before, check=False
    )


@pytest.fixture(name="here")
def _here(
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    few_rounds: Callable[[], AbstractContextManager[None]],
) -> Here:
    """As `warpsmith`, in this process; variables of its own by their names."""

    def call(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        for name, value in (environment | variables).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["warpsmith", *map(str, arguments)])
        capfd.readouterr()
        with few_rounds(), pytest.raises(SystemExit) as ended:
            main()
        return subprocess.CompletedProcess(sys.argv, int(ended.value.code or 0), *capfd.readouterr())

    return call


def one_line(done: subprocess.CompletedProcess[str], code: int, word: str = "") -> str:
    """The only line on standard error of a quiet command that failed with this code."""
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == code, done.stderr + done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("warpsmith: ")
    assert len(lines[0]) < 500
    assert word.lower() in lines[0].lower()
    return lines[0]


def runs(here: Here) -> list[dict[str, Any]]:
    done = here("archive", "list", "--json", "-")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


# ---------------------------------------------------------------- tasks


def test_missing_file(environment: dict[str, str]) -> None:
    one_line(warpsmith("optimize", "no_such_file.py", "--quiet", env=environment), 2, "no_such_file.py")


def test_missing_module(here: Here) -> None:
    one_line(here("optimize", "no_such_package.module:Model", "--quiet"), 2, "no_such_package")


@pytest.mark.parametrize("name", BAD_TASKS)
def test_bad_task(name: str, here: Here, tmp_path: Path) -> None:
    text, word = BAD_TASKS[name]
    path = tmp_path / "bad.py"
    path.write_text(text)
    started = time.monotonic()
    one_line(here("optimize", path, "--quiet", *QUICK), 2, word)
    assert time.monotonic() - started < 60


def test_a_task_that_crashes_in_a_process_of_its_own(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(BAD_TASKS["crashes"][0])
    one_line(warpsmith("optimize", path, "--quiet", *QUICK, env=environment), 2)


def test_task_that_loops_forever(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "loop.py"
    path.write_text(HEAD + "while True:\n    pass\n" + MODEL + INPUTS + INIT)
    one_line(here("optimize", path, "--quiet", WARPSMITH_LOAD_TIMEOUT="2"), 2, "not done after 2 s")


# ---------------------------------------------------------------- machine and settings


def test_no_compiler(environment: dict[str, str], here: Here, good: Path, tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    one_line(warpsmith("optimize", good, "--quiet", env=environment | {"PATH": str(empty)}), 3)
    one_line(here("optimize", good, "--quiet", WARPSMITH_COMPILER="/no/such/g++"), 3, "/no/such/g++")


def test_doctor_names_what_is_missing(here: Here) -> None:
    done = here("doctor", WARPSMITH_COMPILER="/no/such/g++")
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if line.startswith("NOT") and "/no/such/g++" in line]


@pytest.mark.parametrize(
    ("name", "value"),
    [("THREADS", "many"), ("LOAD_TIMEOUT", "soon"), ("BASELINES", "eager,quantum"), ("THREADS", "-2")],
)
def test_wrong_setting(name: str, value: str, here: Here, good: Path) -> None:
    one_line(here("optimize", good, "--quiet", **{f"WARPSMITH_{name}": value}), 2, name.lower())


@pytest.mark.parametrize(
    "arguments", [("--budget", "-3"), ("--time", "soon"), ("--set", "rows"), ("--target", "abacus")]
)
def test_wrong_flag(arguments: tuple[str, str], here: Here, good: Path) -> None:
    one_line(here("optimize", good, "--quiet", *arguments), 2)


def test_read_only_archive(environment: dict[str, str], good: Path) -> None:
    done = warpsmith("optimize", good, "--quiet", "--archive", "/proc/warpsmith/archive.db", env=environment)
    one_line(done, 4, "/proc/warpsmith")


def test_a_home_that_cannot_be_written_is_told_with_a_remedy(
    environment: dict[str, str], good: Path, tmp_path: Path
) -> None:
    usual = {
        k: v
        for k, v in environment.items()
        if k not in ("WARPSMITH_ARCHIVE", "WARPSMITH_CACHE", "XDG_CACHE_HOME")
    }
    home = {**usual, "HOME": "/proc/nobody"}
    one_line(warpsmith("optimize", good, "--quiet", env=home), 4, "pass --archive")
    with_archive = ("optimize", good, "--quiet", "--archive", tmp_path / "a.db")
    one_line(warpsmith(*with_archive, env=home), 5, "set WARPSMITH_CACHE or XDG_CACHE_HOME")


def test_corrupt_archive(here: Here, good: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"not a database " * 500)
    for arguments in (("optimize", good, "--quiet"), ("archive", "list"), ("report",)):
        one_line(here(*arguments, "--archive", damaged), 4, "damaged.db")
    assert damaged.read_bytes() == b"not a database " * 500


def test_full_disk(environment: dict[str, str], good: Path) -> None:
    """No file may grow beyond 64 KiB, which fails writes just as a full disk does."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

    done = warpsmith("optimize", good, "--quiet", *QUICK, env=environment, before=limit)
    assert done.returncode in (2, 3, 4, 5), done.stderr
    one_line(done, done.returncode)


# ---------------------------------------------------------------- interruptions


def optimize(good: Path, *more: str, budget: int) -> list[str]:
    return [
        "optimize", str(good), "--time", "60s", "--budget", str(budget), "--seed", "1", *QUICK, *more
    ]  # fmt: skip


def start(good: Path, env: dict[str, str], budget: int = 12) -> subprocess.Popen[str]:
    command = [*PROGRAM, *optimize(good, budget=budget)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines_until(process: subprocess.Popen[str], word: str) -> Iterator[str]:
    assert process.stderr is not None
    for line in process.stderr:
        yield line
        if word in line:
            return
    pytest.fail(f"the run ended before it said {word!r}")


def gone(children: list[psutil.Process], within: float = 10.0) -> bool:
    return not psutil.wait_procs(children, timeout=within)[1]


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_keeps_what_was_finished(
    sent: int, environment: dict[str, str], here: Here, good: Path
) -> None:
    process = start(good, environment)
    list(lines_until(process, "judged "))
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("warpsmith: interrupted")
    assert gone(children)
    assert len(runs(here)) == 1
    assert "ok" in here("archive", "show").stdout


@pytest.mark.slow
def test_killed_run_is_resumed(environment: dict[str, str], here: Here, good: Path) -> None:
    process = start(good, environment, budget=2)
    list(lines_until(process, "judged "))
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    assert gone(children), "workers outlive their supervisor"
    again = here(*optimize(good, budget=2))
    assert again.returncode == 0, again.stderr
    assert "resuming run" in again.stderr
    assert len(runs(here)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    ["warpsmith.tasks.host", "warpsmith.judge.correctness.reference", "warpsmith.judge.timing.zygote"],
)
def test_killed_worker_ends_in_a_result_or_in_one_line(
    module: str, environment: dict[str, str], here: Here, good: Path
) -> None:
    process = start(good, environment, budget=1)
    killed, deadline = False, time.monotonic() + 60
    while not killed and process.poll() is None and time.monotonic() < deadline:
        for child in psutil.Process(process.pid).children(recursive=True):
            if _name(child) == f"{module.split('.')[1]}.{module.split('.')[-1]}":
                child.kill()
                killed = True
        time.sleep(0.02)
    out, err = process.communicate(timeout=200)
    assert killed, f"no process ran {module}"
    assert "Traceback" not in out + err
    if process.returncode != 0:
        assert err.splitlines()[-1].startswith("warpsmith: ") or "failed" in out
    assert here("archive", "list").returncode == 0


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""


@pytest.mark.slow
def test_two_runs_on_one_archive(environment: dict[str, str], here: Here, good: Path) -> None:
    other = start(good, environment, budget=1)
    one = here(*optimize(good, "--set", "rows=80", budget=1))
    assert one.returncode == 0, one.stderr
    _, err = other.communicate(timeout=280)
    assert other.returncode == 0, err
    found = runs(here)
    assert len(found) == 2
    assert all(r["summary"] for r in found)


CRASHING = """// warpsmith-unit: 1
#include "task.h"
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {
    *(volatile int*)0 = 1;
}
"""


@pytest.mark.slow
def test_kernel_that_crashes_is_a_verdict(here: Here, good: Path, tmp_path: Path) -> None:
    """Other hostile kernels: tests/judge/test_hostile.py."""
    unit = tmp_path / "unit.cpp"
    unit.write_text(CRASHING)
    done = here("judge", unit, "--task", good, "--json", "-", "--quiet", *QUICK)
    assert done.returncode == 1, done.stderr + done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["verdict"] in ("incorrect", "invalid")
    assert verdict["reasons"]
    assert verdict["result"]["status"] == "crashed"


def test_what_is_no_unit_is_refused(here: Here, good: Path, tmp_path: Path) -> None:
    other = tmp_path / "solution.py"
    other.write_text("class Another: pass\n")
    one_line(here("judge", other, "--task", good, "--quiet"), 2, "solution.py")
    one_line(here("judge", tmp_path / "none.cpp", "--task", good, "--quiet"), 2, "none.cpp")
