"""Pooling kernels, compiled for real: against float64 at many windows, layouts and dtypes; what is fused and declined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsmith.agents.expert.planner import plans
from warpsmith.codegen.program import Unsupported
from warpsmith.kernels.pool.cpu.cpp_pooling import CppPooling
from warpsmith.records import Graph, Region

Function = Callable[..., object]
POOLING = CppPooling()


def pool_region(graph: Graph, fuse: bool = True) -> Region:
    node = next(n for n in graph.nodes if POOLING.covers(graph, n))
    region = POOLING.cut(graph, node, (), fuse)
    assert region is not None
    return region


def check(bench: Any, function: Function, *args: torch.Tensor, ulp: float = 8.0) -> None:
    """Every technique of the fused region at these arguments."""
    graph = bench.graph(function, *args)
    region = pool_region(graph)
    written = [POOLING.write(graph, region, t) for t in POOLING.techniques(graph, region, bench.facts)]
    assert written
    for unit in written:
        bench.check(unit, graph, args, ulp=ulp)


def two_outputs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return F.max_pool2d(x, 3, 2, 1, return_indices=True)


def stem(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(torch.relu(x + b), 3, 2, 1) * 2


# name → (function, main shapes, other shapes at which the same source must be right)
CASES: dict[str, tuple[Function, tuple[tuple[int, ...], ...], tuple[tuple[tuple[int, ...], ...], ...]]] = {
    "max1d_dilated": (lambda x: F.max_pool1d(x, 8, 1, 4, 3), ((2, 3, 2100),), (((1, 1, 40),), ((0, 3, 50),))),
    "max2d": (lambda x: F.max_pool2d(x, 4, 1, 1), ((2, 3, 20, 37),), (((1, 2, 4, 4),), ((3, 1, 9, 70),))),
    "max2d_ceil": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), ((2, 3, 20, 38),), (((1, 1, 7, 9),),)),
    "max3d_dilated": (lambda x: F.max_pool3d(x, 3, 2, 1, 2), ((1, 2, 12, 13, 40),), (((2, 1, 5, 6, 7),),)),
    "max2d_indices": (two_outputs, ((2, 3, 21, 37),), (((1, 1, 5, 5),), ((1, 2, 40, 3),))),
    "avg1d": (lambda x: F.avg_pool1d(x, 8, 1, 4), ((2, 5, 1500),), (((1, 1, 8),), ((3, 4, 301),))),
    "avg1d_open": (lambda x: F.avg_pool1d(x, 5, 3, 2, True, False), ((2, 3, 700),), (((1, 2, 6),),)),
    "avg2d_large": (lambda x: F.avg_pool2d(x, 11), ((1, 3, 66, 130),), (((2, 1, 11, 25),),)),
    "avg2d_divisor": (lambda x: F.avg_pool2d(x, 3, 2, 1, True, True, 7), ((2, 2, 9, 40),), (((1, 1, 4, 4),),)),
    "avg2d_open": (lambda x: F.avg_pool2d(x, 3, 1, 1, False, False), ((2, 2, 9, 40),), (((1, 1, 2, 2),),)),
    "avg3d": (lambda x: F.avg_pool3d(x, 3, 2, 1), ((1, 2, 9, 10, 50),), (((2, 3, 3, 4, 5),),)),
    "avg_global": (lambda x: F.avg_pool2d(x, x.shape[-2:]), ((2, 5, 9, 14),), (((1, 3, 4, 33),),)),
    "adaptive_even": (lambda x: F.adaptive_avg_pool2d(x, 7), ((2, 3, 28, 35),), (((1, 2, 14, 7),),)),
    "adaptive_uneven": (lambda x: F.adaptive_avg_pool2d(x, (5, 7)), ((2, 3, 13, 37),), (((1, 2, 3, 4),),)),
    "adaptive_max": (lambda x: F.adaptive_max_pool2d(x, (3, 20)), ((2, 3, 13, 37),), (((1, 2, 6, 40),),)),
    "adaptive_3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 5)), ((1, 2, 4, 7, 23),), (((2, 1, 4, 6, 10),),)),
    "stem": (stem, ((2, 5, 20, 41), (5, 1, 1)), (((1, 3, 7, 9), (3, 1, 1)),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_pooling_is_right_at_all_shapes(bench: Any, name: str) -> None:
    function, main, others = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    graph = bench.graph(function, *args)
    region = pool_region(graph)
    units = [POOLING.write(graph, region, t) for t in POOLING.techniques(graph, region, bench.facts)]
    assert units
    for unit in units:
        bench.check(unit, graph, args)
    for shapes in others:
        ragged = tuple(torch.randn(s) for s in shapes)
        bench.check(units[0], bench.graph(function, *ragged), ragged)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(7, 20), st.integers(7, 70)),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 7)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 9)),
    maximum=st.booleans(), ceil=st.booleans(), padded=st.booleans(), last=st.booleans(),
)  # fmt: skip
def test_random_windows(
    bench: Any, size: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int],
    maximum: bool, ceil: bool, padded: bool, last: bool,
) -> None:  # fmt: skip
    x = torch.randn(size)
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    padding = (kernel[0] // 2, kernel[1] // 2)
    if maximum:
        check(bench, lambda x: F.max_pool2d(x, kernel, stride, padding, 1, ceil), x)
    else:
        check(bench, lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, padded) + x.mean(), x)


@pytest.mark.parametrize("function", [
    lambda x: F.max_pool2d(x.relu(), 3, 2, 1) * 3, lambda x: F.avg_pool2d(x, 3, 1, 1, False, False) + 1,
    lambda x: F.avg_pool2d(x.sigmoid(), 2), lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
])  # fmt: skip
def test_channels_last_images_are_walked_along_channels(bench: Any, function: Function) -> None:
    x = torch.randn(2, 37, 11, 13).contiguous(memory_format=torch.channels_last)
    graph = bench.graph(function, x)
    region = pool_region(graph)
    assert [t.name for t in POOLING.techniques(graph, region, bench.facts)] == ["channels"]
    check(bench, function, x)
    other = torch.randn(1, 20, 7, 6).contiguous(memory_format=torch.channels_last)
    (unit,) = (POOLING.write(graph, region, t) for t in POOLING.techniques(graph, region, bench.facts))
    bench.check(unit, bench.graph(function, other), (other,))


def test_strided_images(bench: Any) -> None:
    base = torch.randn(2, 3, 40, 30)
    check(bench, lambda x: F.max_pool2d(x, 3, 2, 1), base.transpose(2, 3))
    check(bench, lambda x: F.avg_pool2d(x, 2), base[:, :, ::2, 3:25])
    check(bench, lambda x: F.avg_pool2d(x, 2), torch.randn(2, 3, 1, 30).expand(2, 3, 8, 30))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_adds_in_float32(bench: Any, dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 24, 45).to(dtype)
    check(bench, lambda x: F.avg_pool2d(torch.tanh(x), 6, 2, 3) + 1, x, ulp=1.0)
    check(bench, lambda x: F.max_pool2d(x, 3, 2, 1), x, ulp=1.0)


def test_nan_infinity_and_denormals(bench: Any) -> None:
    x = torch.randn(2, 2, 12, 40)
    x[0, 0, 3, 5], x[0, 1, 4, 4], x[1, 0, 0, 39] = float("nan"), float("inf"), -float("inf")
    x[1, 1] = -float("inf")
    x[0, 1, 8:] = 1e-41
    for function in (
        lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 2, 1), two_outputs,
        lambda x: F.adaptive_avg_pool2d(x, (5, 9)),
    ):  # fmt: skip
        check(bench, function, x)


def test_positions_of_ties_and_of_several_nan_are_torchs(bench: Any) -> None:
    x = torch.randint(0, 3, (2, 3, 17, 33)).float()
    x[0, 0, 4, 4:7] = float("nan")
    check(bench, two_outputs, x)
    check(bench, lambda x: F.max_pool1d(x, 4, 3, 2, return_indices=True), x[0])


def test_a_second_call_gives_the_same_bits(bench: Any) -> None:
    x = torch.randn(4, 8, 64, 64)
    graph = bench.graph(lambda x: F.avg_pool2d(x, 5, 1, 2), x)
    region = pool_region(graph)
    unit = POOLING.write(graph, region, POOLING.techniques(graph, region, bench.facts)[0])
    first, second = (bench.run(unit, graph, {graph.inputs[0].name: x}) for _ in range(2))
    assert torch.equal(first[0], second[0])


def test_every_tunable_changes_the_code_and_not_the_result(bench: Any) -> None:
    x = torch.randn(2, 3, 9, 1400)
    graph = bench.graph(lambda x: F.avg_pool2d(x, 3, 1, 1), x)
    region = pool_region(graph)
    technique = POOLING.techniques(graph, region, bench.facts)[0]
    assert {"BLOCK", "VEC", "UNROLL", "NT"} == {t.name for t in technique.tunables}
    for t in technique.tunables:
        unit = POOLING.write(graph, region, technique.at({t.name: t.domain[-1]}))
        bench.check(unit, graph, (x,))
        assert t.name in unit.source.split("#include", 1)[1]


def op_names(graph: Graph, region: Region) -> list[str]:
    return [graph.by_name[n].op.split(".")[1] for n in region.nodes]


def test_plans_fuse_the_pooling_with_its_neighbours(bench: Any) -> None:
    def block(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return F.conv2d(F.gelu(F.max_pool2d(torch.relu(x * s), 3, 2, 1)) + 1, w)

    graph = bench.graph(block, torch.randn(2, 8, 40, 40), torch.randn(4, 8, 3, 3), torch.randn(8, 1, 1))
    found = [op_names(graph, r) for plan in plans(graph, bench.facts) for r in plan]
    assert ["mul", "relu", "max_pool2d_with_indices", "gelu", "add"] in found
    assert ["max_pool2d_with_indices"] in found


def test_dear_recomputation_is_not_fused(bench: Any) -> None:
    graph = bench.graph(lambda x: F.avg_pool2d(torch.tanh(x), 7, 1), torch.randn(2, 3, 40, 40))
    assert op_names(graph, pool_region(graph)) == ["avg_pool2d"]


def test_a_size_that_no_operand_tells_is_refused(bench: Any) -> None:
    graph = bench.graph(lambda s: F.avg_pool2d(torch.ones(1, 2, 8, 8) * s, 2), torch.tensor(2.0))
    region = pool_region(graph)
    assert len(region.nodes) == len(graph.nodes) > 1
    (technique,) = POOLING.techniques(graph, region, bench.facts)
    with pytest.raises(Unsupported, match="none of its operands"):
        POOLING.write(graph, region, technique)


@pytest.mark.parametrize(("function", "x"), [
    (lambda x: F.max_pool2d(x, 2), torch.zeros(1, 2, 8, 8, dtype=torch.int64)),
    (lambda x: F.max_pool2d(x, 2, 2, 1, 3, return_indices=True), torch.zeros(1, 2, 20, 20)),
    (two_outputs, torch.zeros(1, 4, 8, 8).contiguous(memory_format=torch.channels_last)),
])  # fmt: skip
def test_what_cannot_be_written_is_declined(bench: Any, function: Function, x: torch.Tensor) -> None:
    graph = bench.graph(function, x)
    node = next(n for n in graph.nodes if POOLING.covers(graph, n))
    assert POOLING.cut(graph, node, (), True) is None
