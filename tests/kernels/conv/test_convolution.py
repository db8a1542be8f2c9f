"""The convolution family: every technique against float64, at borders, strides, dilations and odd layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.agents.expert.planner import plans
from warpsmith.kernels.conv.cpu.cpp_convolution import CppConvolution
from warpsmith.records import Graph, Region
from warpsmith.tasks.export import export_program, program_graph

Shapes = tuple[tuple[int, ...], ...]
Case = tuple[Callable[..., torch.Tensor], Shapes, tuple[Shapes, ...]]

# name → (function, main shapes, other shapes that the same source must be right at)
CASES: dict[str, Case] = {
    "depthwise_fused": (
        lambda x, w, b, r: F.silu(F.conv2d(x, w, b, padding=1, groups=6)) + r,
        ((2, 6, 13, 21), (6, 1, 3, 3), (6,), (2, 6, 13, 21)),
        (((1, 6, 1, 1), (6, 1, 3, 3), (6,), (1, 6, 1, 1)), ((0, 6, 4, 5), (6, 1, 3, 3), (6,), (0, 6, 4, 5))),
    ),
    "depthwise_strided_dilated": (
        lambda x, w: F.conv2d(x, w, None, (2, 3), (4, 1), (2, 1), groups=4),
        ((2, 4, 15, 40), (8, 1, 5, 4)), (((3, 4, 30, 9), (4, 1, 3, 2)),),
    ),
    "few_channels_strided": (
        lambda x, w, b: F.hardswish(F.conv2d(x, w, b, 2, 1)),
        ((2, 3, 17, 19), (10, 3, 3, 3), (10,)), (((1, 4, 8, 70), (17, 4, 5, 2), (17,)),),
    ),
    "grouped": (
        lambda x, w: F.conv2d(x, w, None, 1, (0, 2), groups=2).tanh(),
        ((2, 6, 9, 11), (8, 3, 3, 3)), (((1, 4, 5, 33), (2, 2, 2, 3)),),
    ),
    "pointwise": (
        lambda x, w, b: F.conv2d(x, w) * b,
        ((2, 3, 5, 50), (9, 3, 1, 1), (9, 1, 1)), (((3, 8, 7, 7), (16, 8, 1, 1), (16, 1, 1)),),
    ),
    "one_dimension": (
        lambda x, w, b: F.silu(F.conv1d(x, w, b, 1, 3, 1, 5)),
        ((2, 5, 300), (5, 1, 4), (5,)), (((1, 5, 5003), (5, 1, 4), (5,)),),
    ),
    "three_dimensions": (
        lambda x, w: F.conv3d(x, w, None, (1, 2, 1), 1).relu(),
        ((2, 2, 5, 6, 20), (3, 2, 3, 3, 3)), (((1, 1, 2, 9, 4), (4, 1, 1, 3, 2)),),
    ),
    "after_pointwise": (
        lambda x, s, w: F.conv2d(torch.relu(x * s), w, None, 1, 1, groups=3).sigmoid(),
        ((2, 3, 12, 18), (3, 1, 1), (3, 1, 3, 3)), (((1, 3, 5, 67), (3, 1, 1), (3, 1, 3, 3)),),
    ),
    "causal": (
        lambda x, w, b: F.silu(F.conv1d(x, w, b, padding=3, groups=5)[..., : x.shape[-1]]),
        ((2, 5, 70), (5, 1, 4), (5,)), (((3, 5, 1), (5, 1, 4), (5,)),),
    ),
    "zeros_around": (
        lambda x, w: F.conv2d(F.pad(x, (0, 1, 2, 0)), w, None, 2, 1).relu(),
        ((2, 3, 9, 24), (5, 3, 3, 3)), (((1, 2, 4, 37), (3, 2, 2, 3)),),
    ),
}  # fmt: skip


def region_of(bench: Any, graph: Graph) -> Region:
    """The whole graph as one region, which the planner must find by itself."""
    region = bench.whole(graph)
    assert any(r == region for plan in plans(graph, bench.facts) for r in plan)
    return region


@pytest.mark.parametrize("name", CASES)
def test_every_technique_is_accurate_at_all_shapes(bench: Any, name: str) -> None:
    function, main, others = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    graph = bench.graph(function, *args)
    written = list(bench.techniques(graph, region_of(bench, graph)))
    assert written
    assert all(unit.family == "convolution" for _, unit in written)
    for _, unit in written:
        bench.check(unit, graph, args)
    for i, shapes in enumerate(others):
        ragged = tuple(torch.randn(s) for s in shapes)
        bench.check(written[i % len(written)][1], bench.graph(function, *ragged), ragged)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once(bench: Any, dtype: torch.dtype) -> None:
    args = (torch.randn(1, 4, 9, 21).to(dtype), torch.randn(4, 1, 3, 3).to(dtype), torch.randn(4).to(dtype))
    graph = bench.graph(lambda x, w, b: F.conv2d(x, w, b, 1, 1, 1, 4), *args)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, args, ulp=1.0)


def test_strided_and_channels_last_operands(bench: Any) -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.relu(F.conv2d(x, w, b, 1, 1))

    w, b = torch.randn(3, 3, 5, 6).permute(2, 3, 0, 1)[:, :4], torch.randn(10)[::2]
    for x in (
        torch.randn(2, 4, 9, 20).to(memory_format=torch.channels_last),
        torch.randn(2, 4, 40, 18).transpose(2, 3)[:, :, ::2],
    ):
        graph = bench.graph(function, x, w, b)
        _, unit = next(iter(bench.techniques(graph, bench.whole(graph))))
        bench.check(unit, graph, (x, w, b))


def test_nan_infinity_and_denormals_spread_as_in_torch(bench: Any) -> None:
    x, w = torch.randn(2, 3, 9, 30), torch.randn(3, 1, 3, 3)
    x[0, 0, 3, 4], x[0, 1, 0, 0], x[0, 1, 8, 29], x[1, 2] = float("nan"), float("inf"), -float("inf"), 1e-40
    graph = bench.graph(lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 3), x, w)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x, w))


def test_other_values_of_the_tunables_give_the_same_result(bench: Any) -> None:
    args = (torch.randn(3, 8, 22, 45), torch.randn(8, 1, 3, 3))
    graph = bench.graph(lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 8), *args)
    for technique, unit in bench.techniques(graph, bench.whole(graph)):
        assert all(unit.source.count(t.name) > 3 for t in technique.tunables)  # more than its own definition
        moved = tuple(t.model_copy(update={"value": t.domain[-1]}) for t in unit.tunables)
        bench.check(unit.model_copy(update={"tunables": moved}), graph, args)


@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_random_convolutions(bench: Any, data: Any) -> None:
    """Any stride, padding, dilation, kernel and group count that torch takes."""
    draw = data.draw
    rank = draw(st.integers(1, 2))
    groups, inner, outer = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    kernel, stride, dilation = (
        draw(st.lists(st.integers(1, top), min_size=rank, max_size=rank)) for top in (4, 3, 2)
    )
    padding = [draw(st.integers(0, k)) for k in kernel]
    span = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    least = [max(1, s - 2 * p) for s, p in zip(span, padding, strict=True)]
    size = [n + draw(st.integers(0, 40)) for n in least]
    args = (
        torch.randn(draw(st.integers(1, 3)), groups * inner, *size),
        torch.randn(groups * outer, inner, *kernel),
        torch.randn(groups * outer),
    )
    call = F.conv1d if rank == 1 else F.conv2d
    graph = bench.graph(lambda x, w, b: call(x, w, b, stride, padding, dilation, groups) * 0.5, *args)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, args)


def ops(graph: Graph, region: Region) -> list[str]:
    return [graph.by_name[n].op.split(".")[1] for n in region.nodes]


class Block(torch.nn.Module):
    """Convolution, batch norm, activation, residual."""

    def __init__(self, convolution: torch.nn.Conv2d) -> None:
        super().__init__()
        self.convolution, self.norm = convolution, torch.nn.BatchNorm2d(convolution.out_channels)

    def forward(self, x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.convolution(x))) + r


def exported(module: torch.nn.Module, *args: torch.Tensor) -> Graph:
    return program_graph(export_program(module, args, {}, "test.py"), "test.py")


def test_a_depthwise_block_is_one_region(bench: Any) -> None:
    block = Block(torch.nn.Conv2d(16, 16, 3, padding=1, groups=16)).eval()
    block.norm.running_mean.normal_(), block.norm.running_var.uniform_(0.5, 2.0)
    x, r = torch.randn(2, 16, 20, 33), torch.randn(2, 16, 20, 33)
    graph = exported(block, x, r)
    region = next(r for r in plans(graph, bench.facts)[0] if "convolution" in ops(graph, r))
    assert ops(graph, region) == ["convolution", "_native_batch_norm_legit_no_training", "relu", "add"]
    state = dict(block.named_parameters()) | dict(block.named_buffers())
    given = iter((x, r))
    args = tuple(next(given) if i.role == "input" else state[i.target].detach() for i in graph.inputs)
    for _, unit in bench.techniques(graph, region):
        bench.check(unit, graph, args)


@pytest.mark.parametrize("training", [False, True])
def test_a_dense_convolution_stays_the_librarys_and_what_follows_is_fused(bench: Any, training: bool) -> None:
    block = Block(torch.nn.Conv2d(128, 64, 3, padding=1)).train(training)
    graph = exported(block, torch.randn(2, 128, 20, 20), torch.randn(2, 64, 20, 20))
    for plan in plans(graph, bench.facts):
        assert all("convolution" not in ops(graph, r) for r in plan)
    fused = [ops(graph, r) for r in plans(graph, bench.facts)[0]]
    assert any(len(names) >= 3 and "norm" in names[0] and names[1:3] == ["relu", "add"] for names in fused)


def test_what_cannot_be_written_is_declined(bench: Any) -> None:
    family = CppConvolution()
    transposed = bench.graph(
        lambda x, w: F.conv_transpose2d(x, w, None, 2), torch.randn(1, 2, 5, 5), torch.randn(2, 3, 3, 3)
    )
    double = bench.graph(
        lambda x, w: F.conv1d(x, w), torch.randn(1, 2, 5).double(), torch.randn(3, 2, 3).double()
    )
    for graph in (transposed, double):
        (node,) = (n for n in graph.nodes if family.covers(graph, n))
        assert family.cut(graph, node, set(), True) is None
