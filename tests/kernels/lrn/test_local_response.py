"""Local response normalisation as torch writes it out: found whole, and right at windows and shapes of all kinds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from warpsmith.agents.expert.planner import plans
from warpsmith.records import Graph, Region


def region_of(bench: Any, graph: Graph) -> Region:
    (region,) = plans(graph, bench.facts)[0]
    return region


@pytest.mark.parametrize(
    ("size", "main", "others"),
    [
        (5, (2, 7, 6, 9), ((1, 3, 40, 33), (2, 1, 1, 1))),
        (4, (3, 12, 50), ((1, 2, 5),)),
        (3, (1, 5, 3, 4, 5), ((2, 4, 1, 2, 19),)),
    ],
)
def test_windows_over_channels(
    bench: Any, size: int, main: tuple[int, ...], others: tuple[tuple[int, ...], ...]
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.relu(F.local_response_norm(x, size, alpha=0.5, beta=0.75, k=1.5)) * 3

    x = torch.randn(main) * 4
    graph = bench.graph(function, x)
    region = region_of(bench, graph)
    assert len(region.nodes) == len(graph.nodes)
    ((_, unit),) = bench.techniques(graph, region)
    bench.check(unit, graph, (x,))
    for shape in others:
        ragged = torch.randn(shape)
        bench.check(unit, bench.graph(function, ragged), (ragged,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_and_a_strided_input(bench: Any, dtype: torch.dtype) -> None:
    x = torch.randn(2, 19, 6).to(dtype).transpose(1, 2)  # torch pools planes only in half precision
    graph = bench.graph(lambda x: F.local_response_norm(x, 3), x)
    ((_, unit),) = bench.techniques(graph, region_of(bench, graph))
    bench.check(unit, graph, (x,), ulp=2.0)


def test_an_infinity_leaves_with_its_channel(bench: Any) -> None:
    x = torch.randn(1, 9, 2, 20)
    x[0, 2, 0, 3], x[0, 4, 1, 5], x[0, 8, 1, 1] = float("inf"), float("nan"), 1e-42
    graph = bench.graph(lambda x: F.local_response_norm(x, 3), x)
    ((_, unit),) = bench.techniques(graph, region_of(bench, graph))
    bench.check(unit, graph, (x,))


def test_a_pool_of_another_kind_is_not_taken_for_one(bench: Any) -> None:
    def averaged(x: torch.Tensor) -> torch.Tensor:
        padded = F.pad((x * x).unsqueeze(1), (0, 0, 1, 2))  # the odd zero at the other end
        return x / F.avg_pool2d(padded, (4, 1), stride=1).squeeze(1)

    graph = bench.graph(averaged, torch.randn(2, 6, 10))
    assert all(
        u.family != "local_response"
        for p in plans(graph, bench.facts)
        for r in p
        for _, u in bench.techniques(graph, r)
    )
