"""Split-KV attention for few queries: emulated on the CPU against float64; with nvcc, that it builds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_bench import CudaBench
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith.agents.expert.review import review
from warpsmith.facts import Facts
from warpsmith.kernels.attention.cuda.cuda_attention import CudaAttention
from warpsmith.kernels.attention.schedules.split_kv_schedule import SplitKvSchedule
from warpsmith.records import Graph, Unit
from warpsmith.runtime.interpreter import run_graph
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget

Case = tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]], dict[str, int]]


def half(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).half()


def brain(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).bfloat16()


def grouped(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None, **more: Any
) -> torch.Tensor:
    return attention(q, k, v, attn_mask=mask, enable_gqa=True, **more)


def filled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return grouped(q, k, v, torch.arange(k.shape[2]) < lengths[:, None, None, None])


QUICK: dict[str, Case] = {
    "a cache filled in part, heads in groups": (
        filled, lambda: (brain(2, 6, 1, 72), brain(2, 3, 117, 72), brain(2, 3, 117, 72), torch.tensor([117, 40])), {"SPLIT": 2, "BLOCK": 64},
    ),
    "one split, wide heads": (grouped, lambda: (half(1, 8, 1, 128), half(1, 2, 70, 128), half(1, 2, 70, 128)), {"BLOCK": 64}),
}  # fmt: skip
REST: dict[str, Case] = {
    "a diagonal, several queries": (
        lambda q, k, v: attention(q, k, v, is_causal=True), lambda: (half(1, 2, 5, 64), half(1, 2, 33, 64), half(1, 2, 33, 64)), {"BATCH": 8},
    ),
    "an added mask of each query": (
        lambda q, k, v, m: attention(q, k, v, attn_mask=m, scale=0.3),
        lambda: (brain(2, 2, 3, 32), brain(2, 2, 50, 32), brain(2, 2, 50, 40), brain(1, 2, 3, 50)), {"SPLIT": 4, "BLOCK": 128},
    ),
    "float32, no heads, odd widths": (attention, lambda: (torch.randn(3, 21), torch.randn(45, 21), torch.randn(45, 19)), {"BATCH": 2}),
    "a cache that lies by position": (
        lambda q, k, v: attention(q, k.transpose(1, 2), v.transpose(1, 2)),
        lambda: (half(2, 3, 1, 64), half(2, 80, 3, 64), half(2, 80, 3, 64)), {"SPLIT": 2},
    ),
    "more rows than a block": (grouped, lambda: (half(1, 12, 1, 64), half(1, 1, 64, 64), half(1, 1, 64, 64)), {"SPLIT": 2, "BLOCK": 64}),
    "scores below zero, a wide warp": (
        lambda q, k, v: attention(q, k, v, scale=-2.0), lambda: (half(2, 1, 256), half(2, 40, 256), half(2, 40, 256)), {"BLOCK": 256},
    ),
}  # fmt: skip
EVERY = {**QUICK, **REST}


def unit_of(emulated: CudaBench, graph: Graph, values: dict[str, int]) -> Unit:
    family = CudaAttention()
    node = next(n for n in graph.nodes if family.covers(graph, n))
    region = family.cut(graph, node, (), True)
    assert region is not None
    ((technique, unit),) = emulated.techniques(graph, region)
    assert technique.name == "split-kv"
    return with_values(unit, values)


@pytest.mark.parametrize("name", QUICK)
def test_few_queries_are_right(emulated: CudaBench, name: str) -> None:
    function, make, values = QUICK[name]
    graph, args = emulated.case(function, make)
    emulated.check(unit_of(emulated, graph, values), graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_every_few_queries_are_right(emulated: CudaBench, name: str) -> None:
    function, make, values = REST[name]
    graph, args = emulated.case(function, make)
    emulated.check(unit_of(emulated, graph, values), graph, args)


def test_a_query_that_sees_no_key_is_as_the_library_has_it(emulated: CudaBench) -> None:
    function, make, values = QUICK["a cache filled in part, heads in groups"]
    graph, args = emulated.case(function, make)
    args[3][1] = 0
    emulated.check(unit_of(emulated, graph, values), graph, args)


def test_what_is_hidden_from_all_queries_is_not_read(emulated: CudaBench) -> None:
    function, make, values = QUICK["a cache filled in part, heads in groups"]
    graph, args = emulated.case(function, make)
    args[1][1, :, 40:], args[2][1, :, 40:] = torch.nan, torch.nan
    unit = unit_of(emulated, graph, values)
    named = {i.name: a for i, a in zip(graph.inputs, args, strict=True)}
    named |= run_graph(graph, named, wanted=set(unit.region.inputs))
    (result,) = emulated.run(unit, graph, named)
    assert torch.isfinite(result).all()


def test_splits_fill_the_device_and_have_keys_enough() -> None:
    hardware = Facts(threads=2, target="cuda", bandwidth=3e12, flop_rate=5e13).hardware
    assert SplitKvSchedule.choose(hardware, 256, 4096, 4).split == 2
    assert SplitKvSchedule.choose(hardware, 8, 32768, 4).split == 64
    assert SplitKvSchedule.choose(hardware, 8, 300, 4).split == 1


@pytest.mark.slow
def test_split_kv_builds_without_spills(emulated: CudaBench, toolkit: None, builds: Path) -> None:
    for heads, groups, width in ((32, 8, 128), (8, 1, 256), (16, 8, 128)):
        keys = torch.empty(2, groups, 2048, width, dtype=torch.bfloat16)
        graph = emulated.graph(grouped, torch.empty(2, heads, 1, width, dtype=torch.bfloat16), keys, keys)
        unit = unit_of(emulated, graph, {})
        assert review(unit) == []
        build = CudaTarget(builds / "cuda", arch="sm_90a").build(unit, graph, "main")
        assert build.ok, build.diagnostics
        assert not build.diagnostics
        assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels
