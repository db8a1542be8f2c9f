"""A copy into another order goes where the views behind it undo it, and stays where anything would lie otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from warpsmith.records import Graph
from warpsmith.runtime.interpreter import run_graph
from warpsmith.tasks.memory import export_module

Function = Callable[[torch.Tensor], object]
COPY = "aten.clone.default"


class Wrapped(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


def export(function: Function, folder: Path) -> Graph:
    return export_module(Wrapped(function), (torch.randn(2, 3, 4, 5),), {}, folder).task.main.graph


def turned(x: torch.Tensor) -> torch.Tensor:
    """(2, 5, 3, 4), copied."""
    return x.permute(0, 3, 1, 2).contiguous()


def read_two_ways(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    copied = turned(x)
    return copied + 1, copied.permute(0, 2, 3, 1) * x


def multiply_views(x: torch.Tensor) -> torch.Tensor:
    copied = turned(x)
    return x * copied.permute(0, 2, 3, 1) + copied.flatten(2).transpose(1, 2).reshape(2, 3, 4, 5)


UNDONE: dict[str, Function] = {
    "turned back": lambda x: x * turned(x).permute(0, 2, 3, 1),
    "flattened, then turned back": lambda x: x.view(2, 12, 5) * turned(x).flatten(2).transpose(1, 2),
    "a part of it": lambda x: x * turned(x)[:1].permute(0, 2, 3, 1),
    "two readers": multiply_views,
}
KEPT: dict[str, Function] = {
    "read as it is": lambda x: turned(x) + 1,
    "read as it is by one of two": read_two_ways,
    "not turned back": lambda x: turned(x).unsqueeze(0) + 1,
    "a view that is none without it": lambda x: turned(x).view(2, 15, 4) + 1,
    "returned": lambda x: turned(x).permute(0, 2, 3, 1),
    "an output would lie otherwise": lambda x: turned(x).permute(0, 2, 3, 1).sin(),
}


@pytest.mark.parametrize("name", UNDONE)
def test_an_undone_copy_goes(tmp_path: Path, name: str) -> None:
    check(UNDONE[name], tmp_path, 0)


@pytest.mark.parametrize("name", KEPT)
def test_another_copy_stays(tmp_path: Path, name: str) -> None:
    check(KEPT[name], tmp_path, 1)


def check(function: Function, folder: Path, copies: int) -> None:
    """The number of copies that remain; values, and how they lie in memory, are what the function gives."""
    graph = export(function, folder)
    x = torch.randn(2, 3, 4, 5)
    results = function(x)
    expected = results if isinstance(results, tuple) else (results,)
    values = run_graph(graph, {graph.inputs[0].name: x}, wanted={o.value for o in graph.outputs})
    for output, wanted in zip(graph.outputs, expected, strict=True):
        assert torch.equal(values[output.value], wanted)
        assert values[output.value].stride() == graph.specs[output.value].stride == wanted.stride()
    assert [n.op for n in graph.nodes].count(COPY) == copies
