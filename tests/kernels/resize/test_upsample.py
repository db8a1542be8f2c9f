"""Interpolation kernels, compiled for real: against float64 at many sizes and scales; what is fused and declined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsmith.agents.expert.planner import plans
from warpsmith.kernels.resize.cpu.cpp_upsample import CppUpsample
from warpsmith.records import Graph, Region

Function = Callable[..., object]
UPSAMPLE = CppUpsample()


def resize_region(graph: Graph) -> Region:
    node = next(n for n in graph.nodes if UPSAMPLE.covers(graph, n))
    region = UPSAMPLE.cut(graph, node, (), True)
    assert region is not None
    return region


def check(bench: Any, function: Function, *args: torch.Tensor, others: tuple[torch.Tensor, ...] = ()) -> None:
    """The fused region at these arguments, and the same source at others."""
    graph = bench.graph(function, *args)
    region = resize_region(graph)
    units = [UPSAMPLE.write(graph, region, t) for t in UPSAMPLE.techniques(graph, region, bench.facts)]
    assert units
    for unit in units:
        bench.check(unit, graph, args, ulp=16.0)
    for other in others:
        bench.check(units[0], bench.graph(function, other), (other,), ulp=16.0)


def linear(mode: str, scale: float, corners: bool = False) -> Function:
    return lambda x: F.interpolate(x, scale_factor=scale, mode=mode, align_corners=corners)


# name → (function, main shape, another shape at which the same source must be right)
CASES: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...]]] = {
    "nearest1d": (lambda x: F.interpolate(x, scale_factor=3), (2, 3, 50), (1, 1, 1)),
    "nearest2d": (lambda x: F.interpolate(x, scale_factor=2), (2, 3, 9, 20), (0, 2, 4, 5)),
    "nearest2d_odd": (lambda x: F.interpolate(x, scale_factor=1.7), (2, 3, 9, 20), (1, 2, 4, 5)),
    "nearest2d_size": (lambda x: F.interpolate(x, size=(7, 33)), (2, 3, 9, 20), (1, 2, 14, 5)),
    "nearest3d": (lambda x: F.interpolate(x, scale_factor=2), (1, 2, 3, 4, 9), (2, 1, 1, 5, 4)),
    "linear1d": (linear("linear", 2.5), (2, 3, 40), (1, 1, 3)),
    "bilinear": (linear("bilinear", 2), (2, 3, 9, 20), (1, 2, 1, 33)),
    "bilinear_corners": (linear("bilinear", 2, True), (2, 3, 9, 20), (1, 2, 1, 1)),
    "bilinear_smaller": (lambda x: F.interpolate(x, size=(4, 11), mode="bilinear"), (2, 3, 9, 20), (1, 2, 4, 50)),
    "trilinear": (linear("trilinear", 2), (1, 2, 3, 5, 9), (2, 1, 4, 1, 6)),
    "fused": (lambda x: torch.tanh(F.interpolate(x.sigmoid(), scale_factor=2)) + 1, (2, 3, 9, 20), (1, 2, 4, 5)),
    "fused_bilinear": (lambda x: linear("bilinear", 2)(torch.relu(x) * 2) - 1, (2, 3, 9, 20), (1, 2, 4, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_interpolation_is_right_at_all_shapes(bench: Any, name: str) -> None:
    function, main, other = CASES[name]
    check(bench, function, torch.randn(main), others=(torch.randn(other),))


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 20), st.integers(1, 40)),
    made=st.tuples(st.integers(1, 30), st.integers(1, 70)), mode=st.sampled_from(["nearest", "bilinear"]),
    strided=st.booleans(),
)  # fmt: skip
def test_random_sizes(
    bench: Any, size: tuple[int, ...], made: tuple[int, int], mode: str, strided: bool
) -> None:
    x = torch.randn(size)
    x = torch.randn(*size[:2], size[3], size[2]).transpose(2, 3) if strided else x
    check(bench, lambda x: F.interpolate(x, size=made, mode=mode).exp(), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_mixes_in_float32(bench: Any, dtype: torch.dtype) -> None:
    check(bench, linear("bilinear", 2), torch.randn(2, 3, 9, 20).to(dtype))


def test_nan_and_infinity_spread_as_in_torch(bench: Any) -> None:
    x = torch.randn(1, 2, 12, 20)
    x[0, 0, 3, 5], x[0, 1, 4, 4], x[0, 0, 11, 19] = float("nan"), float("inf"), -float("inf")
    check(bench, lambda x: F.interpolate(x, scale_factor=2), x)
    check(bench, lambda x: F.interpolate(x, scale_factor=3, mode="bilinear"), x)


def test_plans_fuse_the_interpolation_with_its_neighbours(bench: Any) -> None:
    def head(x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        return torch.softmax(F.interpolate(torch.relu(x), scale_factor=2, mode="bilinear") + skip, 1)

    graph = bench.graph(head, torch.randn(1, 4, 20, 20), torch.randn(1, 4, 40, 40))
    found = [
        [graph.by_name[n].op.split(".")[1] for n in r.nodes] for p in plans(graph, bench.facts) for r in p
    ]
    assert ["relu", "upsample_bilinear2d", "add"] in found


@pytest.mark.parametrize("function", [
    lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), lambda x: F.interpolate(x, size=5, mode="nearest-exact"),
    lambda x: F.interpolate(x.contiguous(memory_format=torch.channels_last), scale_factor=2),
])  # fmt: skip
def test_what_cannot_be_written_is_declined(bench: Any, function: Function) -> None:
    graph = bench.graph(function, torch.randn(1, 4, 8, 8))
    for node in graph.nodes:
        assert not UPSAMPLE.covers(graph, node) or UPSAMPLE.cut(graph, node, (), True) is None
