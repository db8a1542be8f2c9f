"""Schedules as data: from and to a unit's tunables, and what Python derives of them against the constants of the kernels."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest
import torch
from cuda_bench import CudaBench
from test_implicit_gemm_tf32 import EVERY, unit_of
from test_implicit_gemm_warp_specialized import SOME

from warpsmith import kernels
from warpsmith.hardware import A100, H200
from warpsmith.kernels.conv.convolution_kinds import ConvolutionKind, read_kind, side_by_side
from warpsmith.kernels.conv.schedules.implicit_gemm_fp16_schedule import ImplicitGemmFp16Schedule, Work
from warpsmith.kernels.conv.schedules.implicit_gemm_tf32_schedule import ImplicitGemmTf32Schedule
from warpsmith.kernels.conv.schedules.implicit_gemm_tiles import patch_of, sums_of
from warpsmith.kernels.conv.schedules.implicit_gemm_warp_specialized_schedule import (
    EACH,
    ImplicitGemmWarpSpecializedSchedule,
    rank_warp_specialized_schedules,
)
from warpsmith.kernels.cuda_unit import smem_kib
from warpsmith.kernels.gemm.cuda.split_fp16 import DEPTH, SIDE
from warpsmith.kernels.gemm.schedules.gemm_3xfp16_schedule import Gemm3xFp16Schedule
from warpsmith.kernels.gemm.schedules.gemm_3xtf32_schedule import Gemm3xTf32Schedule
from warpsmith.kernels.gemm.schedules.gemm_skinny_schedule import GemmSkinnySchedule
from warpsmith.kernels.schedule import Schedule
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import with_values

R = torch.randn
TECHNIQUES: dict[str, type[Schedule]] = {
    "gemm-3xtf32": Gemm3xTf32Schedule, "gemm-3xfp16": Gemm3xFp16Schedule, "gemm-3xfp16-small-m": Gemm3xFp16Schedule, "skinny": GemmSkinnySchedule,
    "implicit-gemm-tf32": ImplicitGemmTf32Schedule, "implicit-gemm-fp16": ImplicitGemmFp16Schedule, "implicit-gemm-3xfp16": ImplicitGemmFp16Schedule, "implicit-gemm-warp-specialized": ImplicitGemmWarpSpecializedSchedule,
}  # fmt: skip


def constants(emulated: CudaBench, unit: Unit, graph: Graph, *names: str) -> tuple[int, ...]:
    """Values of the kernel's own constants."""
    text = f'\nextern "C" {{\nlong long warpsmith_derived[] = {{{", ".join(names)}}};\n}}\n'
    library = emulated.library(unit.model_copy(update={"source": unit.source + text}), graph)
    return tuple((ctypes.c_longlong * len(names)).in_dll(library, "warpsmith_derived"))


def product_unit(
    emulated: CudaBench, technique: str, left: torch.Tensor, right: torch.Tensor
) -> tuple[Graph, Unit]:
    graph = emulated.graph(lambda a, b: a @ b, left, right)
    return graph, next(u for t, u in emulated.techniques(graph, emulated.whole(graph)) if t.name == technique)


def kind_of(graph: Graph) -> ConvolutionKind:
    kind = next(k for n in graph.nodes if (k := read_kind(graph, n)) is not None)
    assert kind is not None
    return kind


@pytest.mark.parametrize("across", [False, True])
def test_3xtf32_schedule_and_kernel_agree_on_shared_memory(emulated: CudaBench, across: bool) -> None:
    left, right = R(130, 70), R(70, 130)
    graph, unit = product_unit(emulated, "gemm-3xtf32", left.t().contiguous().t() if across else left, right)
    for values in ({}, {"STAGES": 4, "BM": 64, "BK": 16}):
        other = with_values(unit, values)
        schedule = Gemm3xTf32Schedule.from_values(other.values)
        derived = constants(emulated, other, graph, "SHARED", "THREADS", "PARTS")
        assert derived == (schedule.smem_bytes(across, True), schedule.threads, schedule.split_k)


@pytest.mark.parametrize(("technique", "rows"), [("gemm-3xfp16", 130), ("gemm-3xfp16-small-m", 20)])
def test_3xfp16_schedule_and_kernel_agree_on_shared_memory(
    emulated: CudaBench, technique: str, rows: int
) -> None:
    right = R(135, 200).t() if technique == "gemm-3xfp16-small-m" else R(200, 135)
    graph, unit = product_unit(emulated, technique, R(rows, 200), right)
    for stages in (2, 3):
        other = with_values(unit, {"STAGES": stages})
        schedule = Gemm3xFp16Schedule.from_values(other.values)
        assert constants(emulated, other, graph, "SHARED", "TILE", "BK") == (schedule.smem_bytes, SIDE, DEPTH)
        assert schedule.blocks_per_sm(H200) == 1


