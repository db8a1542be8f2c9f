"""CUDA units for attention: emulated on the CPU against float64; with nvcc, that they build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cuda_bench import FACTS, CudaBench
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith.agents.expert.brain import hypotheses, plans, write_units
from warpsmith.agents.expert.review import review
from warpsmith.kernels.attention.cuda.cuda_attention import CudaAttention
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget

R = torch.randn
Made = Callable[[], tuple[torch.Tensor, ...]]
Case = tuple[Callable[..., object], Made, dict[str, int]]  # … and values of tunables

QUICK: dict[str, Case] = {
    "ragged, in rounds of two heads": (attention, lambda: (R(1, 4, 70, 66), R(1, 4, 75, 66), R(1, 4, 75, 68)), {"HEADS": 3}),
    "heads inside, one tensor for all": (
        lambda x: attention(x.transpose(1, 2), x.transpose(1, 2), x.transpose(1, 2), scale=0.3),
        lambda: (R(2, 65, 2, 64),), {},
    ),
}  # fmt: skip
REST: dict[str, Case] = {
    "rounds over two dimensions": (attention, lambda: (R(4, 2, 64, 32), R(4, 2, 64, 32), R(4, 2, 64, 64)), {"HEADS": 5}),
    "one dimension of heads": (attention, lambda: (R(3, 64, 40), R(3, 130, 40), R(3, 130, 64)), {"HEADS": 2}),
    "one head": (attention, lambda: (R(131, 70), R(200, 70), R(200, 70)), {}),
    "turned keys": (lambda q, k, v: attention(q, k.mT, v), lambda: (R(2, 64, 40), R(2, 40, 68), R(2, 68, 64)), {}),
    "large scores": (attention, lambda: (100 * R(2, 64, 64), 100 * R(2, 64, 64), R(2, 64, 64)), {}),
    "scores below zero": (lambda q, k, v: attention(q, k, v, scale=-2.0),
                          lambda: (10 + R(64, 64), 10 + R(64, 64), R(64, 64)), {}),
}  # fmt: skip
EVERY = {**QUICK, **REST}


def unit_of(emulated: CudaBench, graph: Graph, values: dict[str, int]) -> Unit:
    """Of the attention alone: what turns its operands stays where it is."""
    node = next(n for n in graph.nodes if CudaAttention().covers(graph, n))
    region = CudaAttention().cut(graph, node, (), True)
    assert region is not None
    ((_, unit),) = emulated.techniques(graph, region)
    return with_values(unit, values)


@pytest.mark.parametrize("name", QUICK)
def test_attention_is_right(emulated: CudaBench, name: str) -> None:
    function, made, values = QUICK[name]
    graph, args = emulated.case(function, made)
    emulated.check(unit_of(emulated, graph, values), graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_every_attention_is_right(emulated: CudaBench, name: str) -> None:
    function, made, values = REST[name]
    graph, args = emulated.case(function, made)
    emulated.check(unit_of(emulated, graph, values), graph, args)


def test_a_unit_is_right_at_other_shapes(emulated: CudaBench) -> None:
    """Of fewer rows, keys and features than it is offered for."""
    graph, _ = emulated.case(*EVERY["one dimension of heads"][:2])
    unit = unit_of(emulated, graph, {"HEADS": 2})
    graph, args = emulated.case(attention, lambda: (R(5, 3, 7), R(5, 2, 7), R(5, 2, 9)))
    emulated.check(unit, graph, args)


def test_what_is_no_number_stays_in_its_row(emulated: CudaBench) -> None:
    graph, args = emulated.case(attention, lambda: (R(64, 32), R(64, 32), R(64, 64)))
    args[0][3, 5] = torch.nan
    emulated.check(unit_of(emulated, graph, {}), graph, args)


@pytest.mark.parametrize("scale", [None, -0.3])
def test_huge_scores_stay_finite(contracting: CudaBench, scale: float | None) -> None:
    """Where a scaled score less the largest one is one fused multiply-add, too."""
    graph, args = contracting.case(
        lambda q, k, v: attention(q, k, v, scale=scale),
        lambda: (1e17 * R(1, 2, 70, 72), 1e17 * R(1, 2, 150, 72), 1e17 * R(1, 2, 150, 72)),
    )
    contracting.check(unit_of(contracting, graph, {}), graph, args)


def test_weights_of_many_keys_are_as_exact_as_in_float32(emulated: CudaBench) -> None:
    """Positive values: nothing averages out what tensor cores cut off."""
    graph, args = emulated.case(
        attention, lambda: (torch.rand(64, 256), torch.rand(320, 256), torch.rand(320, 64))
    )
    values = dict(zip((i.name for i in graph.inputs), args, strict=True))
    (got,) = emulated.run(unit_of(emulated, graph, {}), graph, values)
    exact = attention(*(x.double() for x in args))
    assert (got - exact).norm() <= 1.5 * (attention(*args) - exact).norm()


def test_other_attention_is_left_to_the_library(emulated: CudaBench) -> None:
    q, k, v = R(1, 4, 64, 64), R(1, 4, 64, 64), R(1, 4, 64, 64)
    declined = [
        (lambda q, k, v: attention(q, k, v, is_causal=True), (q, k, v)),
        (lambda q, k, v, m: attention(q, k, v, attn_mask=m), (q, k, v, R(64, 64))),
        (lambda q, k, v, m: attention(q, k, v, attn_mask=m), (q, k, v, R(64, 64) > 0)),
        (lambda q, k, v: attention(q, k, v, enable_gqa=True), (q, k[:, :2], v[:, :2])),
        (attention, (q, k[:1, :1], v)),
    ]  # fmt: skip
    family = CudaAttention()
    for function, args in declined:
        graph = emulated.graph(function, *args)
        assert not any(family.covers(graph, n) and family.supports(graph, n) for n in graph.nodes)


def test_half_precision_is_never_made_of_scaled_halves(emulated: CudaBench) -> None:
    graph = emulated.graph(attention, *(R(1, 4, 64, 64).half() for _ in range(3)))
    techniques = CudaAttention().techniques(graph, emulated.whole(graph), FACTS)
    assert [t.name for t in techniques] == ["flash-mma"]


@pytest.mark.parametrize(
    ("arch", "rows", "offered"), [("sm_90a", 64, True), ("", 64, True), ("sm_80", 64, False), ("", 8, False)]
)
def test_shapes_and_architecture_decide_whether_it_is_offered(
    emulated: CudaBench, arch: str, rows: int, offered: bool
) -> None:
    graph = emulated.graph(attention, R(2, rows, 64), R(2, 64, 64), R(2, 64, 64))
    techniques = CudaAttention().techniques(graph, emulated.whole(graph), replace(FACTS, arch=arch))
    names = ["materialized-scores-3xfp16"] if offered else ["split-kv"] if rows <= 16 else []
    assert [t.name for t in techniques] == names


def test_it_is_what_is_proposed_for_a_library_node(emulated: CudaBench) -> None:
    graph = emulated.graph(attention, *(torch.empty(2, 8, 512, 1024) for _ in range(3)))
    assert [[r.nodes for r in plan] for plan in plans(graph, FACTS)] == [[tuple(n.name for n in graph.nodes)]]
    (best,) = hypotheses(graph, FACTS, [], 1)
    units = write_units(graph, best, 3, FACTS)
    assert [u.values["HEADS"] for u in units] == [64, 16, 128]


@pytest.mark.slow
def test_units_build_without_spills(emulated: CudaBench, toolkit: None, builds: Path) -> None:
    wide, odd = (
        emulated.graph(attention, *(torch.empty(2, *s) for _ in range(3)))
        for s in ((2, 512, 1024), (3, 61, 251))
    )
    unit = unit_of(emulated, wide, {})
    assert review(unit) == []
    for graph in (wide, odd):
        build = CudaTarget(builds / "cuda", arch="sm_90a").build(unit, graph, "main")
        assert build.ok, build.diagnostics
        assert not build.diagnostics
        assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels
