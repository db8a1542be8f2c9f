"""Attention of many queries in half precision: emulated on the CPU against float64; with nvcc, that it builds; where the planner offers it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cuda_bench import FACTS, CudaBench, DeviceTarget, share_values
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith.agents.expert.planner import plans
from warpsmith.agents.expert.review import review
from warpsmith.hardware import A100, H200
from warpsmith.kernels.attention.cuda.cuda_attention import CudaAttention
from warpsmith.kernels.attention.schedules.flash_mma_schedule import AttentionSizes, FlashMmaSchedule
from warpsmith.kernels.registry import family_of
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Graph, Region, Unit
from warpsmith.runtime.interpreter import run_graph
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget
from warpsmith.tasks.load import load_suite, load_task

NAME = "flash-mma"
Made = Callable[[], tuple[torch.Tensor, ...]]
Case = tuple[Callable[..., object], Made, dict[str, int]]
SMALL = {"QUERIES": 64, "KEYS": 32}
INF = float("inf")


def half(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).half()


def brain(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).bfloat16()


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention(q, k, v, is_causal=True, enable_gqa=True)


def heads_merged(x: torch.Tensor) -> torch.Tensor:
    turned = x.transpose(1, 2)
    return 2 * attention(turned, turned, turned).transpose(1, 2).flatten(2)


def windowed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    position = torch.arange(q.shape[2])
    back = position[:, None] - position
    return attention(q, k, v, attn_mask=(back >= 0) & (back < 30), enable_gqa=True)


def packed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, prompt: torch.Tensor) -> torch.Tensor:
    position = torch.arange(prompt.shape[0])
    mask = (prompt[:, None] == prompt) & (position[:, None] >= position)
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    return attention(q, k, v, attn_mask=mask, enable_gqa=True)[0].transpose(0, 1)


def padded(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    hidden = torch.arange(k.shape[2]) >= lengths[:, None, None, None]
    scores = (torch.matmul(q, k.transpose(-2, -1)) * 0.125).masked_fill(hidden, -INF)
    return torch.matmul(torch.softmax(scores, -1), v)


def alibi(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    position = torch.arange(q.shape[2])
    distance = position - position[:, None]
    bias = (slope * distance).masked_fill(distance > 0, -INF)
    scores = torch.matmul(q, k.transpose(-2, -1)) * 0.1 + bias
    return torch.matmul(torch.softmax(scores, -1).to(v.dtype), v)


def capped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = 5 * torch.tanh(torch.matmul(q, k.transpose(-2, -1)).float() * 0.02)
    position = torch.arange(q.shape[2])
    scores = scores.masked_fill(position > position[:, None], -INF)
    return torch.matmul(torch.softmax(scores, -1).to(v.dtype), v)


def biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return attention(q, k, v, attn_mask=mask)


def biased_by_heads(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return attention(q, k, v, attn_mask=bias.permute(2, 0, 1)[None])


def three(make: Callable[..., torch.Tensor], *shape: int) -> Made:
    return lambda: (make(*shape), make(*shape), make(*shape))


QUICK: dict[str, Case] = {
    "a diagonal, heads in groups, ragged": (causal, lambda: (brain(1, 4, 70, 40), brain(1, 2, 150, 40), brain(1, 2, 150, 40)), SMALL),
    "no mask, other widths": (attention, lambda: (half(1, 2, 70, 72), half(1, 2, 77, 72), half(1, 2, 77, 64)), {"QUERIES": 64}),
    "heads inside, a map behind": (heads_merged, lambda: (half(2, 65, 2, 33),), {}),
    "written out, padded keys": (padded, lambda: (half(2, 3, 37, 64), half(2, 3, 75, 64), half(2, 3, 75, 64), torch.tensor([75, 40])), {}),
    "a slope a head": (alibi, lambda: (*three(half, 1, 3, 83, 32)(), torch.rand(3, 1, 1)), SMALL),
    "a bias whose heads are neighbours": (biased_by_heads, lambda: (*three(half, 2, 3, 49, 32)(), half(49, 49, 3)), {}),
    "a window": (windowed, lambda: (brain(1, 4, 150, 40), brain(1, 2, 150, 40), brain(1, 2, 150, 40)), SMALL),
}  # fmt: skip
REST: dict[str, Case] = {
    "capped scores, many features": (capped, three(brain, 1, 2, 83, 256), {"KEYS": 32}),
    "96 features, a diagonal": (causal, three(half, 1, 2, 130, 96), {"QUERIES": 128, "BLOCK": 256}),
    "128 features": (attention, three(brain, 1, 2, 129, 128), {"QUERIES": 128}),
    "80 features, one head": (attention, three(brain, 67, 80), {}),
    "prompts packed": (
        packed, lambda: (brain(100, 4, 72), brain(100, 2, 72), brain(100, 2, 72), torch.randint(0, 3, (100,)).sort().values), {},
    ),
    "a bias a head": (biased, lambda: (*three(half, 2, 3, 49, 32)(), half(1, 3, 49, 49)), {}),
    "scores below zero, turned keys": (
        lambda q, k, v: attention(q, k.mT, v, scale=-0.3), lambda: (brain(2, 40, 80), brain(2, 80, 65), brain(2, 65, 128)), {},
    ),
    "more keys than rows see": (causal, lambda: (half(1, 2, 20, 64), half(1, 2, 300, 64), half(1, 2, 300, 64)), {"STAGES": 3}),
    "large scores": (attention, lambda: (20 * half(1, 2, 66, 64), half(1, 2, 66, 64), half(1, 2, 66, 64)), {}),
}  # fmt: skip
EVERY = {**QUICK, **REST}


def region_of(graph: Graph) -> Region:
    family = CudaAttention()
    node = next(n for n in graph.nodes if family.covers(graph, n))
    region = family.cut(graph, node, (), True)
    assert region is not None
    return region


def unit_of(graph: Graph, values: dict[str, int]) -> Unit:
    family, region = CudaAttention(), region_of(graph)
    (technique,) = family.techniques(graph, region, FACTS)
    assert technique.name == NAME
    return with_values(family.write(graph, region, technique), values)


@pytest.mark.parametrize("name", QUICK)
def test_many_queries_are_right(emulated: CudaBench, name: str) -> None:
    function, make, values = QUICK[name]
    graph, args = emulated.case(function, make)
    emulated.check(unit_of(graph, values), graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_all_kinds_of_many_queries_are_right(emulated: CudaBench, name: str) -> None:
    function, make, values = REST[name]
    graph, args = emulated.case(function, make)
    emulated.check(unit_of(graph, values), graph, args)


@pytest.mark.slow
def test_every_value_of_a_tunable_is_right(emulated: CudaBench) -> None:
    cases = [
        emulated.case(*QUICK[n][:2]) for n in ("a diagonal, heads in groups, ragged", "no mask, other widths")
    ]
    units = [unit_of(graph, {}) for graph, _ in cases]
    names = set()
    for number, unit in share_values(units):
        graph, args = cases[number]
        emulated.check(unit, graph, args)
        names |= {n for n, v in unit.values.items() if v != units[number].values[n]}
    assert names == {"QUERIES", "KEYS", "STAGES", "BLOCK", "WEIGHT_PARTS"}


def test_a_row_without_keys_is_zero_as_the_library_has_it(emulated: CudaBench) -> None:
    mask = torch.rand(1, 1, 33, 40) > 0.5
    mask[:, :, 5] = False
    graph, args = emulated.case(
        biased, lambda: (half(1, 2, 33, 32), half(1, 2, 40, 32), half(1, 2, 40, 32), mask)
    )
    emulated.check(unit_of(graph, {}), graph, args)


@pytest.mark.parametrize("make", [half, brain])
def test_where_the_library_computes_in_float32_only_the_result_is_rounded(
    emulated: CudaBench, make: Callable[..., torch.Tensor]
) -> None:
    graph, args = emulated.case(biased_by_heads, lambda: (*three(make, 8, 3, 49, 32)(), make(49, 49, 3)))
    unit = unit_of(graph, {})
    named = dict(zip((i.name for i in graph.inputs), args, strict=True))
    named |= run_graph(graph, named, wanted=set(unit.region.inputs))
    exact = biased_by_heads(*(a.double() for a in args))
    rounded = exact.to(args[0].dtype).double()
    errors = []
    for parts in (1, 2):
        (result,) = emulated.run(with_values(unit, {"WEIGHT_PARTS": parts}), graph, named)
        errors.append((result.double() - exact).norm() / (rounded - exact).norm())
    assert unit.values["WEIGHT_PARTS"] == 2
    assert errors[1] < 1.01 < 1.1 < errors[0]


@pytest.mark.parametrize("width", [32, 33])
@pytest.mark.parametrize("masked", [True, False])
def test_weights_have_two_parts_only_where_the_library_computes_in_float32(
    emulated: CudaBench, masked: bool, width: int
) -> None:
    function = biased if masked else attention
    graph, _ = emulated.case(function, lambda: (*three(half, 1, 2, 40, width)(), *[half(40, 40)] * masked))
    assert unit_of(graph, {}).values["WEIGHT_PARTS"] == (2 if masked and width == 33 else 1)


def test_a_nan_stays_in_its_row(emulated: CudaBench) -> None:
    graph, args = emulated.case(attention, three(half, 1, 1, 40, 32))
    args[0][0, 0, 3, 5] = torch.nan
    emulated.check(unit_of(graph, {}), graph, args)


def test_keys_right_of_the_diagonal_are_not_read(emulated: CudaBench) -> None:
    graph, args = emulated.case(
        causal, lambda: (half(1, 1, 32, 32), half(1, 1, 160, 32), half(1, 1, 160, 32))
    )
    args[1][:, :, 64:], args[2][:, :, 64:] = torch.nan, torch.nan
    named = dict(zip((i.name for i in graph.inputs), args, strict=True))
    (result,) = emulated.run(unit_of(graph, SMALL), graph, named)
    assert torch.isfinite(result).all()


SCALES = {"half as large": 0.3, "below zero": -0.3, "of the width": None}


@pytest.mark.parametrize("size", [300.0, 1e17])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("masked", [True, False], ids=["a diagonal", "no mask"])
def test_a_key_that_outweighs_all_others_is_returned_as_it_is(
    contracting: CudaBench, masked: bool, scale: str, size: float
) -> None:
    """Its weight is exactly 1, however large the scores are: they grow from about 1e5 to 1e36."""

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attention(q, k, v, is_causal=masked, scale=SCALES[scale], enable_gqa=True)

    shapes = ((1, 4, 70, 40), (1, 2, 150, 40), (1, 2, 150, 40))
    graph, args = contracting.case(function, lambda: tuple(size * brain(*s) for s in shapes))
    named = dict(zip((i.name for i in graph.inputs), args, strict=True))
    (result,) = contracting.run(unit_of(graph, SMALL), graph, named)
    query, key, value = (a.double() for a in args)
    scores = (query @ key.repeat_interleave(2, 1).mT) * (SCALES[scale] or 40**-0.5)
    if masked:
        scores = scores.masked_fill(torch.ones(70, 150).triu(1) > 0, -INF)
    weights = scores.softmax(-1)
    alone = weights.amax(-1) > 1 - 1e-9
    assert alone.double().mean() > 0.95
    exact = (weights @ value.repeat_interleave(2, 1)).bfloat16()
    assert torch.equal(result[alone], exact[alone])
    assert torch.isfinite(result).all()


def test_mapped_scores_may_be_huge(contracting: CudaBench) -> None:
    graph, args = contracting.case(alibi, lambda: (*three(brain, 1, 3, 83, 32)(), torch.rand(3, 1, 1)))
    args[0].mul_(1e17), args[1].mul_(1e17)
    contracting.check(unit_of(graph, SMALL), graph, args)


@pytest.mark.parametrize("name", ["a slope a head", "a window"])
def test_masks_that_the_graph_spells_out_are_computed_inside(emulated: CudaBench, name: str) -> None:
    graph, _ = emulated.case(*QUICK[name][:2])
    region, arguments = region_of(graph), {i.name for i in graph.inputs}
    assert {v for v in region.inputs if graph.producer.get(v) is not None} <= {"permute"}
    assert arguments - set(region.inputs) <= {"args_1"}  # the keys, which a view turns


def test_schedules_fit_a_block_and_see_what_a_diagonal_saves() -> None:
    full, half_of_it = (AttentionSizes(32, 4096, 4096, 128, 128, limit) for limit in (None, 0))
    for hardware in (H200, A100):
        schedule = FlashMmaSchedule.choose(hardware, full)
        assert schedule.fits(hardware, full)
        assert 0.5 < schedule.us(hardware, half_of_it) / schedule.us(hardware, full) < 0.6
    assert FlashMmaSchedule.choose(H200, AttentionSizes(1, 64, 64, 64, 64)).queries == 64


@pytest.mark.parametrize("width", [32, 64, 128, 256])
def test_the_largest_of_all_values_fit_together(width: int) -> None:
    sizes = AttentionSizes(32, 2048, 2048, width, width)
    schedule = FlashMmaSchedule.choose(H200, sizes)
    largest = {
        name: max((getattr(schedule, name), *values))
        for name, values in schedule.neighbours(H200, sizes).items()
    }
    assert FlashMmaSchedule(**largest).smem_bytes(sizes) <= H200.smem_bytes_per_block


@pytest.mark.parametrize(
    ("task", "technique"),
    [
        ("attention_prefill_causal_bf16", NAME), ("attention_softcap_bf16", NAME), ("attention_alibi_fp16", NAME),
        ("attention_cache_update_bf16", "split-kv"),
        pytest.param("attention_window_prefill_bf16", NAME, marks=pytest.mark.slow),
        pytest.param("attention_ragged_prefill_bf16", NAME, marks=pytest.mark.slow),
        pytest.param("attention_written_out_fp16", NAME, marks=pytest.mark.slow),
        pytest.param("attention_cross_fp16", NAME, marks=pytest.mark.slow),
        pytest.param("decoder_mla_prefill_bf16", NAME, marks=pytest.mark.slow),
        pytest.param("swin_window_attention_fp16", NAME, marks=pytest.mark.slow),
        pytest.param("attention_decode_cache_bf16", "split-kv", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_the_planner_offers_it_for_prompts_and_not_for_decoding(task: str, technique: str) -> None:
    file = next(f for f in load_suite("serving") if f.stem == task)
    with Scratch() as scratch:
        graph = load_task(str(file), scratch=scratch).main.graph
    offered = set()
    for region in plans(graph, FACTS)[0]:
        family = family_of(graph, region, "cuda")
        assert family is not None
        offered |= {t.name for t in family.techniques(graph, region, FACTS)}
    assert offered & {NAME, "split-kv"} == {technique}


@pytest.mark.parametrize(
    ("arch", "offered"),
    [("sm_80", [NAME]), ("sm_90a", [NAME, "flash-wgmma"]), ("", [NAME]), ("sm_75", [])],
)
def test_it_needs_an_architecture_that_has_its_instructions(
    emulated: CudaBench, arch: str, offered: list[str]
) -> None:
    graph = emulated.graph(attention, *(half(1, 4, 64, 64) for _ in range(3)))
    techniques = CudaAttention().techniques(graph, emulated.whole(graph), replace(FACTS, arch=arch))
    assert [t.name for t in techniques] == offered


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("width", [64, 96, 128, 256])
def test_flash_mma_builds_without_spills(
    emulated: CudaBench, toolkit: None, builds: Path, arch: str, width: int
) -> None:
    keys = torch.empty(1, 8, 2048, width, dtype=torch.bfloat16)
    graph = emulated.graph(causal, torch.empty(1, 32, 2048, width, dtype=torch.bfloat16), keys, keys)
    unit = unit_of(graph, {})
    assert review(unit) == []
    build = DeviceTarget(builds / "cuda", arch=arch).build(unit, graph, "main")
    assert build.ok, build.diagnostics
    assert not build.diagnostics
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", EVERY)
def test_it_is_right_on_a_gpu(emulated: CudaBench, builds: Path, name: str) -> None:
    """Against float64, as far off as the type's own rounding of weights and sums."""
    function, make, values = EVERY[name]
    graph, args = emulated.case(function, make)
    check_on_gpu(unit_of(graph, values), graph, args, builds)


def check_on_gpu(unit: Unit, graph: Graph, args: tuple[torch.Tensor, ...], builds: Path) -> None:
    named = dict(zip((i.name for i in graph.inputs), args, strict=True))
    named |= run_graph(graph, named, wanted=set(unit.region.inputs))
    (output,) = unit.region.outputs
    exact = run_graph(graph, named, float64=True, wanted={output})[output].double()
    build = CudaTarget(builds / "cuda").build(unit, graph, "main")
    assert build.ok, build.diagnostics
    operands, spec = [named[n].cuda() for n in unit.region.inputs], graph.specs[output]
    result = torch.empty_strided(spec.shape, spec.stride, dtype=args[0].dtype, device="cuda").fill_(torch.nan)
    pointers = (ctypes.c_void_p * len(operands))(*(t.data_ptr() for t in operands))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    outputs = (ctypes.c_void_p * 1)(result.data_ptr())
    assert ctypes.CDLL(build.library).warpsmith_run(pointers, outputs, None, stream) == 0
    torch.cuda.synchronize()
    error = (result.cpu().double() - exact).norm() / exact.norm()
    assert error < 4 * torch.finfo(args[0].dtype).eps, f"{unit.values}: {error:.2e}"