@pytest.mark.parametrize("name", ["padded", "transposed, phases of 2 x 3"])
def test_tf32_schedule_has_room_for_what_the_kernel_asks_for(emulated: CudaBench, name: str) -> None:
    graph, _, unit = unit_of(emulated, EVERY[name])
    schedule = ImplicitGemmTf32Schedule.from_values(unit.values)
    asked, inner = constants(emulated, unit, graph, "SHARED", "INNER")
    expected = schedule.smem_bytes(kind_of(graph))
    assert asked <= expected <= 1.5 * asked
    assert inner == side_by_side(kind_of(graph))


@pytest.mark.parametrize(("technique", "terms"), [("implicit-gemm-fp16", 1), ("implicit-gemm-3xfp16", 3)])
def test_fp16_schedule_and_kernel_agree_on_blocks_per_sm(
    emulated: CudaBench, technique: str, terms: int
) -> None:
    graph, _, unit = unit_of(emulated, EVERY["padded"], technique)
    kind, schedule = kind_of(graph), ImplicitGemmFp16Schedule.from_values(unit.values)
    some = next(s for s in sums_of(kind) if s.chunk == schedule.chunk)
    sides = (schedule.pixels // schedule.wide, schedule.wide)
    work = Work(kind, terms, some, tuple(patch_of(kind, sides)), 1)
    names = ("THREADS", "SUMS", "STEP_BYTES", "MIN_BLOCKS_PER_SM", "USED")
    *derived, used = constants(emulated, unit, graph, *names)
    expected = (
        schedule.threads,
        schedule.sums(work),
        schedule.step_bytes(work),
        schedule.blocks_per_sm(H200, work),
    )
    assert tuple(derived) == expected
    assert 0.8 * used <= schedule.smem_bytes(work) <= 1.25 * used + 2048


def test_warp_specialized_schedule_and_kernel_agree_on_tiles(emulated: CudaBench) -> None:
    graph, _, unit = unit_of(emulated, SOME["padded"], "implicit-gemm-warp-specialized")
    kind, schedule = kind_of(graph), ImplicitGemmWarpSpecializedSchedule.from_values(unit.values)
    node = next(n for n in graph.nodes if read_kind(graph, n) is not None)
    timed = rank_warp_specialized_schedules(kind, graph.specs[node.uses[0]].shape, node.output.spec.shape)
    load = next(t.load for t in timed if t.schedule == schedule)
    names = (
        "ROWS",
        "THREADS",
        "SUMS",
        "ABREAST",
        "MIN_BLOCKS_PER_SM * CONSUMER_GROUPS_USED",
        "WORK * COMBOS",
    )
    expected = (
        schedule.rows,
        schedule.threads,
        schedule.sums(kind),
        schedule.abreast(EACH),
        load.tiles_per_sm,
        load.tiles,
    )
    assert constants(emulated, unit, graph, *names) == expected


def test_shared_memory_in_kernel_texts_is_that_of_the_architecture_with_wgmma() -> None:
    files = [
        f
        for f in Path(kernels.__file__).parent.rglob("*")
        if f.suffix in (".py", ".cuh") and "cuda" in f.parts
    ]
    texts = "".join(f.read_text() for f in files)
    named = {int(kib) for kib in re.findall(r"\b(2\d\d) << 10", texts)}
    assert named == {H200.smem_bytes_per_block >> 10}
    assert set(re.findall(r"(?:USED|SHARED) \+ (\d+)\)", texts)) == {str(H200.smem_bytes_reserved)}
    assert smem_kib(H200) == (48, 96, 160, 216)
    assert smem_kib(A100) == (48, 96, 160)


@pytest.mark.parametrize("technique", ["gemm-3xtf32", "gemm-3xfp16", "skinny"])
def test_a_schedule_survives_the_way_through_a_product_units_values(
    emulated: CudaBench, technique: str
) -> None:
    rows = 3 if technique == "skinny" else 130
    _, unit = product_unit(emulated, technique, R(rows, 200), R(200, 135))
    check_values(unit)


@pytest.mark.parametrize(
    "technique",
    ["implicit-gemm-tf32", "implicit-gemm-fp16", "implicit-gemm-3xfp16", "implicit-gemm-warp-specialized"],
)
def test_a_schedule_survives_the_way_through_a_convolution_units_values(
    emulated: CudaBench, technique: str
) -> None:
    check_values(unit_of(emulated, SOME["padded"], technique)[2])


def check_values(unit: Unit) -> None:
    """A schedule names all tunables of its unit but how stores go past the caches."""
    kind = TECHNIQUES[unit.technique]
    assert {name: v for name, v in unit.values.items() if name != "NT"} == kind.from_values(
        unit.values
    ).values()
