"""Calls inside of one that came before are counted without taking their arguments apart, and others are not mistaken for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from warpsmith.workload import recorder as recording
from warpsmith.workload.recorder import Recorder


class Branching(torch.nn.Module):
    """Each call takes the next of the ways that it is told."""

    def __init__(self, ways: list[str]) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.ways = iter(ways)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for way in next(self.ways).split():
            part = x[:1] if way.endswith("1") else x
            part = part.double().float() if way.endswith("d") else part
            x = x + (self.a if way.startswith("a") else self.b)(part)
        return x


def record(model: torch.nn.Module, run: Callable[[], Any]) -> dict[tuple[str, tuple[str, ...]], int]:
    recorder = Recorder()
    recorder.start()
    try:
        with torch.no_grad():
            run()
    finally:
        recorder.stop()
    names = {id(part): name for name, part in model.named_modules()}
    return {(names[id(g.module)], g.form.inputs): len(g.times_s) for g in recorder.groups.values()}


@pytest.fixture(name="described")
def _described(monkeypatch: pytest.MonkeyPatch) -> list[torch.nn.Module]:
    modules: list[torch.nn.Module] = []
    describe = recording.describe_call

    def describe_call(module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        modules.append(module)
        return describe(module, args, kwargs)

    monkeypatch.setattr(recording, "describe_call", describe_call)
    return modules


def test_calls_inside_are_taken_apart_once(described: list[torch.nn.Module]) -> None:
    model, x = Branching(["a b a1"] * 4), torch.randn(3, 4)
    calls = record(model, lambda: [model(x) for _ in range(4)])
    assert calls == {
        ("", ("float32[3,4]",)): 4, ("a", ("float32[3,4]",)): 4, ("b", ("float32[3,4]",)): 4, ("a", ("float32[1,4]",)): 4,
    }  # fmt: skip
    assert len(described) == 4 + 3


def test_other_ways_through_a_model_are_seen(described: list[torch.nn.Module]) -> None:
    ways = ["a b", "b a", "a b", "a", "a b b", "a1 b", "a b1", "b", "a b"]
    model, x = Branching(ways), torch.randn(3, 4)
    calls = record(model, lambda: [model(x) for _ in ways])
    whole, part = ("float32[3,4]",), ("float32[1,4]",)
    assert calls == {("", whole): 9, ("a", whole): 7, ("b", whole): 8, ("a", part): 1, ("b", part): 1}
    assert sum(module is model for module in described) == len(ways)


def test_other_inputs_of_the_model_begin_anew() -> None:
    model = Branching(["a b"] * 4)
    x, y = torch.randn(3, 4), torch.randn(5, 4)
    calls = record(model, lambda: [model(t) for t in (x, y, x, y)])
    assert set(calls.values()) == {2}
    assert len(calls) == 6
