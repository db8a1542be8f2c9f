"""A sum over a linear map's outputs as one product: found, written, labelled, and declined where it does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.agents.expert.algebra import summed_linear
from warpsmith.agents.expert.planner import plans
from warpsmith.judge.labels import ALGEBRAIC, labels
from warpsmith.records import Candidate, Graph

Shapes = tuple[tuple[int, ...], ...]

# name → (function, main shapes, other shapes that the same source must be right at)
CASES: dict[str, tuple[Callable[..., torch.Tensor], Shapes, tuple[Shapes, ...]]] = {
    "linear_scaled_sum": (
        lambda x, w, b: (F.linear(x, w, b) / 2).sum(1, keepdim=True) * 1.5,
        ((33, 70), (40, 70), (40,)),
        (((1, 1), (1, 1), (1,)), ((0, 5), (9, 5), (9,)), ((4, 1031), (17, 1031), (17,))),
    ),
    "matmul_mean": (
        lambda x, w: torch.matmul(x, w).mul(3.0).mean(-1).relu(),
        ((3, 11, 50), (50, 64)), (((2, 1, 7), (7, 3)),),
    ),
    "transposed_weight": (lambda x, w: torch.mm(x, w.t()).sum(1), ((9, 40), (30, 40)), (((5, 3), (8, 3)),)),
}  # fmt: skip


def found(graph: Graph, names: tuple[str, ...] = ()) -> bool:
    nodes = [graph.by_name[n] for n in names] or graph.nodes
    return any(summed_linear(graph, n) is not None for n in nodes)


@pytest.mark.parametrize("name", CASES)
def test_it_is_accurate_at_all_shapes(bench: Any, name: str) -> None:
    function, main, others = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    graph = bench.graph(function, *args)
    anchored = [r for plan in plans(graph, bench.facts) for r in plan if found(graph, r.nodes)]
    region = max(anchored, key=lambda r: len(r.nodes))
    assert len(region.outputs) == 1
    assert region.outputs[0] in graph.returned
    written = list(bench.techniques(graph, region))
    assert [unit.family for _, unit in written] == ["collapse"]
    for _, unit in written:
        bench.check(unit, graph, args)
        for shapes in others:
            ragged = tuple(torch.randn(s) for s in shapes)
            bench.check(unit, bench.graph(function, *ragged), ragged)


@settings(max_examples=4, deadline=None)
@given(
    rows=st.integers(1, 40), inner=st.integers(1, 300), outer=st.integers(8, 80), half=st.booleans(), step=st.integers(1, 2)
)  # fmt: skip
def test_random_shapes_strides_and_dtypes(
    bench: Any, rows: int, inner: int, outer: int, half: bool, step: int
) -> None:
    dtype = torch.bfloat16 if half else torch.float32
    x, w = torch.randn(rows, inner * step)[:, ::step].to(dtype), torch.randn(outer, inner).to(dtype)
    graph = bench.graph(lambda x, w: F.linear(x, w).sum(-1), x, w)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x, w), ulp=16.0)


def test_the_win_is_labelled_algorithmic(bench: Any) -> None:
    graph = bench.graph(lambda x, w: F.linear(x, w).sum(-1), torch.randn(9, 20), torch.randn(16, 20))
    technique, unit = next(iter(bench.techniques(graph, bench.whole(graph))))
    assert ALGEBRAIC in technique.name
    assert labels(Candidate(task_id="t", target="cpu", units=(unit,)), graph, None, {})[0] == "algorithmic"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: F.relu(F.linear(x, w, b)).sum(-1),  # not linear
        lambda x, w, b: F.linear(x, w, b).sum(0),  # over the rows
        lambda x, w, b: F.linear(x, w, b).sum(),  # over both
        lambda x, w, b: (F.linear(x, w, b) + 1).sum(-1),  # neither a scaling
        lambda x, w, b: (lambda y: (y, y.sum(-1)))(F.linear(x, w, b)),  # the product is wanted itself
        lambda x, w, b: F.linear(x, w, b).sum(-1, dtype=torch.float64),
        lambda x, w, b: (F.linear(x, w, b) * b).sum(-1),  # each output weighed
    ],
)
def test_what_the_identity_does_not_cover_is_left_alone(
    bench: Any, function: Callable[..., torch.Tensor]
) -> None:
    args = (torch.randn(5, 6), torch.randn(16, 6), torch.randn(16))
    assert not found(bench.graph(function, *args))
