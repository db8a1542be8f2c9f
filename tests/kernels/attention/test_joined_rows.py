"""Attention of few queries over a cache and what a step adds to it: no copy of the cache is made."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cuda_bench import CudaBench, DeviceTarget
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith.kernels.attention.cuda.cuda_attention import CudaAttention
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import with_values


def step(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> torch.Tensor:
    return attention(q, torch.cat([keys, key], 2), torch.cat([values, value], -2), enable_gqa=True)


def inputs(
    sequences: int = 2, heads: int = 6, groups: int = 3, cached: int = 70, added: int = 1, depth: int = 72
) -> tuple[torch.Tensor, ...]:
    caches = (torch.randn(sequences, groups, cached, depth).bfloat16() for _ in range(2))
    new = (torch.randn(sequences, added, groups, depth).bfloat16().transpose(1, 2) for _ in range(2))
    return (torch.randn(sequences, heads, 1, depth).bfloat16(), *caches, *new)


def unit_of(emulated: CudaBench, graph: Graph, count: int = 3) -> Unit:
    """The unit of an attention that takes in what makes its rows, so many nodes in all."""
    family = CudaAttention()
    node = next(n for n in graph.nodes if family.covers(graph, n))
    region = family.cut(graph, node, (), True)
    assert region is not None
    assert len(region.nodes) == count
    ((technique, unit),) = emulated.techniques(graph, region)
    assert technique.name == "split-kv-mma"
    return unit


@pytest.mark.parametrize("values", [{}, {"SPLIT": 1, "BLOCK": 64}, {"SPLIT": 4, "BATCH": 32}])
@pytest.mark.parametrize("added", [1, 20])
def test_attention_over_both_parts_is_right(emulated: CudaBench, added: int, values: dict[str, int]) -> None:
    args = inputs(added=added)
    graph = emulated.graph(step, *args)
    emulated.check(with_values(unit_of(emulated, graph), values), graph, args)


def test_one_unit_is_right_at_other_shapes(emulated: CudaBench) -> None:
    unit = unit_of(emulated, emulated.graph(step, *inputs()))
    for sizes in ((1, 4, 1, 16, 3, 128), (3, 2, 2, 129, 1, 32)):
        args = inputs(*sizes)
        emulated.check(unit, emulated.graph(step, *args), args)


def test_a_cache_that_is_returned_is_an_operand(emulated: CudaBench) -> None:
    """As a cache that grows: the next step reads it, so that it has to be made."""

    def growing(
        q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        return attention(q, keys, values, enable_gqa=True), keys, values

    graph = emulated.graph(growing, *inputs())
    node = next(n for n in graph.nodes if "scaled_dot_product" in n.op)
    region = CudaAttention().cut(graph, node, (), True)
    assert region is not None
    assert region.nodes == (node.name,)


@pytest.mark.slow
def test_it_builds_without_spills(emulated: CudaBench, toolkit: None, builds: Path) -> None:
    graph = emulated.graph(step, *inputs(4, 32, 8, 1024, 1, 64))
    build = DeviceTarget(builds / "cuda", arch="sm_90a").build(unit_of(emulated, graph), graph, "main")
    assert build.ok, build.diagnostics
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels
