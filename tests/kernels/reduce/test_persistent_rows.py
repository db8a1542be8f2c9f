"""Rows by teams of blocks that stay on the GPU: on the CPU with six blocks at once, each a thread of the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import CudaBench

from warpsmith.agents.expert.review import review
from warpsmith.codegen.lowering.lower import lower
from warpsmith.hardware import H200
from warpsmith.kernels import family as base
from warpsmith.kernels.cuda_unit import cuda_unit
from warpsmith.kernels.reduce.cuda.cuda_reduction import emit_reduction
from warpsmith.kernels.reduce.schedules.persistent_rows_schedule import rank_rows_in_flight, staying
from warpsmith.records import Graph, Unit
from warpsmith.targets.cuda import CudaTarget

R = torch.randn
Case = tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]]]
CASES: dict[str, Case] = {
    "softmax": (lambda x: F.softmax(x, -1), lambda: (R(5, 9000),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (9000,), w, b), lambda: (R(5, 9000) + 9, R(9000), R(9000))),
    "batch norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True), lambda: (R(6, 5, 40, 36), R(5), R(5)),
    ),
    "halves and floats": (
        lambda x, y: (x + y) / (x * y).abs().mean(1, keepdim=True), lambda: (R(5, 9000).half(), R(5, 9000)),
    ),
    "a scale of each row": (
        lambda x, s: x * s * torch.rsqrt((x * s).pow(2).mean(1, keepdim=True)), lambda: (R(7, 9000), R(7, 1)),
    ),
}  # fmt: skip
# By what a block keeps: all of its part of a row, or its end, so that the rest is read again.
KEEP = {"whole": 200, "partly": 16}


def resident(
    emulated: CudaBench, name: str, teams: int, keep: int, **more: int
) -> tuple[Unit, Graph, tuple[torch.Tensor, ...]]:
    """`teams` 0: by clusters, which are one block each here. `more`: values of other tunables."""
    graph, args = emulated.case(*CASES[name])
    region = emulated.whole(graph)
    fixed = {
        "CLUSTER": 8,
        "GROUP": 64,
        "UNROLL": 2,
        "PREFETCH_STEPS": 3,
        "OVERLAP_STEPS": 1,
        "BLOCK": 128,
        "VEC": 4,
        "NT": 1,
    }
    tunables = tuple(
        base.tunable(n, v) for n, v in ({"ROWS_IN_FLIGHT": teams, "SMEM_KIB": keep} | fixed | more).items()
    )
    technique = base.Technique(
        "persistent-cooperative" if teams else "persistent-cluster", "", "memory", tunables, single_pass=True
    )
    body = emit_reduction(lower(graph, region, technique.single_pass), technique.name)
    return cuda_unit(body, region, technique, "norm"), graph, args


@pytest.mark.parametrize(("teams", "keep"), [(0, "partly"), (2, "whole"), (3, "partly")])
def test_teams_go_from_row_to_row(emulated: CudaBench, teams: int, keep: str) -> None:
    emulated.check(*resident(emulated, "layer norm", teams, KEEP[keep]))


@pytest.mark.slow
@pytest.mark.parametrize("keep", KEEP)
@pytest.mark.parametrize("teams", [0, 1, 2, 6])  # clusters; of six blocks, three, or one
@pytest.mark.parametrize("name", CASES)
def test_every_case_is_right(emulated: CudaBench, name: str, teams: int, keep: str) -> None:
    emulated.check(*resident(emulated, name, teams, KEEP[keep]))


def test_all_blocks_of_a_team_get_the_same(emulated: CudaBench) -> None:
    """Rows of one value each: were one part's state lost or an old one taken, the sum would tell."""
    unit, graph, _ = resident(emulated, "softmax", 2, KEEP["partly"])
    x = torch.arange(5.0)[:, None].expand(5, 9000).contiguous() * 3
    (got,) = emulated.run(unit, graph, {graph.inputs[0].name: x})
    assert torch.allclose(got, torch.full_like(got, 1 / 9000), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "more",
    [
        {"OVERLAP_STEPS": -1},  # a row is added when the one before is written
        {"OVERLAP_STEPS": 0, "PREFETCH_STEPS": 1},
        {"OVERLAP_STEPS": 9, "PREFETCH_STEPS": 4},  # more than there is room for
        {"OVERLAP_STEPS": 0, "PREFETCH_STEPS": 1, "SMEM_KIB": 38},  # a row hardly fits
        {"OVERLAP_STEPS": 2, "GROUP": 512},  # parts of few steps
        {"OVERLAP_STEPS": 2, "GROUP": 512, "UNROLL": 4, "PREFETCH_STEPS": 9},  # of one step
    ],
    ids=str,
)
@pytest.mark.parametrize(("name", "teams"), [("softmax", 0), ("layer norm", 1), ("a scale of each row", 3)])
def test_a_row_is_added_while_the_one_before_is_written(
    emulated: CudaBench, name: str, teams: int, more: dict[str, int]
) -> None:
    emulated.check(*resident(emulated, name, teams, KEEP["whole"], **more))


