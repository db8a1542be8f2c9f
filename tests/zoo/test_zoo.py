"""The zoo through the real judge: every cheat is caught by the rule that it names, every honest twin passes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from warpsmith.config import Config
from warpsmith.processes.buffers import Scratch
from warpsmith.targets.diagnostics import one_line
from warpsmith.tasks.load import load_task
from warpsmith.zoo import table
from warpsmith.zoo.fixture import FOLDER, Fixture, load
from warpsmith.zoo.rows import ZooRow, rows_text
from warpsmith.zoo.table import target_for, zoo_table
from warpsmith.zoo.units import candidate

EXPECTED = ("caught", "passed", "residual", "residual, caught", "not run")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, with_peaks: Callable[[Path], Path]) -> Path:
    return with_peaks(tmp_path_factory.mktemp("zoo"))


def surprises(rows: list[ZooRow]) -> str:
    odd = [r for r in rows if r.outcome not in EXPECTED]
    return "\n".join(
        f"{r.form}/{r.name}: {r.outcome}; expected {r.expected}; got {r.got}: {r.rule}" for r in odd
    )


# Kernels that threads or clocks decide have one of these in their name: on a busy machine they may get away with it.
RACING = ("critical", "clock", "late", "race", "thread", "times")
BOTH = [False, pytest.param(True, marks=pytest.mark.alone)]


def check_zoo(cache: Path, monkeypatch: pytest.MonkeyPatch, fixtures: list[Fixture]) -> None:
    (form,) = {f.form for f in fixtures}
    monkeypatch.setattr(table, "load", lambda forms: fixtures)
    rows = zoo_table(Config(cache=cache), forms=(form,))
    assert len(rows) == len(fixtures) > 1
    assert not surprises(rows), surprises(rows)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("races", BOTH)
def test_kernels_in_cpp(cache: Path, monkeypatch: pytest.MonkeyPatch, races: bool) -> None:
    fixtures = [f for f in load(("cpp",)) if any(word in f.name for word in RACING) is races]
    check_zoo(cache, monkeypatch, fixtures)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("races", BOTH)
def test_solutions_on_the_cpu(cache: Path, monkeypatch: pytest.MonkeyPatch, races: bool) -> None:
    """`races`: those that are caught if the judge is faster than a thread of theirs, or by clocks; on a busy machine they may not be."""
    # One thread: on a busy machine, barriers would take the time that the clocks are compared by.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    fixtures = [f for f in load(("modelnew",)) if (f.name.startswith("late_") or f.words == "clock") is races]
    check_zoo(cache, monkeypatch, fixtures)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_kernels_in_cuda_build_or_are_refused(cache: Path) -> None:
    """Without a GPU: what is to be caught before it runs is, and the rest builds (every third of it is tried here:
    on a machine with a GPU all of it runs).
    """
    target = target_for("cuda", Config(cache=cache))
    early = [f for f in load(("cuda",)) if f.statuses == ("refused",)]
    fixtures = [*early, *[f for f in load(("cuda",)) if f.statuses != ("refused",)][::3]]
    with Scratch() as scratch:
        files = {f.task: FOLDER / "tasks" / f"{f.task}.py" for f in fixtures}
        tasks = {name: load_task(str(path), scratch=scratch) for name, path in files.items()}
    units = [candidate(f, tasks[f.task], target).units[0] for f in fixtures]
    graphs = [tasks[f.task].main.graph for f in fixtures]
    with ThreadPoolExecutor(2) as pool:
        builds = list(pool.map(target.build, units, graphs, ["main"] * len(units)))
    odd = []
    for fixture, build in zip(fixtures, builds, strict=True):
        refused = fixture in early
        if build.ok is refused or (refused and fixture.words not in one_line(build.diagnostics)):
            odd.append(f"{fixture.key}: {'builds' if build.ok else one_line(build.diagnostics)}")
    assert not odd, "\n".join(odd)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_kernels_in_cuda(cache: Path) -> None:
    rows = zoo_table(Config(cache=cache), forms=("cuda",), device="cuda")
    print(rows_text(rows))
    assert not surprises(rows), rows_text(rows)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_solutions_on_the_gpu(cache: Path) -> None:
    rows = zoo_table(Config(cache=cache), forms=("modelnew",), device="cuda")
    print(rows_text(rows))
    assert not surprises(rows), rows_text(rows)
