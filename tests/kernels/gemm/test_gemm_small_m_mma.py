"""Products of few tokens by `mma.sync`, dequantising on the way: emulated on the CPU against float64; with nvcc, that they build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import FACTS, CudaBench, cut_product

from warpsmith.agents.expert.planner import plans
from warpsmith.agents.expert.review import review
from warpsmith.kernels.gemm.cuda import gemm_small_m_mma
from warpsmith.kernels.gemm.cuda.cuda_matmul import CudaMatMul
from warpsmith.records import Graph, Region, Unit
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget

NAME = "gemm-small-m-mma"
Case = tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]], dict[str, int]]


def brain(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).bfloat16()


def bytes_of(*shape: int) -> torch.Tensor:
    return torch.randint(-127, 128, shape, dtype=torch.int8)


def by_row(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, w.to(x.dtype) * scale, bias))


def by_group(x: torch.Tensor, w: torch.Tensor, zero: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.linear(x, ((w.to(x.dtype) - zero) * scale).view(w.shape[0], -1))


def in_float32(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.linear(x, (w.float() * scale).to(x.dtype))


def by_constant(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """No half type holds a tenth."""
    return F.linear(x, (w.to(x.dtype) + 2) * 0.1)


def packed(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def low_first(x: torch.Tensor, w: torch.Tensor, zero: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Four bits with scales and zeros of groups, as AWQ has them."""
    nibbles = torch.stack([w & 15, w >> 4], dim=-1).flatten(-2)
    return F.linear(x, ((nibbles.to(x.dtype) - zero) * scale).flatten(1))


def high_first(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    nibbles = torch.stack((torch.bitwise_right_shift(w, 4), torch.bitwise_and(w, 15)), -1).view(len(w), -1)
    return F.linear(x, (nibbles.to(x.dtype) - 8) * scale, bias)


def by_block(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.linear(x, (w.to(x.dtype) * scale).view(w.shape[0] * w.shape[1], -1))


PLAIN: dict[str, Case] = {
    "bf16, ragged rows": (lambda x, w: F.linear(x, w) * 2, lambda: (brain(11, 328), brain(37, 328)), {"BLOCK": 64, "SPLIT": 2}),
    "fp16, an odd depth, two dimensions of tokens": (
        lambda x, w, b: F.linear(x, w, b), lambda: (torch.randn(2, 2, 77).half(), torch.randn(19, 77).half(), torch.randn(19).half()),
        {"BLOCK": 32, "VEC": 16},
    ),
    "tokens apart, wide tiles": (
        lambda x, w: F.linear(x[:, ::2], w), lambda: (brain(2, 20, 128), brain(70, 128)), {"BLOCK": 64, "MMA_TILES_M": 2, "RING_STAGES": 2},
    ),
}  # fmt: skip
DEQUANTISED: dict[str, Case] = {
    "int8 with scales of rows": (by_row, lambda: (brain(16, 512), bytes_of(40, 512), 0.01 * brain(40, 1), brain(40)), {"BLOCK": 64}),
    "int8 with scales and zeros of groups": (
        by_group, lambda: (brain(3, 256), bytes_of(24, 4, 64), brain(24, 4, 1), 0.01 * brain(24, 4, 1)), {"BLOCK": 64, "VEC": 8, "SPLIT": 2},
    ),
    "int4 with scales and zeros of groups": (
        low_first, lambda: (brain(3, 256), packed(24, 4, 32), 8 + brain(24, 4, 1), 0.01 * brain(24, 4, 1)), {"BLOCK": 64, "SPLIT": 2},
    ),
    "int4, an odd number of pairs, the high half first": (
        high_first, lambda: (brain(9, 154), packed(21, 77), 0.01 * brain(21, 1), brain(21)), {"BLOCK": 32, "VEC": 8},
    ),
    "int4 in fp16, rows of bytes apart": (
        low_first,
        lambda: (torch.randn(5, 128).half(), packed(40, 4, 24)[:, :, :16], 8 + torch.randn(40, 4, 1).half(), 0.01 * torch.randn(40, 4, 1).half()), {},
    ),
    "int8 with scales of blocks": (
        by_block, lambda: (brain(9, 256), bytes_of(2, 16, 4, 64), 0.01 * brain(2, 1, 4, 1)), {"BLOCK": 32},
    ),
    "int8 with float32 scales of rows": (in_float32, lambda: (brain(9, 256), bytes_of(24, 256), 0.01 * torch.randn(24, 1)), {"BLOCK": 32}),
    "int8 of an odd depth": (in_float32, lambda: (brain(9, 77), bytes_of(24, 77), 0.01 * torch.randn(24, 1)), {"BLOCK": 32}),
    "int8 and a constant": (by_constant, lambda: (torch.randn(9, 96).half(), bytes_of(24, 96)), {"BLOCK": 32}),
    "tokens that do not stay": (
        by_row, lambda: (brain(16, 512), bytes_of(40, 512), 0.01 * brain(40, 1), brain(40)), {"BLOCK": 64, "TOKENS_RESIDENT": 0},
    ),
    "float8 with scales of blocks": (
        by_block, lambda: (brain(9, 256), (64 * torch.randn(2, 16, 4, 64)).to(torch.float8_e4m3fn), 0.01 * brain(2, 1, 4, 1)),
        {"BLOCK": 32},
    ),
}  # fmt: skip
EVERY = {**PLAIN, **DEQUANTISED}


def unit_of(graph: Graph, values: dict[str, int]) -> Unit:
    family, region = CudaMatMul(), cut_dual(graph) or cut_product(graph)
    technique = next(t for t in family.techniques(graph, region, FACTS) if t.name == NAME)
    return with_values(family.write(graph, region, technique), values)


@pytest.mark.parametrize("name", EVERY)
def test_few_tokens_are_right(emulated: CudaBench, name: str) -> None:
    function, make, values = EVERY[name]
    graph, args = emulated.case(function, make)
    emulated.check(unit_of(graph, values), graph, args)


def gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def gated_last(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The activation is the second product's, a chain goes on behind."""
    return (F.linear(x, up) * F.gelu(F.linear(x, gate), approximate="tanh") + 1) * scale


def read_elsewhere(
    x: torch.Tensor, one: torch.Tensor, other: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    y = F.linear(x, one)
    return F.silu(y) * F.linear(x, other), y


def multiplied(x: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return F.linear(x, one) * F.linear(x, other)


DUAL: dict[str, Case] = {
    "SwiGLU, bf16": (gated, lambda: (brain(5, 328), brain(37, 328), brain(37, 328)), {"BLOCK": 64}),
    "SwiGLU, fp16, an odd depth, two dimensions of tokens, wide tiles": (
        gated, lambda: (torch.randn(2, 9, 77).half(), torch.randn(70, 77).half(), torch.randn(70, 77).half()), {"BLOCK": 32, "MMA_TILES_M": 2},
    ),
    "GeGLU, the gate last, weights apart": (
        gated_last, lambda: (brain(1, 128), brain(24, 256)[:, ::2], brain(24, 140)[:, :128], brain(24)), {"BLOCK": 64, "TOKENS_RESIDENT": 0},
    ),
    "no activation": (multiplied, lambda: (brain(32, 64), brain(16, 64), brain(16, 64)), {"BLOCK": 32}),
}  # fmt: skip
NOT_DUAL: dict[str, tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "two left factors": (
        lambda x, y, w, v: F.silu(F.linear(x, w)) * F.linear(y, v), lambda: (brain(3, 64), brain(3, 64), brain(16, 64), brain(16, 64)),
    ),
    "a product that is read elsewhere": (read_elsewhere, lambda: (brain(3, 64), brain(16, 64), brain(16, 64))),
    "a bias": (
        lambda x, w, v, b: F.silu(F.linear(x, w, b)) * F.linear(x, v), lambda: (brain(3, 64), brain(16, 64), brain(16, 64), brain(16)),
    ),
    "two activations": (
        lambda x, w, v: F.silu(F.linear(x, w)) * F.gelu(F.linear(x, v)), lambda: (brain(3, 64), brain(16, 64), brain(16, 64)),
    ),
    "one product twice": (lambda x, w: F.silu(F.linear(x, w)) * F.linear(x, w), lambda: (brain(3, 64), brain(16, 64))),
    "a weight that is computed": (
        lambda x, w, v: F.silu(F.linear(x, w * 2)) * F.linear(x, v), lambda: (brain(3, 64), brain(16, 64), brain(16, 64)),
    ),
    "other columns": (
        lambda x, w, v: F.silu(F.linear(x, w)) * F.linear(x, v)[:, :16], lambda: (brain(3, 64), brain(16, 64), brain(32, 64)),
    ),
}  # fmt: skip


@pytest.fixture(name="any_columns")
def _any_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_small_m_mma, "LEAST_DUAL_COLUMNS", 1)


def cut_dual(graph: Graph) -> Region | None:
    """The region of the first product that the family makes one of two."""
    family = CudaMatMul()
    cuts = (family.cut(graph, n, (), True) for n in graph.nodes if family.covers(graph, n))
    return next(
        (r for r in cuts if r is not None and sum(".linear" in graph.by_name[n].op for n in r.nodes) > 1),
        None,
    )


@pytest.mark.parametrize("name", DUAL)
def test_two_products_are_joined_in_one_kernel(emulated: CudaBench, any_columns: None, name: str) -> None:
    function, make, values = DUAL[name]
    graph, args = emulated.case(function, make)
    region, family = cut_dual(graph), CudaMatMul()
    assert region is not None
    assert set(region.nodes) == {n.name for n in graph.nodes}
    (technique,) = family.techniques(graph, region, FACTS)
    assert technique.name == NAME
    assert "SPLIT" not in {t.name for t in technique.tunables if len(t.domain) > 1}
    emulated.check(with_values(family.write(graph, region, technique), values), graph, args)
    assert any(region.nodes == r.nodes for plan in plans(graph, FACTS) for r in plan)


@pytest.mark.parametrize("name", NOT_DUAL)
def test_other_products_stay_apart(emulated: CudaBench, any_columns: None, name: str) -> None:
    function, make = NOT_DUAL[name]
    graph, _ = emulated.case(function, make)
    assert cut_dual(graph) is None


def test_narrow_weights_stay_apart(emulated: CudaBench) -> None:
    """K of a pair is not split: few columns would leave multiprocessors without rows."""
    graph, _ = emulated.case(gated, lambda: (brain(3, 64), brain(2040, 64), brain(2040, 64)))
    assert cut_dual(graph) is None
    graph, _ = emulated.case(gated, lambda: (brain(3, 64), brain(2048, 64), brain(2048, 64)))
    assert cut_dual(graph) is not None


@pytest.mark.parametrize("depth", [96, 100])
def test_what_lies_behind_a_row_stays_out_of_it(emulated: CudaBench, depth: int) -> None:
    """Parts of K, of three and a bit steps, two and two: the last step of the second part is beyond the row, where the next row has no numbers."""
    weight = brain(32, depth)
    weight[17:] = float("inf")
    graph, args = emulated.case(F.linear, lambda: (brain(3, depth).abs(), weight))
    emulated.check(unit_of(graph, {"BLOCK": 32, "SPLIT": 2}), graph, args)


@pytest.mark.parametrize("name", DEQUANTISED)
def test_dequantisation_is_part_of_the_region(emulated: CudaBench, name: str) -> None:
    function, make, _ = DEQUANTISED[name]
    graph, _ = emulated.case(function, make)
    assert set(cut_product(graph).nodes) == {n.name for n in graph.nodes}
    assert [t.name for t in CudaMatMul().techniques(graph, cut_product(graph), FACTS)] == [NAME]
    assert any(len(plan) == 1 and len(plan[0].nodes) == len(graph.nodes) for plan in plans(graph, FACTS))


def test_a_weight_that_others_read_is_dequantised_once(emulated: CudaBench) -> None:
    def function(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weight = w.to(x.dtype) * scale
        return F.linear(x, weight), weight

    graph, _ = emulated.case(function, lambda: (brain(4, 128), bytes_of(32, 128), brain(32, 1)))
    assert [graph.by_name[n].op for n in cut_product(graph).nodes] == ["aten.linear.default"]


@pytest.mark.parametrize("what", ["whole bytes are read, too", "three bits", "halves of different bytes"])
def test_other_bits_are_unpacked_outside(emulated: CudaBench, what: str) -> None:
    def function(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> object:
        low, high = w & (7 if what == "three bits" else 15), (v if what.startswith("halves") else w) >> 4
        nibbles = torch.stack([low, high], -1).flatten(-2)
        out = F.linear(x, nibbles.to(x.dtype) * 0.1)
        return (out, nibbles) if what.startswith("whole") else out

    graph, _ = emulated.case(function, lambda: (brain(4, 128), packed(32, 64), packed(32, 64)))
    region = cut_product(graph)
    assert not {"stack", "view"} & set(region.nodes)
    assert "linear" in region.nodes


def test_many_tokens_are_left_to_others(emulated: CudaBench) -> None:
    graph = emulated.graph(F.linear, brain(64, 128), brain(64, 128))
    offered = CudaMatMul().techniques(graph, emulated.whole(graph), replace(FACTS, arch="sm_90a"))
    assert NAME not in [t.name for t in offered]


@pytest.mark.slow
def test_small_m_mma_builds_without_spills(emulated: CudaBench, toolkit: None, builds: Path) -> None:
    plain = emulated.graph(
        F.linear, torch.empty(16, 4096, dtype=torch.bfloat16), torch.empty(4096, 4096, dtype=torch.bfloat16)
    )
    quantised = emulated.graph(
        by_row, torch.empty(16, 4096, dtype=torch.half), torch.empty(11008, 4096, dtype=torch.int8),
        torch.empty(11008, 1, dtype=torch.half), torch.empty(11008, dtype=torch.half),
    )  # fmt: skip
    four_bits = emulated.graph(
        low_first, torch.empty(16, 4096, dtype=torch.bfloat16), torch.empty(11008, 32, 64, dtype=torch.uint8),
        *2 * (torch.empty(11008, 32, 1, dtype=torch.bfloat16),),
    )  # fmt: skip
    pair = emulated.graph(
        gated,
        torch.empty(16, 2048, dtype=torch.bfloat16),
        *2 * (torch.empty(8192, 2048, dtype=torch.bfloat16),),
    )
    for graph, values in (
        (plain, {}),
        (quantised, {}),
        (four_bits, {}),
        (four_bits, {"VEC": 32, "RING_STAGES": 2}),
        (pair, {}),
    ):
        unit = unit_of(graph, values)
        assert review(unit) == []
        build = CudaTarget(builds / "cuda", arch="sm_90a").build(unit, graph, "main")
        assert build.ok, build.diagnostics
        assert not build.diagnostics
        assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels
