"""A graph's values are computed once for many regions, within a bound of memory."""

from __future__ import annotations

import weakref
from pathlib import Path

import pytest
import torch

from warpsmith.judge.correctness import intermediates
from warpsmith.judge.correctness.intermediates import Intermediates
from warpsmith.judge.correctness.stepping import Stepper, Tensors
from warpsmith.records import Graph
from warpsmith.tasks.memory import export_module


class Chain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.exp() + 1).transpose(0, 1).sin()


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return export_module(Chain(), (torch.randn(4, 8),), {}, tmp_path).task.main.graph


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each time that a whole graph is run."""
    counted: list[str] = []
    run = Stepper.run

    def count(self: Stepper, *args: object, **kwargs: object) -> Tensors:
        counted.append("run")
        return run(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(intermediates.Stepper, "run", count)
    return counted


def values_of(graph: Graph, seed: int) -> Tensors:
    torch.manual_seed(seed)
    return {graph.inputs[0].name: torch.randn(4, 8)}


def test_values_are_computed_once_and_are_those_of_the_graph(graph: Graph, runs: list[str]) -> None:
    cache, values = Intermediates(1 << 20), values_of(graph, 1)
    names = [node.outputs[0].name for node in graph.nodes if node.outputs[0] is not None]
    first = cache.find("a", graph, values)
    assert first is not None
    again = cache.find("a", graph, values)
    assert again is not None
    assert again.keys() == first.keys()
    assert all(again[name] is first[name] for name in first)
    assert runs == ["run"]
    expected = Stepper(graph).run(values, names)
    assert all(torch.equal(first[name], expected[name]) for name in names)
    assert torch.equal(first[graph.inputs[0].name], values[graph.inputs[0].name])


def test_oldest_values_make_room(graph: Graph, runs: list[str]) -> None:
    size = 4 * 4 * 8 * len(graph.nodes)
    cache = Intermediates(2 * size)
    for key in ("a", "b", "a", "c", "a", "b"):  # "c" takes the place of "b"
        assert cache.find(key, graph, values_of(graph, ord(key))) is not None
    assert len(runs) == 4


def test_graph_that_is_larger_than_the_room_is_not_kept(graph: Graph, runs: list[str]) -> None:
    assert Intermediates(64).find("a", graph, values_of(graph, 1)) is None
    assert runs == []


def test_inputs_are_not_kept(graph: Graph) -> None:
    """They may be as large as all weights, and are not counted as values of the graph."""
    cache, values = Intermediates(1 << 20), values_of(graph, 1)
    held = weakref.ref(values[graph.inputs[0].name])
    assert cache.find("a", graph, values) is not None
    values.clear()
    assert held() is None
