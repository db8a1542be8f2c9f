"""Attention of few queries over a cache in 8 bits with a scale for each row: it is read as it is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from cuda_bench import CudaBench, DeviceTarget
from test_joined_rows import unit_of as unit_over_rows
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith.kernels.attention.cuda.cuda_attention import CudaAttention
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import with_values

Step = Callable[..., torch.Tensor]


def step(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    key_scale: torch.Tensor,
    value_scale: torch.Tensor,
) -> torch.Tensor:
    key, value = keys.to(q.dtype) * key_scale, value_scale * values.to(q.dtype)
    return attention(q, key, value, enable_gqa=True)


def inputs(
    dtype: torch.dtype = torch.bfloat16, stored: torch.dtype = torch.int8,
    sequences: int = 2, heads: int = 6, groups: int = 3, keys: int = 70, depth: int = 72,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    def cache() -> torch.Tensor:
        shape = (sequences, groups, keys, depth)
        return (
            torch.randint(-127, 128, shape, dtype=torch.int8)
            if stored is torch.int8
            else torch.randn(shape).to(stored)
        )

    scales = (torch.rand(sequences, groups, keys, 1).to(dtype) / 16 for _ in range(2))
    return (torch.randn(sequences, heads, 1, depth).to(dtype), cache(), cache(), *scales)


def unit_of(emulated: CudaBench, graph: Graph) -> Unit:
    return unit_over_rows(emulated, graph, 5)


@pytest.mark.parametrize("values", [{}, {"SPLIT": 1, "BLOCK": 64}, {"SPLIT": 4, "BATCH": 32}])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_attention_over_int8_is_right(
    emulated: CudaBench, dtype: torch.dtype, values: dict[str, int]
) -> None:
    args = inputs(dtype)
    graph = emulated.graph(step, *args)
    emulated.check(with_values(unit_of(emulated, graph), values), graph, args)


def test_attention_over_fp8_is_right(emulated: CudaBench) -> None:
    args = inputs(stored=torch.float8_e4m3fn)
    graph = emulated.graph(step, *args)
    emulated.check(unit_of(emulated, graph), graph, args)


def test_one_unit_is_right_at_other_shapes(emulated: CudaBench) -> None:
    unit = unit_of(emulated, emulated.graph(step, *inputs()))
    for sizes in ((1, 4, 1, 16, 128), (3, 2, 2, 129, 32), (1, 2, 1, 40, 44)):
        args = inputs(torch.bfloat16, torch.int8, *sizes)
        emulated.check(unit, emulated.graph(step, *args), args)


def test_scales_of_a_head_and_hidden_keys(emulated: CudaBench) -> None:
    def masked(
        q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        return attention(q, keys.to(q.dtype) * scale, values.to(q.dtype) * scale, attn_mask=mask)

    q, keys, values, *_ = inputs(heads=3)
    scale = torch.rand(1, 3, 1, 1).bfloat16() / 16
    mask = torch.rand(2, 1, 1, 70) > 0.5
    args = (q, keys, values, scale, mask)
    graph = emulated.graph(masked, *args)
    emulated.check(unit_of(emulated, graph), graph, args)


OTHERS: dict[str, Step] = {
    "a scale of a feature": lambda q, k, v, s, t: attention(q, k.to(q.dtype) * q[:, :1], v.to(q.dtype) * t, enable_gqa=True),
    "scaled in float32": lambda q, k, v, s, t: attention(q, (k.float() * s.float()).to(q.dtype), v.to(q.dtype) * t, enable_gqa=True),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_scales_are_left_to_other_kernels(emulated: CudaBench, name: str) -> None:
    args = inputs()
    graph = emulated.graph(OTHERS[name], *args)
    node = next(n for n in graph.nodes if "scaled_dot_product" in n.op)
    region = CudaAttention().cut(graph, node, (), True)
    assert region is not None
    assert node.args[1]["v"] in region.inputs


@pytest.mark.slow
@pytest.mark.parametrize("stored", [torch.int8, torch.float8_e4m3fn])
def test_it_builds_without_spills(
    emulated: CudaBench, toolkit: None, builds: Path, stored: torch.dtype
) -> None:
    graph = emulated.graph(step, *inputs(torch.bfloat16, stored, 4, 32, 32, 1024, 128))
    build = DeviceTarget(builds / "cuda", arch="sm_90a").build(unit_of(emulated, graph), graph, "main")
    assert build.ok, build.diagnostics
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels
