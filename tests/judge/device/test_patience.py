"""Baselines beside other runs that have the GPU's memory for a while. No GPU is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from relu_task import relu_task

from warpsmith.errors import JudgeError
from warpsmith.judge.device import patience
from warpsmith.judge.device.patience import Patience, describe_no_memory, is_out_of_memory
from warpsmith.judge.timing import baselines as baselines_module
from warpsmith.judge.timing.baselines import Baselines
from warpsmith.judge.timing.bench import Bench
from warpsmith.judge.timing.interleaved_rounds import BaselineLost
from warpsmith.processes.buffers import Scratch
from warpsmith.processes.worker import WorkerFailed

TORCH_SAYS = (
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which "
    "512.00 MiB is free. Process 7 has 70.00 GiB memory in use."
)
FULL = WorkerFailed("OutOfMemoryError", TORCH_SAYS)
BROKEN = WorkerFailed("ValueError", "ValueError: shapes do not fit")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_S", 0.0)


class Loading:
    """A baseline's process that gives these answers; each process takes one of its baseline's."""

    answers: dict[str, list[Any]] = {}
    started: list[str] = []

    def __init__(self, module: str, folder: Path, **_: object) -> None:
        self.name = folder.name.removeprefix("bench-").rpartition("-")[0]
        self.process = SimpleNamespace(pid=1)
        self.started.append(self.name)

    def send(self, op: str, **fields: object) -> None: ...

    def receive(self, timeout: float) -> dict[str, Any]:
        answer = self.answers[self.name].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def call(self, op: str, timeout: float) -> dict[str, Any]:
        return {}

    def pause(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def load(
    monkeypatch: pytest.MonkeyPatch, scratch: Scratch, tmp_path: Path
) -> Callable[..., tuple[Baselines, list[str]]]:
    def loaded(device: str, **answers: list[Any]) -> tuple[Baselines, list[str]]:
        monkeypatch.setattr(baselines_module, "Worker", Loading)
        monkeypatch.setattr(Loading, "answers", answers)
        monkeypatch.setattr(Loading, "started", [])
        baselines = Baselines(
            relu_task(), tmp_path / "task", scratch=scratch, workdir=tmp_path, cache_dir=tmp_path / "c", threads=1,
            flush_bytes=0, device=device,
        )  # fmt: skip
        baselines.start(tuple(answers), tmp_path / "values")
        baselines.ready()
        return baselines, Loading.started

    return loaded


def test_a_baseline_that_finds_no_memory_is_started_again(load: Callable[..., Any]) -> None:
    baselines, started = load("cuda", eager=[{"seconds": 1}], compile=[FULL, FULL, {"seconds": 9}])
    assert set(baselines.alive) == {"eager", "compile"}
    assert baselines.failures == {}
    assert started == ["eager", "compile", "compile", "compile"]


def test_any_other_failure_is_final(load: Callable[..., Any]) -> None:
    baselines, started = load("cuda", eager=[{"seconds": 1}], compile=[BROKEN])
    assert baselines.failures == {"compile": "ValueError: shapes do not fit"}
    assert len(started) == 2


def test_a_processor_has_no_memory_to_wait_for(load: Callable[..., Any]) -> None:
    baselines, _ = load("cpu", eager=[FULL])
    assert set(baselines.failures) == {"eager"}


def test_without_memory_for_long_the_reason_says_how_much_was_missing(
    load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.0)
    baselines, _ = load("cuda", eager=[FULL])
    (reason,) = baselines.failures.values()
    assert "the GPU had no memory for 2.00 GiB more (512.00 MiB free)" in reason
    assert "\n" not in reason


class Ready:
    """A baseline's process that raises these when it is prepared, one after the other."""

    def __init__(self, name: str, *errors: Exception) -> None:
        self.name, self.errors, self.expected, self.rested = name, list(errors), 0.0, 0

    def prepare(self, values: Path, warmup: int, alone: bool = True) -> float:
        if self.errors:
            raise self.errors.pop(0)
        return 1.0

    def rest(self) -> None:
        self.rested += 1

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def bench(scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """On a GPU, its session a list of names."""
    bench = Bench(relu_task(), scratch=scratch, workdir=tmp_path, threads=1)
    bench.session.device = bench.pool.device = "cuda"
    monkeypatch.setattr(bench.pool, "_time_together", lambda processes, *_: [p.name for p in processes])
    return bench


def alive(scratch: Scratch, tmp_path: Path, *processes: Ready) -> Baselines:
    baselines = Baselines(
        relu_task(), tmp_path, scratch=scratch, workdir=tmp_path, cache_dir=tmp_path, threads=1, flush_bytes=0,
        device="cuda",
    )  # fmt: skip
    baselines.alive = {p.name: p for p in processes}  # type: ignore[misc]
    return baselines


def test_first_calls_without_memory_are_made_again_while_the_others_hold_little(
    bench: Bench, scratch: Scratch, tmp_path: Path
) -> None:
    eager, graph, broken = Ready("eager"), Ready("cuda-graph", FULL, FULL), Ready("compile", BROKEN)
    baselines = alive(scratch, tmp_path, eager, graph, broken)
    bench.pool._warm_up(baselines, tmp_path)
    assert set(baselines.alive) == {"eager", "cuda-graph"}
    assert eager.rested == 2
    assert set(baselines.failures) == {"compile"}


def test_baselines_are_timed_together_once_all_have_memory(
    bench: Bench, scratch: Scratch, tmp_path: Path
) -> None:
    baselines = alive(scratch, tmp_path, Ready("eager"), Ready("cuda-graph", FULL))
    assert bench.pool._time_baselines(baselines, [tmp_path]) == ["eager", "cuda-graph"]


def test_memory_that_is_missing_while_they_are_timed_together_is_waited_for(
    bench: Bench, scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = BaselineLost("the cuda-graph baseline failed", "cuda-graph")
    lost.__cause__ = FULL
    errors: list[Exception] = [FULL, lost]  # of the first process, and of another

    def time_together(processes: Any, *_: Any) -> list[str]:
        if errors:
            raise errors.pop(0)
        return [p.name for p in processes]

    monkeypatch.setattr(bench.pool, "_time_together", time_together)
    baselines = alive(scratch, tmp_path, Ready("eager"), Ready("cuda-graph"))
    assert bench.pool._time_baselines(baselines, [tmp_path]) == ["eager", "cuda-graph"]
    errors.append(BROKEN)
    with pytest.raises(WorkerFailed, match="do not fit"):
        bench.pool._time_baselines(baselines, [tmp_path])


def test_the_others_are_timed_without_one_that_never_has_memory(
    bench: Bench, scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.0)
    baselines = alive(scratch, tmp_path, Ready("eager"), Ready("cuda-graph", FULL))
    assert bench.pool._time_baselines(baselines, [tmp_path]) == ["eager"]
    assert "no memory for 2.00 GiB" in bench.pool.timings["cuda-graph"].reason


def test_none_left_is_told_with_the_reason(
    bench: Bench, scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.0)
    with pytest.raises(JudgeError, match=r"no baseline of .* runs: the GPU had no memory"):
        bench.pool._time_baselines(alive(scratch, tmp_path, Ready("eager", FULL)), [tmp_path])


@pytest.mark.parametrize(
    "said",
    [
        "OutOfMemoryError: CUDA out of memory.",
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "InductorError: OutOfMemoryError: CUDA out of memory.",
    ],
)
def test_missing_memory_has_many_names(said: str) -> None:
    error = WorkerFailed(said.partition(":")[0], said)
    assert is_out_of_memory(error)
    lost = BaselineLost("the eager baseline failed")
    assert not is_out_of_memory(lost)
    lost.__cause__ = error
    assert is_out_of_memory(lost)
    assert not is_out_of_memory(BROKEN)


def test_patience_begins_when_memory_is_missing_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    waiting = Patience(10.0)
    now[0] = 200.0
    assert not waiting.over
    now[0] = 209.0
    assert not waiting.over
    now[0] = 210.0
    assert waiting.over
    assert "tried again for 10 s" in describe_no_memory(FULL, waiting.waited)
