"""An archive with a winner: a kernel written by hand for gelu → layer norm, as if it had been judged here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from compiled_models import SCALED_RELU, Tail
from torch import nn

from warpsmith.archive.store import Archive
from warpsmith.machine import describe
from warpsmith.records import (
    Candidate,
    Check,
    Ratio,
    Result,
    Task,
    Timing,
    Verdict,
)
from warpsmith.targets.front_matter import unit_from_source
from warpsmith.tasks.memory import task_from_module
from warpsmith.tasks.regions import make_region


def make_result(candidate: Candidate, environment: str, speedup: float = 2.0) -> Result:
    ratio = Ratio(baseline="eager", median=speedup, low=speedup * 0.9, high=speedup * 1.1)
    timing = Timing(
        median_us=50.0, low_us=45.0, high_us=55.0, cache="cold", samples=30, ratios=(ratio,), limit_share=0.5, confirmed=True
    )  # fmt: skip
    check = Check(variant="main", family="task", where="whole", ok=True)
    return Result(
        candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id, target="cpu", status="ok",
        verdict=Verdict(correct=True, checks=(check,), labels=("kernel", "general", "deterministic", "float32")),
        timing=timing, environment=environment,
    )  # fmt: skip


def make_candidate(task: Task, source: str, nodes: list[str]) -> Candidate:
    unit = unit_from_source(source, make_region(task.graph, nodes), language="c++")
    return Candidate(task_id=task.id, target="cpu", units=(unit,))


Win = Callable[..., Candidate]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of an archive that the settings name; nothing is there yet."""
    monkeypatch.setenv("WARPSMITH_ARCHIVE", str(tmp_path / "archive.db"))
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))
    torch._dynamo.reset()
    return tmp_path / "archive.db"


@pytest.fixture
def win(settings: Path, tmp_path: Path) -> Win:
    """Put a winner into the archive: a module, its input, the source of a kernel, and the operations that this covers."""

    def add(
        module: nn.Module, inputs: tuple[Any, ...], source: str, ops: tuple[str, ...], **changes: Any
    ) -> Candidate:
        task = task_from_module(module, inputs, {}, tmp_path / "exports")
        nodes = [n.name for n in task.graph.nodes if n.op.split(".")[1] in ops]
        candidate = make_candidate(task, source, nodes)
        environment = describe().model_copy(update=changes)
        archive = Archive(settings)
        archive.begin_run(f"run-{candidate.id}", task, "cpu", 0, {}, environment)
        archive.add_confirmation(f"run-{candidate.id}", candidate, make_result(candidate, environment.id))
        archive.close()
        return candidate

    return add


@pytest.fixture
def won(win: Win) -> Candidate:
    source = SCALED_RELU.replace("SHIFT", "1.0f")
    return win(Tail(), (torch.randn(8, 32),), source, ("mul", "add", "relu"))
