"""Data movement on a GPU: the kernel that fetches, emulated on the CPU and compared with torch at main and at awkward shapes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import CudaBench, DeviceTarget
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from movement_cases import CASES, ids, r

from warpsmith.agents.expert.planner import plans
from warpsmith.kernels.data_movement.cuda.cuda_data_movement import CudaDataMovement
from warpsmith.records import Graph, Region, Unit
from warpsmith.search.tuner import at_other_values, with_values

FAMILY = CudaDataMovement()
BUILT = ("rotary", "transpose_add", "embedding", "pad", "assign", "mask")


def region_of(bench: CudaBench, graph: Graph) -> Region:
    """The whole graph where it can be written, else what the family cuts around its largest anchor."""
    whole = bench.whole(graph)
    if FAMILY.techniques(graph, whole, bench.facts):
        return whole
    anchor = max((n for n in graph.nodes if FAMILY.covers(graph, n)), key=lambda n: n.output.spec.numel)
    region = FAMILY.cut(graph, anchor, (), True)
    assert region is not None
    return region


def unit_of(bench: CudaBench, graph: Graph) -> Unit:
    region = region_of(bench, graph)
    (technique,) = FAMILY.techniques(graph, region, bench.facts)
    return FAMILY.write(graph, region, technique)


@pytest.mark.parametrize("name", CASES)
def test_it_is_right_at_all_sizes(emulated: CudaBench, name: str) -> None:
    function, main, others = CASES[name]
    graph = emulated.graph(function, *main)
    unit = unit_of(emulated, graph)
    emulated.check(unit, graph, main)
    for args in others:
        emulated.check(unit, emulated.graph(function, *args), args)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rotary", "transpose_gelu", "cat_last"])
def test_it_is_right_at_every_value_of_a_tunable(emulated: CudaBench, name: str) -> None:
    function, main, _ = CASES[name]
    graph = emulated.graph(function, *main)
    for other in at_other_values(unit_of(emulated, graph)):
        emulated.check(other, graph, main)


@pytest.mark.parametrize("name", ["transpose_add", "rotary", "rotary_pairs", "cat_last"])
def test_half_precision(emulated: CudaBench, name: str) -> None:
    function, main, _ = CASES[name]
    args = tuple(a.bfloat16() for a in main)
    graph = emulated.graph(function, *args)
    emulated.check(unit_of(emulated, graph), graph, args, ulp=1.0)


@pytest.mark.parametrize("name", ["transpose_add", "pad", "tril", "rotary", "roll"])
def test_extreme_values_travel_unchanged(emulated: CudaBench, name: str) -> None:
    function, main, _ = CASES[name]
    args = tuple(a.clone() for a in main)
    for a in args:
        a.view(-1)[:4] = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e-42])
    graph = emulated.graph(function, *args)
    emulated.check(unit_of(emulated, graph), graph, args)


def test_integers_are_moved(emulated: CudaBench) -> None:
    args = (ids(1 << 40, 6, 5), ids(9, 6, 3) - 5)
    graph = emulated.graph(lambda x, y: F.pad(torch.cat((x, y), 1).flip(0), (1, 0), value=-7), *args)
    emulated.check(unit_of(emulated, graph), graph, args)


def test_inputs_with_gaps(emulated: CudaBench) -> None:
    args = (r(40, 60, 3).permute(2, 1, 0), r(3, 80, 120)[:, ::2, ::3])
    graph = emulated.graph(lambda x, y: torch.cat((x.relu(), y.transpose(1, 2)[:, :10]), 1), *args)
    emulated.check(unit_of(emulated, graph), graph, args)


def test_an_entry_is_looked_up_only_where_its_row_is_taken(emulated: CudaBench) -> None:
    """The table is shorter than the output: entries past its end belong to nobody."""
    weights, table, other = r(9, 16), ids(9, 3), r(5, 16)
    graph = emulated.graph(lambda w, i, y: torch.cat((F.embedding(i, w), y * 2), 0), weights, table, other)
    unit = unit_of(emulated, graph)
    assert re.search(r"_entry = \(at0 < .*\) \? ", unit.source)
    emulated.check(unit, graph, (weights, table, other))


def packs_of(unit: Unit) -> str:
    (width,) = re.findall(r"constexpr int V = (.*);", unit.source)
    return width


@pytest.mark.parametrize(
    ("name", "wide"),
    [("rotary", True), ("cat_last", True), ("gather", False), ("tril", False), ("flip", True)],
)
def test_packs_are_wide_where_every_bound_allows_it(emulated: CudaBench, name: str, wide: bool) -> None:
    """Where each element may come from a place of its own, a pack is one element."""
    function, main, _ = CASES[name]
    assert (packs_of(unit_of(emulated, emulated.graph(function, *main))) != "1") == wide


def test_a_rotary_embedding_is_one_region_in_the_first_plan(emulated: CudaBench) -> None:
    function, main, _ = CASES["rotary"]
    graph = emulated.graph(function, *main)
    (region,) = plans(graph, emulated.facts)[0]
    assert len(region.nodes) == len(graph.nodes)


def test_a_copy_into_another_layout_is_a_kernel_and_a_plain_one_is_not(emulated: CudaBench) -> None:
    """Windows of an image: runs of a row's channels, which ATen moves one by one."""

    def windows(x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 4, 7, 4, 7, 24).transpose(2, 3).reshape(-1, 49, 24)

    graph = emulated.graph(windows, r(2, 28, 28, 24))
    anchor = next(n for n in graph.nodes if "clone" in n.op)
    region = FAMILY.cut(graph, anchor, (), True)
    assert region is not None
    (technique,) = FAMILY.techniques(graph, region, emulated.facts)
    unit = FAMILY.write(graph, region, technique)
    emulated.check(unit, graph, (r(2, 28, 28, 24),))
    plain = emulated.graph(lambda x, y: torch.cat((x, y), 1), r(60, 50), r(60, 50))
    assert FAMILY.cut(plain, plain.nodes[0], (), True) is None


