"""What workers take is imported once a process, ahead of the first of them, for all tasks and submissions."""

from __future__ import annotations

import itertools
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from warpsmith import ahead, api, machine
from warpsmith.config import Config
from warpsmith.judge.correctness import workers
from warpsmith.judge.timing import baselines, timed_process
from warpsmith.processes import forked, worker

TASK = """
import torch

rows = {rows}


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.rand(rows, 8)]


def get_init_inputs():
    return []
"""
NUMBERS = itertools.count(1000)


def test_the_names_are_those_of_modules_that_workers_run() -> None:
    used = {workers.REFERENCE_MODULE, baselines.MODULE, timed_process.ZYGOTE_MODULE}
    assert used == set(ahead.JUDGE)
    assert all(find_spec(name) for name in ahead.HOST)


@pytest.mark.parametrize("gpu", [False, True])
def test_with_a_gpu_torchs_compiler_is_tried_first(gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[set[str], set[str]]] = []
    monkeypatch.setattr(machine, "has_gpu_device", lambda: gpu)
    monkeypatch.setattr(
        forked, "start_ahead", lambda names, doubtful=(): asked.append((set(names), set(doubtful)))
    )
    ahead.start_ahead()
    ((names, doubtful),) = asked
    assert doubtful == ({ahead.EXPORTER, *ahead.COMPILER} if gpu else set())
    assert names | doubtful == {*ahead.HOST, *ahead.JUDGE, ahead.EXPORTER, *ahead.COMPILER}


@pytest.mark.parametrize("baselines", ["eager", "eager,compile", "compile-max-autotune"])
def test_torchs_compiler_is_left_out_where_no_baseline_compiles(
    baselines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(machine, "has_gpu_device", lambda: False)
    monkeypatch.setattr(forked, "start_ahead", lambda names: asked.extend(names))
    ahead.start_ahead(baselines)
    assert (
        set(ahead.COMPILER) <= set(asked) if "compile" in baselines else not set(ahead.COMPILER) & set(asked)
    )
    assert {*ahead.HOST, *ahead.JUDGE, ahead.EXPORTER} <= set(asked)


def test_a_second_task_and_another_thread_have_the_same_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tasks of a suite and submissions of an author do."""
    servers, forks = [], []

    class Noted(forked.Server):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            servers.append(self)

    def fork(*given: Any) -> forked.Forked:
        forks.append(given[0])
        return real_fork(*given)

    real_fork = worker.fork
    monkeypatch.setenv("MALLOC_ARENA_MAX", str(next(NUMBERS)))  # no other test has a server of it
    monkeypatch.setattr(forked, "Server", Noted)
    monkeypatch.setattr(worker, "fork", fork)
    admitted, counts = [], []

    def check(rows: int) -> None:
        (tmp_path / f"task{rows}.py").write_text(TASK.format(rows=rows))
        config = Config.load({"cache": tmp_path / "cache"})
        admitted.append(api.check_task(str(tmp_path / f"task{rows}.py"), config=config)[1].admitted)
        counts.append(len(forks))

    for rows in (64, 96):
        thread = threading.Thread(target=check, args=(rows,))
        thread.start()
        thread.join()
    assert admitted == [True, True]
    assert counts[1] > counts[0] > 0, "workers are of one task each"
    assert len(servers) == 1
