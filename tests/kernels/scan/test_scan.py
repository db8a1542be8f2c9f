"""Scans in every form, compiled for real and compared with float64; what is fused and what is declined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.agents.expert.planner import plans
from warpsmith.records import Graph, Region

Scanned = Callable[..., torch.Tensor]
Shapes = tuple[tuple[int, ...], ...]


def reverse(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.cumsum(x.flip(dim), dim).flip(dim)


def exclusive(x: torch.Tensor) -> torch.Tensor:
    shorter = torch.cumsum(x.narrow(1, 0, x.shape[1] - 1), 1)
    return torch.cat((torch.zeros_like(x.select(1, 0).unsqueeze(1)), shorter), 1)


def transmittance(a: torch.Tensor) -> torch.Tensor:
    """What is left of light behind each sample of a ray, times what the sample takes."""
    ones = torch.ones(a.shape[0], 1)
    return a * torch.cumprod(torch.cat([ones, 1.0 - a + 1e-6], -1), -1)[:, :-1]


def offsets(x: torch.Tensor) -> torch.Tensor:
    return F.pad(torch.cumsum(x, -1), (1, 0))


# name → (function, main shapes, other shapes that the same source must be right at)
CASES: dict[str, tuple[Scanned, Shapes, tuple[Shapes, ...]]] = {
    "sum_last": (lambda x: torch.cumsum(x, 1), ((33, 1100),), (((3, 2500),), ((4, 1),), ((2, 0),))),
    "sum_few": (lambda x: torch.cumsum(x, 0), ((150000,),), (((131072,),), ((1,),), ((0,),))),
    "sum_middle": (lambda x: torch.cumsum(x, 1), ((3, 40, 70),), (((2, 7, 300),), ((1, 1, 1),), ((0, 3, 5),))),
    "sum_first": (lambda x: torch.cumsum(x, 0), ((60, 41),), (((5, 3000),),)),
    "product_last": (lambda x: torch.cumprod(1.0 + 0.01 * x, -1), ((9, 70),), (((2, 1040),),)),
    "product_first": (lambda x: torch.cumprod(x, 0).abs(), ((20, 33),), (((3, 9),),)),
    "maximum": (lambda x: torch.cummax(x, 1).values * 2, ((7, 90),), (((2, 1300),),)),
    "minimum_first": (lambda x: torch.cummin(x, 0)[0], ((30, 20),), (((3, 17),),)),
    "reverse": (lambda x: reverse(x * 0.5, 1) + x, ((9, 100),), (((2, 2051),), ((3, 1),))),
    "reverse_middle": (lambda x: reverse(x, 1), ((3, 20, 36),), (((2, 5, 9),),)),
    "reverse_few": (lambda x: reverse(x, 0), ((140000,),), (((77,),),)),
    "exclusive": (exclusive, ((11, 130),), (((3, 2049),), ((2, 1),))),
    "exclusive_first": (lambda x: torch.cat([torch.zeros(1, x.shape[1]), torch.cumsum(x, 0)[:-1]]),
                        ((20, 40),), (((3, 5),),)),
    "offsets": (offsets, ((1, 70000),), (((5, 17),), ((2, 1024),))),
    "transmittance": (transmittance, ((40, 96),), (((3, 1500),),)),
    "masked": (lambda x, m: torch.cumsum(x * (m > 0), -1).relu(), ((8, 77), (8, 77)), (((3, 1), (3, 1)),)),
}  # fmt: skip


QUICK = ("sum_last", "sum_middle", "reverse", "exclusive")


def cases(*names: str) -> list[Any]:
    """As parameters; all but a few build for too long to run every time."""
    return [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", cases(*CASES))
def test_every_technique_is_accurate_at_all_shapes(bench: Any, name: str) -> None:
    function, main, others = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    graph = bench.graph(function, *args)
    written = list(bench.techniques(graph, bench.whole(graph)))
    assert written
    assert all(unit.family == "scan" for _, unit in written)
    for _, unit in written:
        bench.check(unit, graph, args)
    for shapes in others:
        ragged = tuple(torch.randn(s) for s in shapes)
        bench.check(written[0][1], bench.graph(function, *ragged), ragged)


def test_few_long_rows_are_split_among_threads(bench: Any) -> None:
    x = torch.randn(1, 150000)
    graph = bench.graph(lambda x: torch.cumsum(x, 1), x)
    names = [t.name for t, _ in bench.techniques(graph, bench.whole(graph))]
    assert names == ["split-row", "rows-float", "rows"]
    many = bench.graph(lambda x: torch.cumsum(x, 1), torch.randn(64, 300))
    assert [t.name for t, _ in bench.techniques(many, bench.whole(many))] == ["rows-float", "rows"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e-42, 3e38])
@pytest.mark.parametrize(
    "name", cases("sum_last", "maximum", "reverse", "exclusive", "sum_first", "product_first")
)
def test_extreme_values_spread_as_in_torch(bench: Any, name: str, value: float) -> None:
    function, main, _ = CASES[name]
    x = torch.randn(main[0])
    x[1, 3:5], x[2, 5], x[0, 7] = value, -value, 0.0
    graph = bench.graph(function, x)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x,))


@pytest.mark.slow
def test_a_split_row_carries_infinities_across_its_parts(bench: Any) -> None:
    x = torch.randn(1, 150000)
    x[0, 70000], x[0, 140000] = float("inf"), -float("inf")
    graph = bench.graph(lambda x: torch.cumsum(x, 1), x)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dim", [0, 1])
def test_half_precision_is_summed_wider_and_rounded_once(bench: Any, dtype: torch.dtype, dim: int) -> None:
    x = torch.randn(40, 300).to(dtype)
    graph = bench.graph(lambda x: torch.cumsum(x, dim) * 2, x)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x,), ulp=2.0)


def test_strided_inputs_and_a_bool_input(bench: Any) -> None:
    x = torch.randn(50, 80)
    for args, function in (
        ((x.t(),), lambda x: torch.cumsum(x, 1)),
        ((x[::2, ::3],), lambda x: torch.cumsum(x, 1)),
        ((x.t(),), lambda x: torch.cumsum(x, 0)),
        ((x[:, :1].expand(50, 80),), lambda x: torch.cumsum(x, 1)),
        ((x > 0,), lambda m: torch.cumsum(m, 1, dtype=torch.float32)),
    ):
        graph = bench.graph(function, *args)
        for _, unit in bench.techniques(graph, bench.whole(graph)):
            bench.check(unit, graph, args)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    shape=st.lists(st.sampled_from([1, 2, 5, 16, 33, 70]), min_size=1, max_size=4),
    dim=st.integers(0, 3),
    backwards=st.booleans(),
)
def test_any_shape_and_dimension(bench: Any, shape: list[int], dim: int, backwards: bool) -> None:
    axis = dim % len(shape)
    x = torch.randn(shape)
    graph = bench.graph(lambda x: (reverse(x, axis) if backwards else torch.cumsum(x, axis)) - x, x)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x,))


def ops(graph: Graph, region: Region) -> list[str]:
    return [graph.by_name[n].op.split(".")[1] for n in region.nodes]


def test_the_planner_takes_a_scan_with_its_neighbours(bench: Any) -> None:
    def values(rewards: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        returns = reverse(rewards * mask, 1)
        return torch.tanh(returns * 0.1) + rewards

    graph = bench.graph(values, torch.randn(8, 300), torch.randn(8, 300))
    (region,) = plans(graph, bench.facts)[0]
    assert ops(graph, region) == ["mul", "flip", "cumsum", "flip", "mul", "tanh", "add"]
    assert len(region.inputs) == 2


def test_an_exclusive_scan_reads_its_source_once_and_makes_no_zeros(bench: Any) -> None:
    graph = bench.graph(exclusive, torch.randn(8, 300))
    (region,) = plans(graph, bench.facts)[0]
    assert set(region.nodes) == {n.name for n in graph.nodes}
    assert len(region.inputs) == 1


def test_what_it_does_not_write_is_left_alone(bench: Any) -> None:
    x = torch.randn(8, 30)
    declined = (
        (lambda x: torch.cumsum(x, 0), x.double()),
        (lambda x: torch.cumsum(x, 0), x.long()),
        (lambda x: torch.cummax(x, 1), x),  # its indices
        (lambda x: torch.cumsum(x, 0), torch.randn(500, 3)),
    )
    for function, args in declined:
        assert plans(bench.graph(function, args), bench.facts) == []


def test_a_front_that_is_not_the_identity_is_not_taken_for_an_exclusive_scan(bench: Any) -> None:
    x = torch.randn(8, 30)
    graph = bench.graph(lambda x: torch.cat([torch.ones(8, 1), torch.cumsum(x, 1)], 1), x)
    for plan in plans(graph, bench.facts):
        for region in plan:
            assert "cat" not in ops(graph, region) or "cumsum" not in ops(graph, region)
    other = bench.graph(lambda x: x.flip(0).cumsum(1).flip(0), x)
    assert all(
        "flip" not in ops(other, r) or "cumsum" not in ops(other, r)
        for p in plans(other, bench.facts)
        for r in p
    )