def test_states_are_posted_while_the_row_before_is_written(emulated: CudaBench) -> None:
    """How many steps the first block had written when it posted its states of the second row."""
    written: dict[int, int] = {}
    for early in (-1, 0, 2):
        unit, graph, args = resident(emulated, "softmax", 2, 20, OVERLAP_STEPS=early, PREFETCH_STEPS=4)
        source = unit.source.replace(
            "__global__", 'extern "C" {\nint written = 0, posted[9];\n}\n__global__', 1
        )
        source = source.replace(
            "  number++;", "  number++;\n    if (!slot && !part && !team) posted[number] = written;"
        )
        source = source.replace(
            "      fetch();\n      kept",
            "      if (!slot && !part && !team) written++;\n      fetch();\n      kept",
        )
        unit = unit.model_copy(update={"source": source})
        library = emulated.library(unit, graph)
        emulated.call(library, unit, graph, {i.name: a for i, a in zip(graph.inputs, args, strict=True)})
        written[early] = (ctypes.c_int * 9).in_dll(library, "posted")[2]
    assert written == {-1: 6, 0: 6, 2: 4}, "of six steps"


def test_a_state_changes_once_a_step(emulated: CudaBench) -> None:
    for name in ("softmax", "layer norm"):
        assert "_state.add(args_0_lanes, 0);" in resident(emulated, name, 0, KEEP["whole"])[0].source


def test_a_row_goes_to_as_few_blocks_as_can_load_ahead() -> None:
    first = {}
    for row_bytes in (393216 * 4, 512 * 512 * 4):
        found = staying(H200, row_bytes, 4096)[0]
        first[row_bytes] = {t.name: t.value for t in found.sizes}
    assert [(v["CLUSTER"], v["PREFETCH_STEPS"], v["OVERLAP_STEPS"]) for v in first.values()] == [
        (8, 1, -1),
        (8, 5, -1),
    ]


def test_what_only_the_writing_reads_takes_room_from_what_is_ahead() -> None:
    def first(beside: float) -> tuple[int, ...]:
        sizes = {t.name: t.value for t in staying(H200, 16 << 20, 16, beside)[0].sizes}
        return sizes["PREFETCH_STEPS"], sizes["OVERLAP_STEPS"]

    assert (first(0), first(1)) == ((5, 2), (3, 2))


def test_rows_of_more_than_eight_blocks_go_to_teams_too() -> None:
    found = [staying(H200, row_bytes, 896) for row_bytes in (1 << 20, 1536 << 10, 8 << 20)]
    assert [[s.technique for s in f] for f in found] == [
        ["persistent-cluster"],
        ["persistent-cluster", "persistent-cooperative"],
        ["persistent-cooperative"],
    ]
    clusters, teams = found[1]
    assert teams.gain > clusters.gain, "seven clusters of sixteen fit, and eight teams"


def test_as_many_rows_are_under_way_as_leave_room_to_load_ahead() -> None:
    assert rank_rows_in_flight(H200, 16 << 20, 16) == [1]
    assert rank_rows_in_flight(H200, 8 << 20, 896)[:2] == [2, 1]
    assert rank_rows_in_flight(H200, 393216 * 4, 4096)[0] == 8
    assert max(rank_rows_in_flight(H200, 2 << 20, 896)) <= 14


@pytest.mark.slow
@pytest.mark.parametrize(("name", "teams"), [("layer norm", 1), ("halves and floats", 0)])
def test_they_build(emulated: CudaBench, toolkit: None, builds: Path, name: str, teams: int) -> None:
    unit, graph, _ = resident(emulated, name, teams, 216)
    build = CudaTarget(builds / "cuda", arch="sm_90a").build(unit, graph, "main")
    assert build.ok, build.diagnostics
    assert not build.diagnostics
    assert review(unit) == []
    # What never changes may be kept in memory: ptxas puts a word there rather than take more registers.
    assert all(k.spill_store_bytes <= 16 for k in build.kernels), build.kernels
