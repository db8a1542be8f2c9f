"""The seal names what was replaced since it was made, and nothing else."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from warpsmith.judge.timing import input_perturbation
from warpsmith.judge.timing.stopwatch import Stopwatch
from warpsmith.solutions.integrity import Seal


def test_untouched() -> None:
    seal = Seal(Stopwatch)
    (torch.ones(4) @ torch.ones(4)).sum().item()
    torch.backends.cuda.matmul.allow_tf32 = False
    assert seal.find_broken() == ""


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (time, "perf_counter_ns"), (time, "time"), (torch.Tensor, "copy_"), (torch, "allclose"),
        (torch.cuda, "synchronize"), (torch.cuda.Event, "elapsed_time"), (Stopwatch, "time"), (input_perturbation, "draw_perturbation"),
    ],
)  # fmt: skip
def test_a_replaced_function_is_named(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    seal = Seal(Stopwatch)
    monkeypatch.setattr(owner, name, lambda *_: 0)
    assert seal.find_broken() == f"{owner.__name__}.{name}"


def test_replaced_code_of_the_same_function(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Seal()
    monkeypatch.setattr(input_perturbation.draw_perturbation, "__code__", (lambda rng, inputs: []).__code__)
    assert seal.find_broken().endswith(".draw_perturbation")
