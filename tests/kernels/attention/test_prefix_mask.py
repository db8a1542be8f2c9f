"""Masks of lengths: a kernel of few queries compares with the length itself, and needs no mask."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from cuda_bench import CudaBench
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith.kernels.attention.cuda.cuda_attention import CudaAttention
from warpsmith.kernels.attention.prefix_mask import find_prefix_mask
from warpsmith.records import Graph, Unit

KEYS = 70
Masked = Callable[[torch.Tensor], torch.Tensor]
MASKS: dict[str, tuple[Masked, torch.Tensor]] = {
    "lengths of sequences": (lambda n: torch.arange(KEYS) < n[:, None, None, None], torch.tensor([70, 1, 33])),
    "the other way round": (lambda n: n[:, None, None, None] > torch.arange(KEYS), torch.tensor([70, 1, 33])),
    "up to and with a position": (lambda n: (torch.arange(KEYS) <= n)[None], torch.tensor([41])),
    "a position of each sequence": (
        lambda n: n[:, None, None, None] >= torch.arange(KEYS), torch.tensor([0, 69, 9], dtype=torch.int32),
    ),
    "lengths of heads": (lambda n: torch.arange(KEYS) < n[None, :, None, None], torch.tensor([5, 70, 33, 1, 2, 3])),
    "lengths of queries": (lambda n: torch.arange(KEYS) < n[..., None], torch.randint(1, KEYS, (3, 1, 2))),
    "a length that has all dimensions": (lambda n: torch.arange(KEYS) < n, torch.randint(1, KEYS, (3, 6, 2, 1))),
}  # fmt: skip


def graph_of(bench: CudaBench, name: str) -> tuple[Graph, tuple[torch.Tensor, ...]]:
    mask, lengths = MASKS[name]
    rows = 2 if "quer" in name or "all dim" in name else 1
    query = torch.randn(3, 6, rows, 64).bfloat16()
    keys, values = (torch.randn(3, 3, KEYS, 64).bfloat16() for _ in range(2))

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return attention(q, k, v, attn_mask=mask(n), enable_gqa=True)

    args = (query, keys, values, lengths)
    return bench.graph(function, *args), args


def units_of(bench: CudaBench, graph: Graph) -> list[Unit]:
    family = CudaAttention()
    node = next(n for n in graph.nodes if family.covers(graph, n))
    region = family.cut(graph, node, (), True)
    assert region is not None
    assert len(region.nodes) == len(graph.nodes)
    return [unit for _, unit in bench.techniques(graph, region)]


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_of_lengths_is_part_of_the_kernel(emulated: CudaBench, name: str) -> None:
    graph, args = graph_of(emulated, name)
    units = units_of(emulated, graph)
    assert len(units) == 2
    for unit in units:
        assert len(unit.region.inputs) == 4
        emulated.check(unit, graph, args)


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (lambda n: torch.arange(KEYS) > n[:, None, None, None], "the last keys are seen"),
        (lambda n: torch.arange(1, KEYS + 1) < n[:, None, None, None], "it counts from one"),
        (lambda n: torch.arange(0, 2 * KEYS, 2) < n[:, None, None, None], "it counts by two"),
        (lambda n: torch.arange(KEYS).float() < n[:, None, None, None], "it counts in floats"),
        (lambda n: torch.arange(KEYS)[:, None] < n[:, None, None, None], "the lengths are of queries"),
    ],
)  # fmt: skip
def test_other_masks_are_operands(emulated: CudaBench, mask: Masked, reason: str) -> None:
    q, k = torch.randn(3, 6, 1, 64).bfloat16(), torch.randn(3, 6, KEYS, 64).bfloat16()
    q = q.expand(3, 6, KEYS if "queries" in reason else 1, 64).contiguous()
    graph = emulated.graph(
        lambda q, k, v, n: attention(q, k, v, attn_mask=mask(n)), q, k, k, torch.tensor([70, 1, 33])
    )
    node = next(n for n in graph.nodes if "scaled_dot_product" in n.op)
    assert find_prefix_mask(graph, node.args[3]["v"]) is None, reason


def test_a_mask_that_others_read_is_an_operand(emulated: CudaBench) -> None:
    mask, lengths = MASKS["lengths of sequences"]

    def function(q: torch.Tensor, k: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen = mask(n)
        return attention(q, k, k, attn_mask=seen), seen.sum()

    graph = emulated.graph(
        function, torch.randn(3, 6, 1, 64).bfloat16(), torch.randn(3, 6, KEYS, 64).bfloat16(), lengths
    )
    node = next(n for n in graph.nodes if "scaled_dot_product" in n.op)
    assert find_prefix_mask(graph, node.args[3]["v"]) is None
