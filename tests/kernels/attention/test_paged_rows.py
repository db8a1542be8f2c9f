"""Attention of few queries over a cache in pages: what collects the pages is part of the kernel, which looks rows up in the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from cuda_bench import CudaBench, DeviceTarget
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith.kernels.attention.cuda.cuda_attention import CudaAttention
from warpsmith.kernels.attention.paged_rows import find_paged_rows
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import with_values

Paged = Callable[..., torch.Tensor]


def collected(pool: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    pages = pool.index_select(0, table.flatten()).unflatten(0, table.shape)
    return pages.flatten(1, 2).transpose(1, 2)


def indexed(pool: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return pool[table].flatten(1, 2).transpose(1, 2)


def over_pages(collect: Paged) -> Paged:
    def function(
        q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        key, value = collect(keys, table), collect(values, table)
        seen = torch.arange(key.shape[2]) < lengths[:, None, None, None]
        return attention(q, key, value, attn_mask=seen, enable_gqa=True)

    return function


def inputs(
    sequences: int = 3, heads: int = 6, groups: int = 3, pages: int = 29, each: int = 5, depth: int = 72
) -> tuple[torch.Tensor, ...]:
    pools = (torch.randn(pages, 16, groups, depth).bfloat16() for _ in range(2))
    lengths = torch.randint(1, each * 16 + 1, (sequences,))
    return (
        torch.randn(sequences, heads, 1, depth).bfloat16(), *pools, torch.randint(0, pages, (sequences, each)), lengths,
    )  # fmt: skip


def unit_of(emulated: CudaBench, graph: Graph) -> Unit:
    family = CudaAttention()
    node = next(n for n in graph.nodes if family.covers(graph, n))
    region = family.cut(graph, node, (), True)
    assert region is not None
    assert any("index" in n for n in region.nodes)
    ((technique, unit),) = emulated.techniques(graph, region)
    assert technique.name == "split-kv-mma"
    return unit


@pytest.mark.parametrize("values", [{}, {"SPLIT": 1, "BLOCK": 64}, {"SPLIT": 2, "BATCH": 32}])
@pytest.mark.parametrize("collect", [collected, indexed])
def test_attention_over_pages_is_right(emulated: CudaBench, collect: Paged, values: dict[str, int]) -> None:
    args = inputs()
    graph = emulated.graph(over_pages(collect), *args)
    emulated.check(with_values(unit_of(emulated, graph), values), graph, args)


def test_one_unit_is_right_at_other_shapes(emulated: CudaBench) -> None:
    function = over_pages(collected)
    unit = unit_of(emulated, emulated.graph(function, *inputs()))
    for sizes in ((2, 4, 2, 12, 4, 32), (1, 8, 1, 40, 33, 128)):
        args = inputs(*sizes)
        emulated.check(unit, emulated.graph(function, *args), args)


def test_entries_that_count_from_the_end_are_those_pages(emulated: CudaBench) -> None:
    q, keys, values, table, lengths = inputs()
    args = (q, keys, values, table - 29, lengths)
    graph = emulated.graph(over_pages(indexed), *args)
    emulated.check(unit_of(emulated, graph), graph, args)


def test_no_entry_leads_outside_the_pool(emulated: CudaBench) -> None:
    """torch raises; a unit reads its operands alone, whatever a table holds."""
    q, keys, values, table, lengths = inputs()
    graph = emulated.graph(over_pages(collected), q, keys, values, table, lengths)
    unit = unit_of(emulated, graph)
    wild, tame = table.clone(), table.clone()
    wild[:, 1], tame[:, 1] = 1 << 50, 0
    made = [
        emulated.run(unit, graph, name_operands(graph, unit, (q, keys, values, entries, lengths)))
        for entries in (wild, tame)
    ]
    assert torch.equal(made[0][0], made[1][0])


def name_operands(graph: Graph, unit: Unit, args: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
    """The inputs of the unit's region: its table is the flattened one, its mask what the lengths say."""
    values = {item.name: value for item, value in zip(graph.inputs, args, strict=True)}
    *_, table, lengths = args
    seen = torch.arange(table.shape[1] * 16) < lengths[:, None, None, None]
    for name in set(unit.region.inputs) - set(values):
        values[name] = seen if graph.specs[name].dtype == "bool" else table.flatten()
    return values


@pytest.mark.parametrize(
    ("collect", "reason"),
    [
        (lambda pool, table: pool[table].flatten(1, 2).transpose(1, 2) * 2, "they are scaled"),
        (lambda pool, table: pool.transpose(1, 2)[table].transpose(1, 2).flatten(2, 3), "they are copied once more"),
        (lambda pool, table: pool[table[:, ::2]].flatten(1, 2).transpose(1, 2), "the table has gaps"),
    ],
)  # fmt: skip
def test_other_pages_are_left_to_the_library(emulated: CudaBench, collect: Paged, reason: str) -> None:
    graph = emulated.graph(over_pages(collect), *inputs(each=6))
    node = next(n for n in graph.nodes if "scaled_dot_product" in n.op)
    assert find_paged_rows(graph, node.uses[1]) is None, reason


def test_pages_that_others_read_are_collected_for_them(emulated: CudaBench) -> None:
    def function(
        q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        key, value = collected(keys, table), collected(values, table)
        return attention(q, key, value, enable_gqa=True), key.sum(2)

    graph = emulated.graph(function, *inputs())
    node = next(n for n in graph.nodes if "scaled_dot_product" in n.op)
    assert find_paged_rows(graph, node.uses[1]) is None
    assert find_paged_rows(graph, node.uses[2]) is not None
    region = CudaAttention().cut(graph, node, (), True)
    assert region is not None
    assert node.uses[1] in region.inputs
    assert node.uses[2] not in region.inputs


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_it_builds_without_spills(emulated: CudaBench, toolkit: None, builds: Path, arch: str) -> None:
    graph = emulated.graph(over_pages(collected), *inputs(4, 32, 8, 64, 16, 128))
    build = DeviceTarget(builds / "cuda", arch=arch).build(unit_of(emulated, graph), graph, "main")
    assert build.ok, build.diagnostics
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels
