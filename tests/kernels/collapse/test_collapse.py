"""A sum behind a linear map taken before it: found, written, labelled, stated in ATen, declined where it does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.agents.expert.planner import plans
from warpsmith.codegen.rewrites.algebra import match_summed_map
from warpsmith.facts import Facts
from warpsmith.judge.labels import ALGEBRAIC, labels
from warpsmith.judge.timing.rewritten_reference import rewritten_graph
from warpsmith.records import Candidate, Graph, Unit
from warpsmith.runtime.interpreter import run_graph

Shapes = tuple[tuple[int, ...], ...]
Function = Callable[..., torch.Tensor]
OVER_FEATURES, OVER_ROWS = "algebraic-collapse", "algebraic-pool-first"

# name → (technique, function, main shapes, other shapes that the same source must be right at)
CASES: dict[str, tuple[str, Function, Shapes, tuple[Shapes, ...]]] = {
    "linear_scaled_sum": (
        OVER_FEATURES, lambda x, w, b: (F.linear(x, w, b) / 2).sum(1, keepdim=True) * 1.5,
        ((33, 70), (40, 70), (40,)),
        (((1, 1), (1, 1), (1,)), ((0, 5), (9, 5), (9,)), ((4, 1031), (17, 1031), (17,))),
    ),
    "matmul_mean": (
        OVER_FEATURES, lambda x, w: torch.matmul(x, w).mul(3.0).mean(-1).relu(),
        ((3, 11, 50), (50, 64)), (((2, 1, 7), (7, 3)),),
    ),
    "transposed_weight": (
        OVER_FEATURES, lambda x, w: torch.mm(x, w.t()).sum(1), ((9, 40), (30, 40)), (((5, 3), (8, 3)),),
    ),
    "addmm_mean": (
        OVER_FEATURES, lambda x, w, b: torch.addmm(b, x, w).mean(1), ((12, 31), (31, 20), (20,)),
        (((2, 1), (1, 9), (9,)),),
    ),
    "batched_sum": (
        OVER_FEATURES, lambda x, w: torch.bmm(x, w).sum(-1).tanh(),
        ((5, 7, 33), (5, 33, 20)), (((1, 1, 1), (1, 1, 1)), ((0, 2, 3), (0, 3, 9)), ((3, 2, 2100), (3, 2100, 9))),
    ),
    "batched_keys": (
        OVER_FEATURES, lambda q, k: (q @ k.transpose(-1, -2) * 0.125).mean(-1, keepdim=True),
        ((2, 3, 10, 24), (2, 3, 17, 24)), (((1, 2, 5, 7), (1, 2, 9, 7)),),
    ),
    "linear_mean_of_rows": (
        OVER_ROWS, lambda x, w, b: F.gelu(F.linear(x, w, b).mean(1)),
        ((4, 21, 70), (40, 70), (40,)), (((1, 1, 1), (1, 1), (1,)), ((3, 9, 2500), (7, 2500), (7,))),
    ),
    "linear_sum_of_two_dimensions": (
        OVER_ROWS, lambda x, w, b: (F.linear(x, w, b) * 0.25).sum((1, 2), keepdim=True) + 1.0,
        ((3, 4, 5, 18), (11, 18), (11,)), (((2, 3, 3, 1), (1, 1), (1,)),),
    ),
    "linear_sum_of_all_rows": (
        OVER_ROWS, lambda x, w, b: F.linear(x, w, b).sum(0), ((50, 19), (8, 19), (8,)), (((9, 300), (3, 300), (3,)),),
    ),
    "pixels_averaged": (
        OVER_ROWS, lambda x, w, b: F.adaptive_avg_pool2d(F.conv2d(x, w, b), 1).sigmoid(),
        ((3, 20, 7, 9), (11, 20, 1, 1), (11,)), (((1, 1, 1, 1), (1, 1, 1, 1), (1,)), ((2, 3, 31, 5), (4, 3, 1, 1), (4,))),
    ),
    "signal_summed": (
        OVER_ROWS, lambda x, w: F.conv1d(x, w).sum(2) / 3, ((2, 9, 40), (5, 9, 1)), (((1, 2, 9), (3, 2, 1)),),
    ),
}  # fmt: skip


def found(graph: Graph, names: tuple[str, ...] = ()) -> bool:
    nodes = [graph.by_name[n] for n in names] or graph.nodes
    return any(match_summed_map(graph, n) is not None for n in nodes)


def written(bench: Any, graph: Graph) -> list[Unit]:
    """The family's units for the largest region that a plan cuts around the pattern."""
    anchored = [r for plan in plans(graph, bench.facts) for r in plan if found(graph, r.nodes)]
    return [unit for _, unit in bench.techniques(graph, max(anchored, key=lambda r: len(r.nodes)))]


