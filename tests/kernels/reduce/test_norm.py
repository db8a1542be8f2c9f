"""Norms of every kind, and reductions across views that split or merge dimensions, against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsmith.agents.expert.planner import plans
from warpsmith.records import Graph, Region

Shapes = tuple[tuple[int, ...], ...]
Case = tuple[Callable[..., object], Shapes, tuple[Shapes, ...]]


def swish_group_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.silu(F.group_norm(x, 4, w, b))


def by_views(x: torch.Tensor) -> torch.Tensor:
    """Group norm as people write it out, the groups by a view."""
    y = x.view(x.shape[0], 4, -1)
    y = (y - y.mean(-1, keepdim=True)) * torch.rsqrt(y.var(-1, keepdim=True, unbiased=False) + 1e-5)
    return F.gelu(y.view(x.shape)) * 0.5


def heads(q: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """RMS norm of each head of a packed projection."""
    y = q.view(q.shape[0], q.shape[1], -1, g.shape[0])
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * g
    return y.reshape(q.shape)


# name → (function, main shapes, other shapes that the same source must be right at)
CASES: dict[str, Case] = {
    "group_norm_affine": (swish_group_norm, ((3, 8, 9, 10), (8,), (8,)), (((2, 12, 3, 1), (12,), (12,)),
    ((1, 4, 1, 2), (4,), (4,)), ((0, 8, 4, 4), (8,), (8,)))),
    "group_norm_vectors": (lambda x, w: F.group_norm(x, 2, w), ((20, 96), (96,)), (((3, 34), (34,)),)),
    "group_norm_of_one": (lambda x: F.group_norm(x, 1), ((4, 6, 50),), (((3, 5, 1),),)),
    "group_norm_long": (lambda x, w: F.group_norm(x + 1, 2, w), ((2, 6, 900), (6,)), (((1, 4, 5000), (4,)),)),
    "instance_norm_affine": (
        lambda x, w, b: torch.tanh(F.instance_norm(x, weight=w, bias=b)),
        ((3, 5, 7, 8), (5,), (5,)), (((2, 9, 30, 3), (9,), (9,)),),
    ),
    "instance_norm_3d": (lambda x: F.instance_norm(x), ((2, 3, 4, 5, 6),), (((1, 2, 3, 3, 1),),)),
    "by_views": (by_views, ((3, 8, 30),), (((2, 20, 7),),)),
    "heads": (heads, ((2, 6, 48), (16,)), (((1, 5, 32), (16,)), ((3, 2, 21), (7,)))),
    "layer_norm_two_dims": (
        lambda x, w, b: F.layer_norm(x, tuple(w.shape), w, b), ((5, 6, 20), (6, 20), (6, 20)),
        (((2, 3, 701), (3, 701), (3, 701)),),
    ),
    "rms_over_channels": (
        lambda x: x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-5), ((3, 20, 6, 7),), (((2, 1, 5, 1),),),
    ),
    "frobenius": (lambda x: x / torch.norm(x, p="fro"), ((6, 20, 31),), (((1, 1, 1),),)),
    "l1_mean": (lambda x: x / x.abs().mean(1, keepdim=True), ((9, 400),), (((2, 3),),)),
    "weight_norm": (
        lambda v, g: v * (g / v.norm(2, dim=(1, 2, 3), keepdim=True)), ((8, 6, 3, 3), (8, 1, 1, 1)),
        (((3, 5, 1, 7), (3, 1, 1, 1)),),
    ),
    "pixel_shuffle": (
        lambda x, y: F.gelu(F.pixel_shuffle(x, 2)) + y, ((2, 12, 5, 6), (2, 3, 10, 12)),
        (((1, 4, 3, 17), (1, 1, 6, 34)),),
    ),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x * 2 + 1, 2), ((2, 3, 4, 18),), (((1, 1, 2, 6),),)),
    "channel_shuffle": (
        lambda x, b: F.relu(F.channel_shuffle(x, 3) + b), ((2, 12, 5, 4), (12, 1, 1)),
        (((1, 6, 3, 1), (6, 1, 1)),),
    ),
    "head_softmax": (
        lambda x: torch.softmax(x.view(x.shape[0], x.shape[1], 4, -1).transpose(1, 2), -1) * 2,
        ((2, 5, 64),), (((1, 3, 20),),),
    ),
    "patches": (
        lambda x: (x.reshape(x.shape[0], -1, 2, x.shape[2]) + 1).amax((1, 2)), ((3, 8, 40),), (((1, 6, 5),),),
    ),
}  # fmt: skip


def largest(bench: Any, graph: Graph) -> Region:
    return max(plans(graph, bench.facts)[0], key=lambda r: len(r.nodes))


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_accurate_at_all_shapes(bench: Any, name: str) -> None:
    """One technique at the main shapes and the next at others: over the cases, each meets all kinds of shapes."""
    function, main, others = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    graph = bench.graph(function, *args)
    written = [unit for _, unit in bench.techniques(graph, largest(bench, graph))]
    first = len(name) % len(written)
    bench.check(written[first], graph, args)
    for i, shapes in enumerate(others):
        ragged = tuple(torch.randn(s) for s in shapes)
        bench.check(written[(first + i + 1) % len(written)], bench.graph(function, *ragged), ragged)


@pytest.mark.parametrize(
    "name", ["group_norm_affine", "by_views", "head_softmax", "channel_shuffle", "pixel_shuffle"]
)
def test_the_whole_graph_is_one_region(bench: Any, name: str) -> None:
    """All but a view at the end, which only leads outside and costs nothing."""
    function, main, _ = CASES[name]
    graph = bench.graph(function, *(torch.randn(s) for s in main))
    assert len(largest(bench, graph).nodes) >= len(graph.nodes) - 1


def test_instance_norm_reads_and_writes_past_its_views(bench: Any) -> None:
    function, main, _ = CASES["instance_norm_affine"]
    graph = bench.graph(function, *(torch.randn(s) for s in main))
    region = largest(bench, graph)
    assert set(region.inputs) == {i.name for i in graph.inputs}
    assert region.outputs == tuple(graph.returned)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once(bench: Any, dtype: torch.dtype) -> None:
    args = tuple(torch.randn(s).to(dtype) for s in ((2, 8, 5, 9), (8,), (8,)))
    graph = bench.graph(lambda x, w, b: F.group_norm(x, 2, w, b), *args)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, args, ulp=1.0)


@pytest.mark.parametrize("name", ["group_norm_affine", "instance_norm_affine"])
def test_channels_last_input(bench: Any, name: str) -> None:
    function, main, _ = CASES[name]
    for shape in (main[0], (2, 16, 6, 9)):
        channels = (shape[1],)
        x = torch.randn(shape).to(memory_format=torch.channels_last)
        args = (x, torch.randn(channels), torch.randn(channels))
        graph = bench.graph(function, *args)
        *_, (_, unit) = bench.techniques(graph, largest(bench, graph))
        bench.check(unit, graph, args)


def test_batch_norm_of_a_channels_last_batch_in_training(bench: Any) -> None:
    x = torch.randn(4, 6, 5, 7).to(memory_format=torch.channels_last) * 2 + 3
    args = (x, torch.randn(6), torch.randn(6))
    graph = bench.graph(lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, training=True)), *args)
    for _, unit in bench.techniques(graph, largest(bench, graph)):
        bench.check(unit, graph, args)


def test_a_shuffle_after_batch_norm_is_right_in_every_plan(bench: Any) -> None:
    """Statistics of channels must not be taken for a row that broadcasts, by whichever family writes the copy."""
    args = (torch.randn(4, 16, 12, 12), torch.randn(16), torch.rand(16) + 0.5)

    def shuffled(x: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = F.batch_norm(x, m, v).view(x.shape[0], 4, -1, *x.shape[2:])
        return F.relu6(y.transpose(1, 2).reshape(x.shape))

    graph = bench.graph(shuffled, *args)
    for region in {r.id: r for plan in plans(graph, bench.facts) for r in plan}.values():
        _, unit = next(iter(bench.techniques(graph, region)))
        bench.check(unit, graph, args)


def test_infinities_and_nan_stay_within_their_group(bench: Any) -> None:
    args = tuple(torch.randn(s) for s in ((2, 8, 30), (8,), (8,)))
    args[0][0, 1, 3], args[0][1, 7, 5], args[0][1, 2, 2] = float("inf"), float("nan"), 1e-40
    graph = bench.graph(lambda x, w, b: F.group_norm(x, 4, w, b), *args)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, args)


def test_a_constant_that_another_variant_changes_is_refused_by_the_compiler(bench: Any) -> None:
    """Eight groups of two are not what the source was written for: it says so instead of computing nonsense."""
    x = torch.randn(2, 12, 5)
    graph = bench.graph(lambda x: F.group_norm(x * 2, 4), x)
    _, unit = next(iter(bench.techniques(graph, bench.whole(graph))))
    other = bench.graph(lambda x: F.group_norm(x * 2, 3), torch.randn(2, 9, 5))
    build = bench.target.build(unit, other, "ragged")
    assert not build.ok
    assert {d.kind for d in build.diagnostics} == {"requires"}


def test_indices_are_not_counted_across_permuted_dimensions(bench: Any) -> None:
    x = torch.randn(6, 7)
    graph = bench.graph(lambda x: (x + 1).t().argmax(), x)
    for plan in plans(graph, bench.facts):
        for region in plan:
            ops = {graph.by_name[n].op.split(".")[1] for n in region.nodes}
            assert not {"add", "argmax"} <= ops


@given(data=st.data())
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_group_norm_at_random_shapes(bench: Any, data: st.DataObject) -> None:
    groups, width = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    rest = tuple(data.draw(st.lists(st.sampled_from([1, 2, 7, 33]), min_size=0, max_size=3)))
    shape = (data.draw(st.integers(1, 3)), groups * width, *rest)
    if width * torch.Size(rest).numel() == 1:
        return  # a deviation of one element: all of it is rounding
    x, w = torch.randn(shape), torch.randn(shape[1])
    graph = bench.graph(lambda x, w: F.group_norm(x, groups, w).relu(), x, w)
    techniques = list(bench.techniques(graph, bench.whole(graph)))
    _, unit = techniques[data.draw(st.integers(0, len(techniques) - 1))]
    bench.check(unit, graph, (x, w))
