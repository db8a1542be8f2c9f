"""Split-KV attention for few queries: emulated on the CPU against float64; with nvcc, that it builds."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_bench import FACTS, CudaBench, DeviceTarget
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith.agents.expert.review import review
from warpsmith.facts import Facts
from warpsmith.kernels.attention.cuda.cuda_attention import CudaAttention
from warpsmith.kernels.attention.schedules.split_kv_schedule import SplitKvMmaSchedule, SplitKvSchedule
from warpsmith.records import Graph, Unit
from warpsmith.runtime.interpreter import run_graph
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget

FMA, MMA = "split-kv", "split-kv-mma"
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


def unit_of(emulated: CudaBench, graph: Graph, values: dict[str, int], name: str = FMA) -> Unit:
    family = CudaAttention()
    node = next(n for n in graph.nodes if family.covers(graph, n))
    region = family.cut(graph, node, (), True)
    assert region is not None
    units = {technique.name: unit for technique, unit in emulated.techniques(graph, region)}
    assert list(units) in ([MMA, FMA], [FMA])
    return with_values(units[name], values)


# Of the kernel on tensor cores: the shared cases of half precision and those of its own paths.
MMA_QUICK: dict[str, Case] = {
    "a cache filled in part, heads in groups": (*QUICK["a cache filled in part, heads in groups"][:2], {"SPLIT": 2, "BLOCK": 64}),
    "sixteen rows, steps of 32 keys": (
        grouped, lambda: (half(1, 12, 1, 64), half(1, 1, 200, 64), half(1, 1, 200, 64)), {"BATCH": 32, "BLOCK": 64, "SPLIT": 1},
    ),
}  # fmt: skip
MMA_REST: dict[str, Case] = {
    **{name: (*case[:2], {}) for name, case in {**QUICK, **REST}.items() if name not in MMA_QUICK and "float32" not in name and "wide warp" not in name},
    "a diagonal, several queries": (*REST["a diagonal, several queries"][:2], {"BATCH": 32, "SPLIT": 2}),
    "an added mask of each query": (*REST["an added mask of each query"][:2], {"SPLIT": 4, "BLOCK": 128}),
    "a mask of each query of sixteen": (
        lambda q, k, v, m: grouped(q, k, v, m > 0), lambda: (brain(2, 6, 3, 40), brain(2, 2, 77, 40), brain(2, 2, 77, 24), brain(2, 6, 3, 77)), {"BATCH": 16, "SPLIT": 2},
    ),
    "an added mask of all queries": (
        grouped, lambda: (half(2, 6, 1, 64), half(2, 2, 90, 64), half(2, 2, 90, 64), half(2, 1, 1, 90)), {"BATCH": 32, "SPLIT": 1},
    ),
    "odd widths": (attention, lambda: (half(2, 3, 21), half(2, 45, 21), half(2, 45, 19)), {"BLOCK": 32}),
    "keys of several windows": (filled, lambda: (brain(1, 2, 1, 32), brain(1, 1, 8300, 32), brain(1, 1, 8300, 32), torch.tensor([8250])), {"SPLIT": 1, "BLOCK": 256}),
    "scores below zero": (lambda q, k, v: attention(q, k, v, scale=-2.0), lambda: (half(2, 1, 96), half(2, 40, 96), half(2, 40, 96)), {"BATCH": 32}),
}  # fmt: skip


@pytest.mark.parametrize("name", MMA_QUICK)
def test_few_queries_are_right_on_tensor_cores(emulated: CudaBench, name: str) -> None:
    function, make, values = MMA_QUICK[name]
    graph, args = emulated.case(function, make)
    emulated.check(unit_of(emulated, graph, values, MMA), graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", MMA_REST)
def test_every_few_queries_are_right_on_tensor_cores(emulated: CudaBench, name: str) -> None:
    function, make, values = MMA_REST[name]
    graph, args = emulated.case(function, make)
    emulated.check(unit_of(emulated, graph, values, MMA), graph, args)


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


@pytest.mark.parametrize("name", [FMA, MMA])
def test_a_query_that_sees_no_key_is_as_the_library_has_it(emulated: CudaBench, name: str) -> None:
    function, make, values = QUICK["a cache filled in part, heads in groups"]
    graph, args = emulated.case(function, make)
    args[3][1] = 0
    emulated.check(unit_of(emulated, graph, values, name), graph, args)


@pytest.mark.parametrize("name", [FMA, MMA])
@pytest.mark.parametrize("split", [1, 2])
def test_huge_scores_stay_finite(contracting: CudaBench, split: int, name: str) -> None:
    """Where products and sums are fused, too."""
    graph, args = contracting.case(
        grouped, lambda: tuple(1e17 * brain(1, h, n, 72) for h, n in ((4, 1), (2, 90), (2, 90)))
    )
    contracting.check(unit_of(contracting, graph, {"SPLIT": split, "BLOCK": 64}, name), graph, args)


@pytest.mark.parametrize("name", [FMA, MMA])
def test_what_is_hidden_from_all_queries_is_not_read(emulated: CudaBench, name: str) -> None:
    function, make, values = QUICK["a cache filled in part, heads in groups"]
    graph, args = emulated.case(function, make)
    args[1][1, :, 40:], args[2][1, :, 40:] = torch.nan, torch.nan
    unit = unit_of(emulated, graph, values, name)
    named = {i.name: a for i, a in zip(graph.inputs, args, strict=True)}
    named |= run_graph(graph, named, wanted=set(unit.region.inputs))
    (result,) = emulated.run(unit, graph, named)
    assert torch.isfinite(result).all()


def map_with_a_guard(keys: int, readable: int, width: int) -> torch.Tensor:
    """A cache of one head whose keys from `readable` on end the process that reads them. `readable * width`: of whole pages."""
    memory = mmap.mmap(-1, 2 * keys * width)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    hidden = 2 * readable * width
    cache = torch.frombuffer(memory, dtype=torch.bfloat16).view(1, 1, keys, width)
    cache.copy_(brain(1, 1, keys, width))
    assert protect(ctypes.c_void_p(start + hidden), ctypes.c_size_t(2 * keys * width - hidden), 0) == 0
    return cache


@pytest.mark.skipif(mmap.PAGESIZE != 4096, reason="16 keys are a page")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", [FMA, MMA])
def test_hidden_keys_of_a_step_that_has_others_are_not_touched(emulated: CudaBench, name: str) -> None:
    shapes = brain(1, 4, 1, 128), *(brain(1, 1, 96, 128) for _ in range(2)), torch.tensor([48])
    graph = emulated.graph(filled, *shapes)
    unit = unit_of(emulated, graph, {"BATCH": 32, "BLOCK": 64} if name == MMA else {"BLOCK": 64}, name)
    named = {i.name: a for i, a in zip(graph.inputs, shapes, strict=True)}
    named |= run_graph(graph, named, wanted=set(unit.region.inputs))
    for value in (graph.inputs[1].name, graph.inputs[2].name):
        named[value] = map_with_a_guard(96, 48, 128)
    emulated.library(unit, graph)
    child = os.fork()
    if child == 0:
        try:
            (result,) = emulated.run(unit, graph, named)
            os._exit(0 if torch.isfinite(result).all() else 3)
        finally:
            os._exit(4)
    assert os.waitpid(child, 0)[1] == 0


def test_an_infinite_value_stays_so_beside_hidden_keys(emulated: CudaBench) -> None:
    """In the place of a hidden key its lanes read the first that is seen, whose values a weight of 0 would make NaN."""
    function, make, values = QUICK["a cache filled in part, heads in groups"]
    graph, args = emulated.case(function, make)
    args[2][1, :, 32] = torch.inf  # the first key of a step of which 8 are seen
    unit = unit_of(emulated, graph, values | {"BATCH": 16}, MMA)
    named = {i.name: a for i, a in zip(graph.inputs, args, strict=True)}
    named |= run_graph(graph, named, wanted=set(unit.region.inputs))
    (result,) = emulated.run(unit, graph, named)
    assert torch.isposinf(result[1]).all()
    assert torch.isfinite(result[0]).all()


def test_tensor_cores_are_for_half_precision_of_few_features(emulated: CudaBench) -> None:
    def offers(query: torch.Tensor, keys: torch.Tensor, arch: str = "sm_90a") -> list[str]:
        graph = emulated.graph(grouped, query, keys, keys)
        techniques = CudaAttention().techniques(graph, emulated.whole(graph), replace(FACTS, arch=arch))
        assert sorted(t.us or 0 for t in techniques) == [t.us for t in techniques]
        return [t.name for t in techniques]

    wide, keys = brain(2, 16, 1, 128), brain(2, 8, 2048, 128)
    assert offers(wide, keys) == offers(wide, keys, "sm_80") == [MMA, FMA]
    assert offers(wide, keys, "sm_75") == offers(wide.float(), keys.float()) == [FMA]
    assert offers(brain(2, 16, 1, 256), brain(2, 8, 2048, 256)) == [FMA]


def test_splits_of_tensor_cores_leave_blocks_for_several_rounds() -> None:
    hardware = Facts(threads=2, target="cuda", bandwidth=3e12, flop_rate=5e13).hardware
    assert SplitKvMmaSchedule.choose(hardware, 256, 4096).split == 8
    assert SplitKvMmaSchedule.choose(hardware, 8, 32768).split == 64
    assert SplitKvMmaSchedule.choose(hardware, 2048, 4096).split == 1
    assert SplitKvMmaSchedule.choose(hardware, 8, 300).split == 1


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("heads", "groups", "width"), [(32, 8, 128), (16, 1, 128), (16, 1, 64), (8, 8, 64), (6, 2, 72)]
)
def test_tensor_core_kernels_build_without_spills_at_every_value(
    emulated: CudaBench, toolkit: None, builds: Path, heads: int, groups: int, width: int
) -> None:
    keys = torch.empty(2, groups, 2048, width, dtype=torch.bfloat16)
    query, lengths = torch.empty(2, heads, 1, width, dtype=torch.bfloat16), torch.empty(2, dtype=torch.int64)
    graph = emulated.graph(filled, query, keys, keys, lengths)
    unit = unit_of(emulated, graph, {}, MMA)
    assert review(unit) == []
    largest = {t.name: max(t.domain) for t in unit.tunables if t.name != "SPLIT"}
    for values in ({}, largest, {"SPLIT": 1}):
        build = DeviceTarget(builds / "cuda", arch="sm_90a").build(with_values(unit, values), graph, "main")
        assert build.ok, build.diagnostics
        assert not build.diagnostics
        assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels
        # Three blocks of four warps keep 8 KiB a warp under way on a multiprocessor.
        if heads // groups <= 8 and not values:
            assert all(k.registers <= 168 for k in build.kernels), build.kernels
