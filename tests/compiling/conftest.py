"""An archive with a winner: a kernel written by hand for gelu → layer norm, as if it had been judged here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from compiled_models import SCALED_RELU, Tail
from stated_winners import make_candidate, make_result
from torch import nn

from warpsmith.archive.store import Archive
from warpsmith.machine import describe
from warpsmith.records import Candidate
from warpsmith.tasks.memory import task_from_module

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