def test_neighbouring_threads_run_along_what_the_input_is_dense_along(emulated: CudaBench) -> None:
    graph = emulated.graph(lambda x: F.gelu(x.transpose(1, 2)).contiguous(), r(2, 64, 96))
    unit = unit_of(emulated, graph)
    assert {t.name for t in unit.tunables} >= {"TILE_ROWS"}
    for rows in (1, 16, 32):
        emulated.check(with_values(unit, {"TILE_ROWS": rows}), graph, (r(2, 64, 96),))


def test_two_outputs_and_indices_that_are_computed_are_declined(emulated: CudaBench) -> None:
    graph = emulated.graph(lambda x: (x.flip(0) * 2, x.flip(0) + 1), r(6, 5))
    assert not FAMILY.techniques(graph, emulated.whole(graph), emulated.facts)
    args = (r(6, 5), ids(3, 4))
    graph = emulated.graph(lambda x, i: x[i * 2] + 1, *args)
    assert not FAMILY.techniques(graph, emulated.whole(graph), emulated.facts)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", BUILT)
def test_nvcc_builds_it(emulated: CudaBench, toolkit: None, builds: Path, name: str, arch: str) -> None:
    function, main, _ = CASES[name]
    graph = emulated.graph(function, *main)
    target = DeviceTarget(builds / "device", arch=arch)
    build = target.build(unit_of(emulated, graph), graph, "main")
    assert build.ok, [d.message for d in build.diagnostics]


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 40), min_size=3, max_size=3),
    order=st.permutations(range(3)),
    width=st.integers(1, 9),
    dim=st.integers(0, 2),
    pad=st.integers(0, 3),
)
def test_random_movements(
    emulated: CudaBench, sizes: list[int], order: list[int], width: int, dim: int, pad: int
) -> None:
    other = [sizes[d] for d in order]
    other[dim] = width

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.pad(torch.cat((x.permute(order) * 2, y), dim), (pad, 1)).flip(dim) + 1

    args = (r(*sizes), r(*other))
    graph = emulated.graph(function, *args)
    emulated.check(unit_of(emulated, graph), graph, args)
