"""Matrix products: every technique built and compared with float64, over ranks, layouts, sizes and dtypes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsmith.agents.expert.planner import plans
from warpsmith.kernels.registry import families_of
from warpsmith.records import Graph, Region

Shapes = tuple[tuple[int, ...], ...]
Case = tuple[Callable[..., object], Shapes, tuple[Shapes, ...]]

# name → (function, main shapes, other shapes that the same source must be right at)
CASES: dict[str, Case] = {
    "mm": (torch.mm, ((37, 29), (29, 45)), (((1, 1), (1, 1)), ((13, 0), (0, 5)), ((0, 4), (4, 3)))),
    "mm_few_columns": (torch.mm, ((150, 70), (70, 3)), (((5, 17), (17, 20)),)),
    "transposed_left": (lambda a, b: a.t() @ b, ((40, 33), (40, 70)), (((600, 20), (600, 9)),)),
    "transposed_right": (lambda a, b: a @ b.t(), ((50, 40), (37, 40)), (((3, 600), (33, 600)),)),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0), ((40,), (25, 31), (31, 40)),
              (((1,), (7, 3), (3, 1)),)),
    "baddbmm": (torch.baddbmm, ((4, 1, 20), (4, 9, 13), (4, 13, 20)), (((0, 1, 3), (0, 2, 40), (0, 40, 3)),)),
    "broadcast_batch": (lambda q, k: q @ k.transpose(-1, -2) * 0.25, ((5, 1, 12, 8), (1, 4, 20, 8)), ()),
    "mv": (torch.mv, ((70, 130), (130,)), (((5, 3), (3,)),)),
    "batched_mv": (torch.matmul, ((3, 40, 50), (50,)), ()),
    "vector_batch": (torch.matmul, ((30,), (4, 30, 40)), (((1,), (2, 1, 1)),)),
    "dot": (lambda a, b: torch.dot(a, b) + 1, ((10_001,), (10_001,)), (((1,), (1,)),)),
    "long_sum": (torch.mm, ((9, 10_000), (10_000, 17)), (((3, 4097), (4097, 2)),)),
    "linear_fused": (lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r, ((33, 24), (50, 24), (50,), (33, 50)),
                     (((5, 100), (33, 100), (33,), (5, 33)),)),
    "linear_one_row": (lambda x, w, b: F.relu(F.linear(x, w, b)), ((1, 100), (70, 100), (70,)),
                       (((3, 7), (5, 7), (5,)),)),
    "prologue": (lambda x, y, w: torch.tanh(F.silu(x * y) @ w), ((40, 30), (40, 1), (30, 20)),
                 (((7, 65), (7, 1), (65, 33)),)),
    "prologue_4d": (lambda x, w, b: F.linear(F.relu(x), w, b), ((2, 3, 8, 24), (20, 24), (20,)), ()),
    "lower": (lambda a, b: torch.tril(a @ b) * 2, ((70, 40), (40, 90)), (((33, 5), (5, 33)),)),
    "upper_batched": (lambda a, b: torch.triu(a @ b, 3), ((3, 50, 20), (3, 20, 60)), ()),
}  # fmt: skip


def region_of(bench: Any, graph: Graph) -> Region:
    """The region around the product in the first plan."""
    family = families_of("cpu")["matmul"]
    found = [
        r
        for p in plans(graph, bench.facts)
        for r in p
        if any(family.covers(graph, graph.by_name[n]) for n in r.nodes)
    ]
    assert found, "no plan covers the product"
    return found[0]


@pytest.mark.parametrize("name", CASES)
def test_products_are_accurate_at_all_shapes(bench: Any, name: str) -> None:
    function, main, others = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    graph = bench.graph(function, *args)
    region = region_of(bench, graph)
    written = list(bench.techniques(graph, region))
    assert written
    for _, unit in written:
        bench.check(unit, graph, args)
    for number, shapes in enumerate(others):  # over the cases, every technique meets ragged shapes
        ragged = tuple(torch.randn(s) for s in shapes)
        unit = written[(number + len(name)) % len(written)][1]
        bench.check(unit, bench.graph(function, *ragged), ragged)


@pytest.mark.parametrize("name", ["mm_few_columns", "prologue", "long_sum"])
def test_every_tunable_changes_the_code_and_not_the_result(bench: Any, name: str) -> None:
    function, main, _ = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    graph = bench.graph(function, *args)
    for technique, unit in bench.techniques(graph, region_of(bench, graph)):
        code = unit.source.split('#include "warpsmith_simd.h"')[1]
        assert all(re.search(rf"\b{t.name}\b", code) for t in technique.tunables)
        last = tuple(t.model_copy(update={"value": t.domain[-1]}) for t in unit.tunables)
        bench.check(unit.model_copy(update={"tunables": last}), graph, args)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("mm_few_columns", torch.bfloat16), ("linear_one_row", torch.bfloat16), ("mv", torch.float16)],
)
def test_half_precision_sums_in_float32(bench: Any, name: str, dtype: torch.dtype) -> None:
    function, main, _ = CASES[name]
    args = tuple(torch.randn(s).to(dtype) for s in main)
    graph = bench.graph(function, *args)
    for _, unit in bench.techniques(graph, region_of(bench, graph)):
        bench.check(unit, graph, args, ulp=1.0)


def test_products_of_half_precision_are_left_to_the_library(bench: Any) -> None:
    args = (torch.randn(64, 64).bfloat16(), torch.randn(64, 64).bfloat16())
    graph = bench.graph(lambda a, b: torch.tanh(a @ b) * 2, *args)
    assert all("matmul" not in n for p in plans(graph, bench.facts) for r in p for n in r.nodes)


def strided(shape: tuple[int, ...]) -> torch.Tensor:
    """Every dimension with a stride of its own, the last one not dense."""
    return torch.randn(*(2 * n + 1 for n in shape))[tuple(slice(None, 2 * n, 2) for n in shape)]


@pytest.mark.parametrize("name", ["baddbmm", "linear_fused", "mv"])
def test_strided_and_expanded_inputs(bench: Any, name: str) -> None:
    function, main, _ = CASES[name]
    args = tuple(strided(s) for s in main)
    expanded = (*args[:-1], torch.randn(main[-1][-1]).expand(main[-1]))
    for given_args in (args, expanded):
        graph = bench.graph(function, *given_args)
        for _, unit in bench.techniques(graph, region_of(bench, graph)):
            bench.check(unit, graph, given_args)


@pytest.mark.parametrize("name", ["mm", "linear_one_row", "lower"])
def test_what_is_not_finite_spreads_as_in_torch(bench: Any, name: str) -> None:
    function, main, _ = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    args[0].view(-1)[3], args[0].view(-1)[-1] = float("nan"), 1e-40
    args[1].view(-1)[5], args[1].view(-1)[-2] = float("inf"), -float("inf")
    graph = bench.graph(function, *args)
    for _, unit in bench.techniques(graph, region_of(bench, graph)):
        bench.check(unit, graph, args)


def test_an_addend_of_weight_zero_is_not_read(bench: Any) -> None:
    args = (torch.full((5,), float("nan")), torch.randn(4, 3), torch.randn(3, 5))
    graph = bench.graph(lambda c, a, b: torch.addmm(c, a, b, beta=0), *args)
    for _, unit in bench.techniques(graph, region_of(bench, graph)):
        bench.check(unit, graph, args)


def test_two_calls_give_the_same_bits(bench: Any) -> None:
    args = (torch.randn(8, 9000), torch.randn(9000, 8))
    graph = bench.graph(torch.mm, *args)
    values = {i.name: a for i, a in zip(graph.inputs, args, strict=True)}
    for _, unit in bench.techniques(graph, region_of(bench, graph)):
        first, second = (bench.run(unit, graph, values) for _ in range(2))
        assert torch.equal(first[0], second[0])


def test_plans_take_neighbours_in(bench: Any) -> None:
    linear = torch.nn.Linear(24, 40)

    def model(x: torch.Tensor, scale: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return torch.softmax(
            F.silu(F.linear(F.relu(x), linear.weight.detach(), linear.bias.detach())) * scale + r, -1
        )

    graph = bench.graph(model, torch.randn(64, 24), torch.randn(40), torch.randn(64, 40))
    ops = [graph.by_name[n].op.split(".")[1] for n in region_of(bench, graph).nodes]
    assert ops == ["relu", "linear", "silu", "mul", "add"]


def test_a_triangle_is_cut_with_its_product(bench: Any) -> None:
    graph = bench.graph(lambda a, b: torch.tril(a @ b), torch.randn(64, 64), torch.randn(64, 64))
    assert len(region_of(bench, graph).nodes) == 2
    kept = bench.graph(
        lambda a, b: (lambda p: (torch.tril(p), p))(a @ b), torch.randn(64, 64), torch.randn(64, 64)
    )
    assert len(region_of(bench, kept).nodes) == 1


sizes = st.integers(1, 70)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(m=sizes, n=sizes, k=st.integers(1, 300), batch=st.integers(1, 3), layout=st.integers(0, 3))
def test_any_shape(bench: Any, m: int, n: int, k: int, batch: int, layout: int) -> None:
    a = torch.randn(batch, k, m).transpose(1, 2) if layout & 1 else torch.randn(batch, m, k)
    b = torch.randn(batch, n, k).transpose(1, 2) if layout & 2 else torch.randn(batch, k, n)
    graph = bench.graph(lambda a, b: torch.sigmoid(a @ b), a, b)
    for _, unit in bench.techniques(graph, region_of(bench, graph)):
        bench.check(unit, graph, (a, b))
