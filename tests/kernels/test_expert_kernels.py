"""Every family and technique, compiled for real and compared with float64 at main and at awkward shapes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from warpsmith.agents.expert.planner import plans
from warpsmith.tasks.export import export_program, program_graph

Case = tuple[Callable[..., object], tuple[tuple[int, ...], ...], tuple[tuple[tuple[int, ...], ...], ...]]


def rms(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def pre_and_post(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.layer_norm(x + r, (x.shape[-1],), w, b)) + r


# name → (function, main shapes, other shapes that the same source must be right at)
CASES: dict[str, Case] = {
    "softmax_last": (lambda x: torch.softmax(x * 3, -1), ((33, 200),), (((3, 9001),), ((0, 7),))),
    "softmax_middle": (lambda x: torch.softmax(x, 1), ((4, 50, 100),), (((2, 67, 1101),),)),
    "log_softmax_scaled": (lambda x, b: F.log_softmax(x / 2 + b, -1), ((20, 130), (130,)), (((3, 1), (1,)),)),
    "logsumexp_first": (lambda x: torch.logsumexp(x, 0), ((64, 90),), (((300, 33),),)),
    "layer_norm_fused": (pre_and_post, ((24, 96), (24, 96), (96,), (96,)), (((3, 4099), (3, 4099), (4099,),
    (4099,)),)),
    "rms_norm": (rms, ((30, 128), (128,)), (((1, 3), (3,)),)),
    "var_middle": (lambda x: torch.var(x, 1), ((4, 70, 64),), (((1, 513, 40),),)),
    "sum_all": (lambda x: (x * x).sum(), ((300, 301),), (((0, 4),), ((1, 1),))),
    "mean_first_max": (lambda x: (x.mean(0), x.amax(0)), ((80, 100),), (((257, 19),),)),
    "argmax_last": (lambda x: torch.argmax(x, -1), ((40, 150),), (((2, 4100),),)),
    "argmin_middle": (lambda x: torch.argmin(x, 1), ((3, 40, 50),), (((1, 1, 1),),)),
    "norm_divide": (lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-6), ((31, 140),), (((1, 2),),)),
    "batch_statistics": (lambda x: x.mean((0, 2), keepdim=True) * x, ((6, 5, 90),), (((3, 2, 17),),)),
    "chain_broadcast": (lambda x, b, c: torch.tanh(x + b) * c, ((8, 40, 50), (50,), (8, 40, 1)), (((3, 7,
    1), (1,), (3, 7, 1)),)),
    "batch_norm": (
        lambda x, m, v, w, b: F.relu(F.batch_norm(x, m, v * v + 0.1, w, b)),
        ((4, 6, 50), (6,), (6,), (6,), (6,)), (((2, 1, 3), (1,), (1,), (1,), (1,)),),
    ),
    "permuted_input": (lambda x, y: F.silu(x.transpose(0, 1)) + y, ((60, 40), (40, 60)), (((3, 5), (5, 3)),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_technique_is_accurate_at_all_shapes(bench: Any, name: str) -> None:
    function, main, others = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    graph = bench.graph(function, *args)
    region = bench.whole(graph)
    written = list(bench.techniques(graph, region))
    assert written
    for _, unit in written:
        bench.check(unit, graph, args)
    first = written[len(name) % len(written)][1]  # over the cases, every technique meets ragged shapes
    for shapes in others:
        ragged = tuple(torch.randn(s) for s in shapes)
        bench.check(first, bench.graph(function, *ragged), ragged)


@pytest.mark.parametrize("name", ["softmax_last", "logsumexp_first", "argmax_last", "mean_first_max"])
def test_nan_and_infinity_spread_as_in_torch(bench: Any, name: str) -> None:
    function, main, _ = CASES[name]
    args = tuple(torch.randn(s) for s in main)
    args[0][1, 3], args[0][2, 5], args[0][4, :] = float("nan"), -float("inf"), -float("inf")
    graph = bench.graph(function, *args)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, args)


@pytest.mark.parametrize("function", [lambda x: torch.var(x, 0), lambda x: torch.var(x, 1)])
def test_moments_survive_a_mean_far_above_the_deviation(bench: Any, function: Callable[..., object]) -> None:
    x = torch.randn(40, 4000) + 1000
    graph = bench.graph(function, x)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x,))


def test_long_sums_keep_float32_accuracy(bench: Any) -> None:
    x = torch.rand(2, 1_000_003)
    graph = bench.graph(lambda x: x.sum(-1), x)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x,), ulp=1.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_computes_in_float32(bench: Any, dtype: torch.dtype) -> None:
    x, w = torch.randn(9, 77).to(dtype), torch.randn(77).to(dtype)
    graph = bench.graph(lambda x, w: torch.softmax(x, -1) * w, x, w)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x, w), ulp=1.0)


def test_masks_in_and_out(bench: Any) -> None:
    x, m = torch.randn(7, 53), torch.rand(7, 53) > 0.5
    graph = bench.graph(lambda x, m: (torch.where(m, x, -1.0) > 0.25, (x > 1).any(-1)), x, m)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x, m))


def test_batch_norm_in_training_moves_its_running_statistics(bench: Any) -> None:
    module = torch.nn.Sequential(torch.nn.BatchNorm2d(5, momentum=0.3), torch.nn.GELU()).train()
    x = torch.randn(4, 5, 7, 9) * 3 + 2
    graph = program_graph(export_program(module, (x,), {}, "test.py"), "test.py")
    state = dict(module.named_parameters()) | dict(module.named_buffers())
    args = tuple((x if i.role == "input" else state[i.target]).detach().clone() for i in graph.inputs)
    region = next(r for r in plans(graph, bench.facts)[0] if len(r.outputs) == 3)
    for _, unit in bench.techniques(graph, region):
        bench.check(unit, graph, args)


def test_instance_norm_is_written_between_its_views(bench: Any) -> None:
    x = torch.randn(3, 4, 7, 9)
    graph = bench.graph(lambda x: F.instance_norm(x), x)
    (region,) = plans(graph, bench.facts)[0]
    for _, unit in bench.techniques(graph, region):
        bench.check(unit, graph, (x,))


def test_two_calls_give_the_same_bits(bench: Any) -> None:
    x = torch.randn(2, 300_001)
    graph = bench.graph(lambda x: torch.softmax(x, -1), x)
    for _, unit in bench.techniques(graph, bench.whole(graph)):
        first, second = (bench.run(unit, graph, {graph.inputs[0].name: x}) for _ in range(2))
        assert torch.equal(first[0], second[0])


def test_every_tunable_changes_the_code_and_not_the_result(bench: Any) -> None:
    x = torch.randn(17, 300)
    graph = bench.graph(lambda x: torch.softmax(x, -1), x)
    technique, unit = next(iter(bench.techniques(graph, bench.whole(graph))))
    code = (
        unit.source.split("static void unit", 1)[0].split("#endif\n")[-1]
        + unit.source.split("static void unit", 1)[1]
    )
    for tunable in technique.tunables:
        assert re.search(rf"\b{tunable.name}\b", code)
    last = tuple(t.model_copy(update={"value": t.domain[-1]}) for t in unit.tunables)
    bench.check(unit.model_copy(update={"tunables": last}), graph, (x,))
