"""Attention: the library's node and hand-written products, with masks, at main and at awkward shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsmith.agents.expert.planner import plans
from warpsmith.facts import Facts
from warpsmith.kernels.registry import families_of
from warpsmith.records import Graph, Region

Make = Callable[..., tuple[torch.Tensor, ...]]


def heads(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """Queries, keys and values as views of (B, T, H, D) tensors, as a projection yields them."""
    b, h, t, d = shape
    return tuple(torch.randn(b, t, h, d).to(dtype).transpose(1, 2) for _ in range(3))


def library(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(32), -1) @ v


def tril_masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1) * 0.2
    keep = torch.tril(torch.ones(scores.shape[-2:], dtype=torch.bool))
    y = torch.softmax(scores.masked_fill(~keep, float("-inf")), -1) @ v
    return y.transpose(1, 2).contiguous().view(y.shape[0], y.shape[2], -1)


def triu_added(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    mask = torch.triu(torch.full((q.shape[2], k.shape[2]), float("-inf")), diagonal=1)
    return torch.softmax(q @ k.transpose(-2, -1) * 0.2 + mask, -1) @ v


def finite_fill(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    keep = torch.tril(torch.ones(q.shape[2], k.shape[2]))
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(keep == 0, -1.0e4), -1) @ v


def counted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    scores = torch.where(columns <= rows + 2, q @ k.transpose(-2, -1), float("-inf"))
    return torch.softmax(scores, -1) @ v


def biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.tanh(q @ k.transpose(-2, -1) / 6) * 6 + bias, -1) @ v


def scaled_rows(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-2, -1) * scale + bias, -1) @ v


def relu_weights(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (F.relu(q @ k.transpose(-2, -1)) / 70) @ v


def batched(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    b, h, t, _ = q.shape
    q, k, v = (x.reshape(b * h, x.shape[2], x.shape[3]) for x in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)).view(b, h, t, -1) * 0.25 + mask
    return torch.bmm(torch.softmax(scores, -1).view(b * h, t, -1), v)


def einsummed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bhqk,bhkd->bhqd", torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) * 0.2, -1), v)


def with_ending(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.scaled_dot_product_attention(q, k, v)) * 2 + v


# name → (function, extra inputs for given shapes, main shape, other shapes that the same source must be right at)
Extra = Callable[[int, int, int], tuple[torch.Tensor, ...]]
NONE: Extra = lambda b, h, t: ()  # noqa: E731
CASES: dict[str, tuple[Callable[..., object], Extra, tuple[int, ...], tuple[tuple[int, ...], ...]]] = {
    "library": (library, NONE, (2, 3, 70, 32), ((1, 2, 1, 32), (0, 2, 5, 32))),
    "library_bool_mask": (library, lambda b, h, t: (torch.rand(b, 1, t, t) > 0.3,), (2, 3, 70, 32), ((3, 2, 131, 7),)),
    "library_added_mask": (library, lambda b, h, t: (torch.randn(t, t),), (2, 3, 70, 16), ((1, 1, 1, 16),)),
    "causal": (causal, NONE, (2, 3, 200, 32), ((1, 1, 77, 48),)),
    "by_hand": (by_hand, NONE, (2, 4, 90, 32), ((2, 1, 333, 5),)),
    "tril_masked": (tril_masked, NONE, (2, 3, 150, 32), ((1, 2, 67, 20),)),
    "triu_added": (triu_added, NONE, (1, 2, 150, 32), ()),
    "finite_fill": (finite_fill, NONE, (1, 2, 80, 32), ()),
    "counted": (counted, NONE, (1, 2, 140, 32), ((1, 2, 33, 20),)),
    "biased": (biased, lambda b, h, t: (torch.randn(1, h, t, t),), (2, 3, 70, 32), ((1, 3, 35, 32),)),
    "scaled_rows": (scaled_rows, lambda b, h, t: (torch.randn(b, 1, t, 1), torch.randn(h, 1, t)), (2, 3, 70, 32), ((1, 3, 35, 8),)),
    "relu_weights": (relu_weights, NONE, (2, 3, 70, 32), ((1, 1, 0, 12),)),
    "batched": (batched, lambda b, h, t: (torch.randn(b, 1, 1, t),), (2, 3, 40, 32), ((3, 2, 66, 32),)),
    "einsummed": (einsummed, NONE, (2, 3, 40, 32), ()),
    "with_ending": (with_ending, NONE, (2, 3, 70, 32), ()),
}  # fmt: skip


def region_of(graph: Graph) -> Region:
    """The one that the plans have for the attention, the largest that they offer."""
    family = families_of("cpu")["attention"]
    regions = {r.id: r for plan in plans(graph, Facts(threads=2)) for r in plan}
    found = [r for r in regions.values() if family.techniques(graph, r, Facts(threads=2))]
    assert found
    return max(found, key=lambda r: len(r.nodes))


def check(bench: Any, graph: Graph, others: list[tuple[Graph, tuple[torch.Tensor, ...]]]) -> None:
    region = region_of(graph)
    for _, unit in bench.techniques(graph, region):
        for other, args in others:
            bench.check(unit, other, args)


@pytest.mark.parametrize("name", CASES)
def test_attention_is_accurate_at_all_shapes(bench: Any, name: str) -> None:
    function, extra, main, others = CASES[name]
    made = []
    for shape in (main, *others):
        args = (*heads(*shape), *extra(*shape[:3]))
        made.append((bench.graph(function, *args), args))
    check(bench, made[0][0], made)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened(bench: Any, dtype: torch.dtype) -> None:
    args = heads(2, 2, 75, 40, dtype=dtype)
    graph = bench.graph(library, *args)
    check(bench, graph, [(graph, args)])


def test_queries_and_keys_of_different_lengths_and_grouped_heads(bench: Any) -> None:
    q, k, v = torch.randn(2, 6, 50, 32), torch.randn(2, 2, 130, 32), torch.randn(2, 2, 130, 24)
    graph = bench.graph(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), q, k, v)
    check(bench, graph, [(graph, (q, k, v))])
    shared = bench.graph(by_hand, q, k[:, :1], v[:, :1])
    check(bench, shared, [(shared, (q, k[:, :1], v[:, :1]))])


def test_no_keys_yield_zeros(bench: Any) -> None:
    args = (torch.randn(1, 2, 5, 32), torch.randn(1, 2, 0, 32), torch.randn(1, 2, 0, 32))
    main = heads(1, 2, 9, 32)
    graph = bench.graph(by_hand, *main)
    check(bench, graph, [(bench.graph(by_hand, *args), args)])


@pytest.mark.parametrize("function", [library, by_hand])
def test_nan_and_infinity_spread_as_in_torch(bench: Any, function: Callable[..., object]) -> None:
    q, k, v = (x.contiguous() for x in heads(1, 3, 40, 32))
    q[0, 0, 3, 4], k[0, 1, 7, 2], v[0, 2, 5, 6] = float("nan"), float("inf"), -float("inf")
    graph = bench.graph(function, q, k, v)
    check(bench, graph, [(graph, (q, k, v))])


@pytest.mark.parametrize("by_mask", [library, biased])
def test_rows_without_any_key(bench: Any, by_mask: Callable[..., object]) -> None:
    q, k, v = heads(1, 2, 140, 32)
    mask = torch.randn(1, 2, 140, 140)
    mask[:, :, 3] = -float("inf")
    mask[:, :, 70, 64:] = -float("inf")
    graph = bench.graph(by_mask, q, k, v, mask)
    check(bench, graph, [(graph, (q, k, v, mask))])


def test_large_scores_do_not_overflow(bench: Any) -> None:
    """Scores of 1e5 are known to some 1e-2 in float32, so that two keys that nearly tie are weighed to a percent or so."""
    torch.manual_seed(0)
    q, k, v = heads(1, 2, 140, 32)
    args = (q * 60, k * 60, v * 1e-30)
    graph = bench.graph(library, *args)
    for _, unit in bench.techniques(graph, region_of(graph)):
        bench.check(unit, graph, args, ulp=1e5)


@pytest.mark.parametrize("scale", [0.3, -0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_huge_scores_stay_finite(bench: Any, dtype: torch.dtype, scale: float) -> None:
    torch.manual_seed(0)
    args = tuple(1e17 * x for x in heads(1, 2, 141, 32, dtype=dtype))
    graph = bench.graph(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=scale), *args)
    check(bench, graph, [(graph, args)])


def test_every_value_of_the_tunables_is_right(bench: Any) -> None:
    args = heads(1, 2, 213, 72)
    graph = bench.graph(causal, *args)
    region = region_of(graph)
    family = families_of("cpu")["attention"]
    (technique,) = family.techniques(graph, region, Facts(threads=2, vector=16))
    for values in ({"QUERIES": 24, "KEYS": 64, "ROWS": 4}, {"QUERIES": 96, "KEYS": 256, "VEC": 8}):
        bench.check(family.write(graph, region, technique.at(values)), graph, args)


def test_a_plan_holds_the_whole_attention_and_what_follows(bench: Any) -> None:
    graph = bench.graph(tril_masked, *heads(2, 3, 64, 32))
    region = region_of(graph)
    names = [graph.by_name[n].op.split(".")[1] for n in region.nodes]
    assert names.count("matmul") == 2
    assert {"_softmax", "tril", "clone"} <= set(names)
    assert len(region.outputs) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda q, k, v: (
            torch.softmax(q @ k.transpose(-2, -1), -1),
            torch.softmax(q @ k.transpose(-2, -1), -1) @ v,
        ),
        lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -2) @ v,
        lambda q, k, v: (q @ k.transpose(-2, -1)) @ v,
    ],
)
def test_what_is_not_attention_is_left_alone(bench: Any, function: Callable[..., object]) -> None:
    graph = bench.graph(function, *heads(1, 2, 16, 8))
    family = families_of("cpu")["attention"]
    regions = [r for plan in plans(graph, Facts(threads=2)) for r in plan]
    assert not any(family.techniques(graph, r, Facts(threads=2)) for r in regions if len(r.nodes) > 3)


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=st.tuples(
        st.integers(1, 3), st.integers(1, 3), st.integers(1, 150), st.integers(1, 260), st.integers(1, 70)
    ),
    function=st.sampled_from([library, causal, by_hand, relu_weights]),
)
def test_random_shapes(bench: Any, sizes: tuple[int, ...], function: Callable[..., object]) -> None:
    b, h, n, m, d = sizes
    main = heads(2, 2, 20, 32)
    graph = bench.graph(function, *main)
    args = (torch.randn(b, h, n, d), torch.randn(b, h, m, d), torch.randn(b, h, m, d))
    check(bench, graph, [(bench.graph(function, *args), args)])
