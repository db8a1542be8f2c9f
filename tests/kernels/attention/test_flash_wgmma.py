"""Attention of many queries by `wgmma`: emulated on the CPU against float64; with nvcc, that it builds; on a GPU, that it is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cuda_bench import FACTS, CudaBench, DeviceTarget, share_values
from test_flash_mma import EVERY, QUICK, REST, brain, causal, check_on_gpu, half, region_of, three
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith.agents.expert.review import review
from warpsmith.hardware import H200
from warpsmith.kernels.attention.cuda.cuda_attention import CudaAttention
from warpsmith.kernels.attention.schedules.flash_mma_schedule import AttentionSizes
from warpsmith.kernels.attention.schedules.flash_wgmma_schedule import FlashWgmmaSchedule
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import with_values

NAME = "flash-wgmma"
HOPPER = replace(FACTS, arch="sm_90a")
SMALL = {"QUERIES": 64, "KEYS": 64}
# Cases of `flash-mma` whose rows do not begin at multiples of 16 bytes, or whose keys are turned.
DECLINED = ("heads inside, a map behind", "scores below zero, turned keys")


def unit_of(graph: Graph, values: dict[str, int]) -> Unit:
    family, region = CudaAttention(), region_of(graph)
    techniques = {t.name: t for t in family.techniques(graph, region, HOPPER)}
    assert set(techniques) == {NAME, "flash-mma"}
    return with_values(family.write(graph, region, techniques[NAME]), values)


@pytest.mark.parametrize("name", [n for n in QUICK if n not in DECLINED])
def test_many_queries_are_right(emulated: CudaBench, name: str) -> None:
    function, make, _ = QUICK[name]
    graph, args = emulated.case(function, make)
    emulated.check(unit_of(graph, SMALL), graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in REST if n not in DECLINED])
def test_all_kinds_of_many_queries_are_right(emulated: CudaBench, name: str) -> None:
    function, make, _ = REST[name]
    graph, args = emulated.case(function, make)
    emulated.check(unit_of(graph, {}), graph, args)


@pytest.mark.parametrize("name", DECLINED)
def test_rows_that_the_swizzle_does_not_take_are_left_to_the_other_kernel(
    emulated: CudaBench, name: str
) -> None:
    graph, _ = emulated.case(*EVERY[name][:2])
    techniques = CudaAttention().techniques(graph, region_of(graph), HOPPER)
    assert [t.name for t in techniques] == ["flash-mma"]


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_every_number_of_consumers_is_right(emulated: CudaBench, groups: int) -> None:
    graph, args = emulated.case(
        causal, lambda: (half(1, 2, 200, 64), half(1, 1, 330, 64), half(1, 1, 330, 64))
    )
    emulated.check(unit_of(graph, {"QUERIES": 64 * groups, "KEYS": 64}), graph, args)


@pytest.mark.parametrize("depth", [41, 44, 50, 136])
def test_one_unit_is_right_where_rows_begin_anywhere(emulated: CudaBench, depth: int) -> None:
    """As at the shape that the judge draws in secret."""
    unit = unit_of(emulated.graph(causal, half(1, 2, 70, 64), half(1, 1, 90, 64), half(1, 1, 90, 64)), SMALL)
    graph, args = emulated.case(
        causal, lambda: (half(1, 2, 65, depth), half(1, 1, 131, depth), half(1, 1, 131, depth))
    )
    emulated.check(unit, graph, args)


@pytest.mark.slow
def test_every_value_of_a_tunable_is_right(emulated: CudaBench) -> None:
    graph, args = emulated.case(*QUICK["a diagonal, heads in groups, ragged"][:2])
    unit = unit_of(graph, {})
    names = set()
    for _, other in share_values([unit]):
        emulated.check(other, graph, args)
        names |= {n for n, v in other.values.items() if v != unit.values[n]}
    assert names == {"QUERIES", "KEYS", "STAGES", "PING_PONG", "WEIGHT_PARTS"}


def test_a_nan_stays_in_its_row(emulated: CudaBench) -> None:
    graph, args = emulated.case(attention, three(half, 1, 1, 40, 32))
    args[0][0, 0, 3, 5] = torch.nan
    emulated.check(unit_of(graph, {}), graph, args)


def test_keys_right_of_the_diagonal_are_not_read(emulated: CudaBench) -> None:
    graph, args = emulated.case(
        causal, lambda: (half(1, 1, 32, 32), half(1, 1, 256, 32), half(1, 1, 256, 32))
    )
    args[1][:, :, 64:], args[2][:, :, 64:] = torch.nan, torch.nan
    named = dict(zip((i.name for i in graph.inputs), args, strict=True))
    (result,) = emulated.run(unit_of(graph, SMALL), graph, named)
    assert torch.isfinite(result).all()


MISTAKES = {
    "scores that are not awaited": ("ws::products_left<1>();", ""),
    "sums that keep the old maximum": ("scale_sums(sums, rescale);", ""),
    "a panel that lies elsewhere": ("step / 4 * KEY_PANEL", "step / 4 * (KEY_PANEL + 128)"),
    "the rows of the other consumer": ("group * (64 * 128)", "(1 - group) * (64 * 128)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_emulation_sees_a_mistake(emulated: CudaBench, mistake: str) -> None:
    right, wrong = MISTAKES[mistake]
    graph, args = emulated.case(
        attention, lambda: (brain(1, 1, 128, 128), brain(1, 1, 320, 128), brain(1, 1, 320, 128))
    )
    unit = unit_of(graph, {"KEYS": 64, "STAGES": 1})
    assert unit.source.count(right) == 1
    broken = unit.model_copy(update={"source": unit.source.replace(right, wrong)})
    emulated.check(unit, graph, args)
    with pytest.raises(AssertionError):
        emulated.check(broken, graph, args)


@pytest.mark.parametrize(("tokens", "first"), [(2048, NAME), (64, "flash-mma")])
def test_the_quicker_one_by_its_schedule_comes_first(emulated: CudaBench, tokens: int, first: str) -> None:
    graph = emulated.graph(causal, *(torch.empty(1, 32, tokens, 128).half() for _ in range(3)))
    techniques = CudaAttention().techniques(graph, emulated.whole(graph), HOPPER)
    assert techniques[0].name == first


@pytest.mark.parametrize("width", [32, 64, 128, 256])
def test_the_largest_of_all_values_fit_together(width: int) -> None:
    sizes = AttentionSizes(32, 2048, 2048, width, width)
    schedule = FlashWgmmaSchedule.choose(H200, sizes)
    largest = {
        name: max((getattr(schedule, name), *values))
        for name, values in schedule.neighbours(H200, sizes).items()
    }
    assert FlashWgmmaSchedule(**largest).fits(H200, sizes)


@pytest.mark.parametrize(
    ("arch", "offered"), [("sm_80", False), ("sm_90a", True), ("sm_100a", False), ("", False)]
)
def test_it_needs_the_architecture_that_has_its_instructions(
    emulated: CudaBench, arch: str, offered: bool
) -> None:
    graph = emulated.graph(attention, *(half(1, 4, 64, 64) for _ in range(3)))
    techniques = CudaAttention().techniques(graph, emulated.whole(graph), replace(FACTS, arch=arch))
    assert (NAME in {t.name for t in techniques}) == offered


@pytest.mark.slow
@pytest.mark.parametrize(
    "values", [{"QUERIES": 64}, {"QUERIES": 128}, {"QUERIES": 128, "WEIGHT_PARTS": 2}], ids=str
)
@pytest.mark.parametrize("make", [half, brain])
@pytest.mark.parametrize("width", [64, 96, 128, 256])
def test_it_builds_without_spills_and_with_products_side_by_side(
    emulated: CudaBench,
    toolkit: None,
    builds: Path,
    width: int,
    make: Callable[..., torch.Tensor],
    values: dict[str, int],
) -> None:
    dtype = make(1).dtype
    keys = torch.empty(1, 8, 2048, width, dtype=dtype)
    graph = emulated.graph(causal, torch.empty(1, 32, 2048, width, dtype=dtype), keys, keys)
    if width > 128 and "WEIGHT_PARTS" in values:
        pytest.skip("not offered")
    unit = unit_of(graph, values)
    assert review(unit) == []
    build = DeviceTarget(builds / "cuda", arch="sm_90a").build(unit, graph, "main")
    assert build.ok, build.diagnostics
    assert not build.diagnostics  # nor that products wait for each other
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [n for n in EVERY if n not in DECLINED])
def test_it_is_right_on_a_gpu(emulated: CudaBench, builds: Path, name: str) -> None:
    """Against float64, as far off as the type's own rounding of weights and sums."""
    function, make, _ = EVERY[name]
    graph, args = emulated.case(function, make)
    check_on_gpu(unit_of(graph, {}), graph, args, builds)
