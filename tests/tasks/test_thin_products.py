"""A computed matrix times a column over a short sum is pointwise work; other products stay, and results do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from warpsmith.agents.expert.planner import plans
from warpsmith.facts import local_facts
from warpsmith.records import Graph
from warpsmith.runtime.interpreter import run_graph
from warpsmith.tasks.memory import export_module
from warpsmith.tasks.thin_products import LONGEST_SUM

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
ROWS, SUM, STEPS = 6, 8, 5


class Wrapped(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return self.function(x, c)


def scan(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """As the plain path of `transformers` has it: a state, and at each step a product with it."""
    state, results = torch.zeros_like(x[:, 0]), []
    for step in range(STEPS):
        state = x[:, step] * state + torch.exp(x[:, step])
        results.append((state.to(c.dtype) @ c[:, step, :, None])[..., 0])
    return torch.stack(results, dim=-1)


THIN: dict[str, tuple[Function, int]] = {
    "a scan": (scan, STEPS),
    "one product": (lambda x, c: ((x[:, 0] + 1) @ c[:, 0, :, None]) * 2, 1),
    "a column for all of the batch": (lambda x, c: ((x[:, 0] * 2) @ c[:1, 0, :, None]) * 2, 1),
}
OTHER: dict[str, Function] = {
    "a matrix that is given": lambda x, c: (x[:, 0] @ c[:, 0, :, None]) * 2,
    "several columns": lambda x, c: ((x[:, 0] + 1) @ c.transpose(1, 2)) * 2,
    "one row": lambda x, c: ((x[:, 0, :1] + 1) @ c[:, 0, :, None]) * 2,
    "returned as it is": lambda x, c: (x[:, 0] + 1) @ c[:, 0, :, None],
}


def export(
    function: Function, folder: Path, dtype: torch.dtype = torch.float32, length: int = SUM
) -> tuple[Graph, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x, c = torch.randn(2, STEPS, ROWS, length), torch.randn(2, STEPS, length).to(dtype)
    x = x if dtype is torch.float32 or function is scan else x.to(dtype)
    module = Wrapped(function)
    graph = export_module(module, (x, c), {}, folder).task.main.graph
    given = dict(zip([item.name for item in graph.inputs], (x, c), strict=True))
    return graph, run_graph(graph, given)[graph.outputs[0].value], module(x, c)


def count_products(graph: Graph) -> int:
    return sum(
        n.op in ("aten.matmul.default", "aten.bmm.default", "aten.linear.default") for n in graph.nodes
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", THIN)
def test_a_thin_product_becomes_pointwise(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    function, count = THIN[name]
    graph, result, expected = export(function, tmp_path, dtype)
    assert count_products(graph) == 0
    assert sum(n.op == "aten.sum.dim_IntList" for n in graph.nodes) == count
    assert result.dtype == expected.dtype == dtype
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("name", OTHER)
def test_another_product_stays(name: str, tmp_path: Path) -> None:
    graph, result, expected = export(OTHER[name], tmp_path)
    assert count_products(graph) == 1
    torch.testing.assert_close(result, expected)


def test_a_long_sum_stays_a_product(tmp_path: Path) -> None:
    assert count_products(export(THIN["one product"][0], tmp_path, length=LONGEST_SUM)[0]) == 0
    assert count_products(export(THIN["one product"][0], tmp_path, length=LONGEST_SUM + 1)[0]) == 1


def test_the_steps_of_a_scan_are_one_kernel(tmp_path: Path) -> None:
    graph, _, _ = export(scan, tmp_path)
    steps = {
        n.name for n in graph.nodes if n.op in ("aten.sum.dim_IntList", "aten.add.Tensor", "aten.exp.default")
    }
    assert any(steps <= set(region.nodes) for plan in plans(graph, local_facts("cpu")) for region in plan)