@pytest.mark.parametrize("name", CASES)
def test_it_is_accurate_at_all_shapes(bench: Any, name: str) -> None:
    technique, function, main, others = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    graph = bench.graph(function, *args)
    units = written(bench, graph)
    assert [(u.family, u.technique) for u in units] == [("collapse", technique)]
    for unit in units:
        assert set(unit.region.outputs) == graph.returned
        bench.check(unit, graph, args)
        for shapes in others:
            ragged = tuple(torch.randn(s) for s in shapes)
            bench.check(unit, bench.graph(function, *ragged), ragged)


@pytest.mark.parametrize("name", CASES)
def test_the_rewrite_in_aten_gives_the_same_with_less_work(bench: Any, name: str) -> None:
    _, function, main, _ = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    graph = bench.graph(function, *args)
    rewritten = rewritten_graph(graph, written(bench, graph))
    assert rewritten is not None
    values = {i.name: a for i, a in zip(graph.inputs, args, strict=True)}
    one, other = (run_graph(g, values, float64=True) for g in (graph, rewritten))
    assert one.keys() == other.keys() == graph.returned
    for value in one:
        torch.testing.assert_close(other[value], one[value], rtol=1e-9, atol=1e-9)
    made = [sum(v.spec.numel for n in g.nodes for v in n.outputs if v) for g in (graph, rewritten)]
    assert made[1] < made[0]


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


@settings(max_examples=4, deadline=None)
@given(
    batch=st.integers(1, 5), channels=st.integers(1, 70), height=st.integers(1, 9), width=st.integers(8, 20),
    half=st.booleans(), last=st.booleans(),
)  # fmt: skip
def test_random_images_layouts_and_dtypes(
    bench: Any, batch: int, channels: int, height: int, width: int, half: bool, last: bool
) -> None:
    dtype = torch.bfloat16 if half else torch.float32
    x, w = torch.randn(batch, channels, height, width).to(dtype), torch.randn(6, channels, 1, 1).to(dtype)
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    graph = bench.graph(lambda x, w: F.conv2d(x, w).mean((2, 3)), x, w)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        assert unit.technique == OVER_ROWS
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
        lambda x, w, b: F.linear(x, w, b).sum(),  # over rows and features
        lambda x, w, b: (F.linear(x, w, b) + 1).sum(-1),  # neither a scaling
        lambda x, w, b: (lambda y: (y, y.sum(-1)))(F.linear(x, w, b)),  # the product is wanted itself
        lambda x, w, b: F.linear(x, w, b).sum(-1, dtype=torch.float64),
        lambda x, w, b: (F.linear(x, w, b) * b).sum(-1),  # each output weighed
        lambda x, w, b: F.linear(x, w, b).amax(0),  # a maximum does not distribute
        lambda x, w, b: torch.bmm(x.view(5, 1, 6), w[:5].view(5, 6, 1)).sum(0),  # over what both factors have
        lambda x, w, b: F.conv1d(x.view(1, 5, 6), w[:5, :1].reshape(5, 1, 1), groups=5).mean(2),
        lambda x, w, b: F.conv1d(x.view(1, 5, 6), w[:, :5].reshape(16, 5, 1), b, padding=1).mean(2),
        lambda x, w, b: F.conv1d(x.view(1, 5, 6), w[:5, :5].reshape(1, 5, 5)).sum(2),  # several taps
    ],
)  # fmt: skip
def test_what_the_identity_does_not_cover_is_left_alone(bench: Any, function: Function) -> None:
    args = (torch.randn(5, 6), torch.randn(16, 6), torch.randn(16))
    assert not found(bench.graph(function, *args))


def test_a_sum_before_its_map_is_planned_first_whatever_the_machines_arithmetic(bench: Any) -> None:
    x, w = torch.randn(64, 256), torch.randn(128, 256)
    graph = bench.graph(lambda x, w: (F.linear(x, w) / 4).sum(1), x, w)
    slow = Facts(threads=2, flop_rate=1e6)
    assert graph.nodes[0].name in {n for r in plans(graph, slow)[0] for n in r.nodes}
