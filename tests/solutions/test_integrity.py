"""The seal names what was replaced since it was made, and nothing else."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from warpsmith.judge.timing import input_perturbation, stopwatch
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
        (time, "perf_counter_ns"), (time, "time"), (torch.Tensor, "copy_"), (torch, "empty"),
        (torch.cuda, "synchronize"), (torch.cuda.Event, "elapsed_time"), (Stopwatch, "time"), (input_perturbation, "draw_perturbation"),
    ],
)  # fmt: skip
def test_a_replaced_function_is_named(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    seal = Seal(Stopwatch)
    monkeypatch.setattr(owner, name, lambda *_: 0)
    assert seal.find_broken() == f"{owner.__name__}.{name}"


def test_a_changed_constant_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Seal(Stopwatch)
    monkeypatch.setattr(input_perturbation, "SHARE", 1 << 40)
    assert seal.find_broken().endswith("input_perturbation.SHARE")


def test_a_changed_table_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Seal()
    monkeypatch.setitem(input_perturbation.ITEM_BYTES, "float32", 1)
    assert seal.find_broken().endswith(".ITEM_BYTES")


@pytest.mark.parametrize("name", ["__init__", "__getattribute__", "__setattr__"])
def test_double_underscore_methods_are_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    seal = Seal(Stopwatch)
    monkeypatch.setattr(Stopwatch, name, lambda *_: None, raising=False)
    assert seal.find_broken() == f"Stopwatch.{name}"


def test_changed_defaults_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Seal(Stopwatch)
    monkeypatch.setattr(stopwatch.output_blocks, "__defaults__", ((),))
    assert seal.find_broken().endswith("stopwatch.output_blocks")


def test_what_is_taken_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Seal()
    monkeypatch.delattr(input_perturbation, "replay_perturbation")
    assert seal.find_broken().endswith("replay_perturbation")


def test_replaced_code_of_the_same_function(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Seal()
    monkeypatch.setattr(input_perturbation.draw_perturbation, "__code__", (lambda rng, inputs: []).__code__)
    assert seal.find_broken().endswith(".draw_perturbation")


@pytest.mark.parametrize(
    ("owner", "name"), [(torch.Tensor, "__getitem__"), (torch.Tensor, "copy_"), (stopwatch, "memory")]
)
def test_what_copies_the_outputs_is_looked_at_first(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    seal = Seal(Stopwatch, take=Stopwatch.outputs)
    assert seal.find_broken_first() == ""
    monkeypatch.setattr(owner, name, lambda *_: 0)
    assert seal.find_broken_first().endswith(f".{name}")
