"""A bundle on the way: packed, judged by the real judge, killed in the middle, gone on with, and brought back.

The program that judges runs without SQLAlchemy, jinja2 and the packages for language models.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from bare import ABSENT

from warpsmith.archive import Archive
from warpsmith.bundles.bundle import read_bundle
from warpsmith.bundles.journal import ROWS, ResultRow, TaskRow, read_rows
from warpsmith.records import Result

BARE = Path(__file__).parent / "bare.py"
KEY = "0123456789abcdef0123456789abcdef\n"

TASK = """
import torch
import torch.nn as nn

rows = 256
columns = 1024
VARIANTS = {"ragged": {"rows": 31, "columns": 509}}

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 3.0 + 1.0

def get_inputs():
    return [torch.randn(rows, columns)]

def get_init_inputs():
    return []
"""
GOOD = """// warpsmith-unit: 1
// family: pointwise   technique: fused
#include "task.h"
static void unit(const in0_t* x, out0_t* y, void* workspace, void* stream) {
    #pragma omp parallel for num_threads(THREADS)
    for (int64_t i = 0; i < in0_numel; ++i) y[i] = (x[i] > 0 ? x[i] : 0) * 3.0f + 1.0f;
}
"""
SOURCES = {
    "broken": GOOD.replace("unit(const", "unit(;const"),
    "wrong": GOOD.replace("+ 1.0f", "+ 1.5f"),
    "good": GOOD,
}


def program(folder: Path, *arguments: str, **options: object) -> subprocess.Popen[str]:
    """The bare program, its cache in the folder."""
    environment = {**os.environ, "WARPSMITH_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(BARE), *arguments], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # type: ignore[call-overload, no-any-return]  # fmt: skip


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=280)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, with_peaks: Callable[..., Path]) -> Path:
    """A folder with the task, its units, a key, and `b.tar.gz`, a signed bundle of them with one canary."""
    folder = tmp_path_factory.mktemp("packed")
    with_peaks(folder / "cache", 1)
    (folder / "scale.py").write_text(TASK)
    (folder / "key").write_text(KEY)
    units = []
    for name, source in SOURCES.items():
        (folder / f"{name}.cpp").write_text(source)
        units += ["--unit", f"scale.py={name}.cpp"]
    command = [sys.executable, "-m", "warpsmith", "bundle", "create", "b.tar.gz", *units]
    subprocess.run([*command, "--canary", "1", "--key-file", "key"], cwd=folder, check=True, timeout=120)
    (folder / "scale.py").unlink()  # the bundle is all that travels
    return folder


@dataclass
class Judged:
    folder: Path  # of the results
    before: bytes  # the journal when the first run was killed
    out: str
    root: str

    @property
    def rows(self) -> list[TaskRow | ResultRow]:
        return read_rows(self.folder, self.root, KEY.strip().encode())


@pytest.fixture(scope="module")
def judged(packed: Path) -> Judged:
    """The bundle judged by a run that is killed after its first result, and by the same command again."""
    command = ("bundle", "run", "b.tar.gz", "--out", "r", "--baselines", "eager", "--key-file", "key", "-q")
    first, journal = program(packed, *command, start_new_session=True), packed / "r" / ROWS
    deadline = time.monotonic() + 200
    while not (journal.exists() and b'"phase"' in journal.read_bytes()):
        assert first.poll() is None, first.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    before = journal.read_bytes()
    code, out, err = finished(program(packed, *command))
    assert code == 0, err
    return Judged(packed / "r", before, out, read_bundle(packed / "b.tar.gz").root)


def phases(judged: Judged, phase: str) -> dict[str, Result]:
    """Branch of the candidate → its result in one phase; each at most once."""
    candidates = read_bundle(judged.folder / "bundle").candidates
    found = [r.result for r in judged.rows if isinstance(r, ResultRow) and r.phase == phase]
    named = {
        next(n for n, s in SOURCES.items() if candidates[r.candidate_id].units[0].source == s): r
        for r in found
    }
    assert len(named) == len(found), "judged twice"
    return named


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_each_candidate_has_its_verdict_and_the_best_is_confirmed(judged: Judged) -> None:
    statuses = {name: r.status for name, r in phases(judged, "search").items()}
    assert statuses == {"good": "ok", "wrong": "incorrect", "broken": "build-failed"}
    confirmed = phases(judged, "confirmation")["good"]
    assert confirmed.status == "ok"
    assert confirmed.timing is not None
    assert confirmed.timing.confirmed
    assert not any(b.library for r in judged.rows if isinstance(r, ResultRow) for b in r.result.builds)


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_the_canary_was_judged_again(judged: Judged) -> None:
    (canary,) = phases(judged, "canary").values()
    first = phases(judged, "search")["good"]
    assert canary.candidate_id == first.candidate_id
    assert first.timing is not None
    assert canary.timing is not None
    ratio = canary.timing.median_us / first.timing.median_us
    assert f"canary {canary.candidate_id}: {ratio:.2f} times as long as the first time" in judged.out


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_a_kill_loses_nothing_that_was_verified(judged: Judged) -> None:
    whole = judged.before[: judged.before.rfind(b"\n") + 1]
    assert b'"phase"' in whole
    assert (judged.folder / ROWS).read_bytes().startswith(whole)


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_when_all_is_done_the_same_command_only_tells(packed: Path, judged: Judged) -> None:
    before = (judged.folder / ROWS).read_bytes()
    command = ("bundle", "run", "b.tar.gz", "--out", "r", "--baselines", "eager", "--key-file", "key")
    code, out, err = finished(program(packed, *command, "--json", "-"))
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["left"], told["unopened"], len(told["results"])) == ({}, {}, 3)
    assert (judged.folder / ROWS).read_bytes() == before


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_the_winner_comes_home(packed: Path, judged: Judged) -> None:
    command = [
        sys.executable,
        "-m",
        "warpsmith",
        "bundle",
        "import",
        "r",
        "--archive",
        "a.db",
        "--key-file",
        "key",
    ]
    done = subprocess.run(command, cwd=packed, check=True, capture_output=True, text=True)
    assert "new results from r, sealed with the key" in done.stdout
    archive = Archive(packed / "a.db")
    (run,) = archive.runs()
    confirmed = phases(judged, "confirmation")["good"]
    assert [e.result for e in archive.run_entries(run.run_id)] == [
        r.result for r in judged.rows if isinstance(r, ResultRow)
    ]
    winners = archive.winners(run.task_id, "cpu", run.environment.id)
    assert [w.result for w in winners] == [confirmed] * confirmed.win
    assert run.summary is not None
    assert run.summary.best is not None
    assert run.summary.best.candidate_id == confirmed.candidate_id


def gone(process: subprocess.Popen[str], within: float = 10.0) -> bool:
    """Whether soon no process of its group runs: a compiler that was started for the machine's peaks ends by itself. One
    that ended stays in the table until its parent asks for it, and an orphan's is whoever runs this machine.
    """
    deadline = time.monotonic() + within
    while _running(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _running(process.pid)


def _running(group: int) -> bool:
    for other in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(other.pid) == group and other.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


@pytest.mark.slow
def test_the_time_limit_ends_the_run_in_order(packed: Path) -> None:
    command = ("bundle", "run", "b.tar.gz", "--out", "short", "--limit-time", "2", "--baselines", "eager")
    start = time.monotonic()
    process = program(packed, *command, start_new_session=True)
    code, out, err = finished(process)
    assert time.monotonic() - start < 60
    assert code == 0, err
    assert "the time limit is reached" in err
    assert "left of scale: 3 to judge, the fastest to confirm" in out
    assert "the same command goes on" in out
    assert gone(process)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_in_one_line(packed: Path, number: signal.Signals) -> None:
    command = (
        "bundle",
        "run",
        "b.tar.gz",
        "--out",
        f"cut-{number}",
        "--baselines",
        "eager",
        "--limit-time",
        "1h",
        "-q",
    )
    process, journal = program(packed, *command, start_new_session=True), packed / f"cut-{number}" / ROWS
    while not journal.exists():
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(number)
    code, _, err = finished(process)
    assert (code, err) == (
        130,
        f"warpsmith: interrupted: cut-{number} holds 0 rows; the same command goes on from there\n",
    )
    assert gone(process)


@pytest.mark.slow
def test_a_task_that_cannot_be_opened_is_a_row_with_the_reason(packed: Path, tmp_path: Path) -> None:
    """Its Python needs what is not there: the run says so, goes on, and exits non-zero as nothing valid came out."""
    from warpsmith.bundles.bundle import make_bundle

    bundle = read_bundle(packed / "b.tar.gz")
    (task,) = bundle.tasks.values()
    source = task.source.model_copy(update={"text": "import not_there\n" + task.source.text})
    moved = task.model_copy(update={"source": source})
    candidates = [c.model_copy(update={"task_id": moved.id}) for c in bundle.candidates.values()]
    make_bundle("cpu", [moved], candidates).write(tmp_path / "b")
    command = ("bundle", "run", "b", "--out", "r", "--baselines", "eager")
    code, out, err = finished(program(tmp_path, *command))
    assert code == 1, err
    assert "scale: given up: " in out
    assert "not_there" in out
    (row,) = read_rows(tmp_path / "r", read_bundle(tmp_path / "b").root)
    assert isinstance(row, TaskRow)
    assert row.status == "task-error"


def test_a_bundle_for_a_gpu_says_that_it_needs_one(packed: Path, tmp_path: Path) -> None:
    from warpsmith import machine
    from warpsmith.bundles.bundle import make_bundle

    if machine.gpu() is not None:
        pytest.skip("there is a GPU here")
    bundle = read_bundle(packed / "b.tar.gz")
    make_bundle("cuda", bundle.tasks.values(), []).write(tmp_path / "b")
    code, _, err = finished(program(tmp_path, "bundle", "run", "b", "--out", "r"))
    assert (code, err) == (
        3,
        "warpsmith: the bundle is for CUDA and there is no NVIDIA GPU here: run it on a machine with one\n",
    )


def test_judging_a_bundle_loads_nothing_that_the_other_machine_lacks() -> None:
    code = "import sys, warpsmith.cli, warpsmith.bundles.running; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {*ABSENT, "torch"} & set(loaded)
    assert "warpsmith.judge.judge" in loaded
