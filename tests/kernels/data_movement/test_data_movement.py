"""Data movement: every shape of kernel, compiled for real and compared with torch at main and at awkward shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from movement_cases import CASES, ids, r

from warpsmith.agents.expert.planner import plans
from warpsmith.kernels.data_movement.cpu.cpp_data_movement import CppDataMovement
from warpsmith.kernels.family import Technique
from warpsmith.records import Graph, Region, Unit


def region_of(bench: Any, graph: Graph) -> Region:
    """The whole graph where it can be written, else what the family cuts around its largest anchor."""
    whole = bench.whole(graph)
    if CppDataMovement().techniques(graph, whole, bench.facts):
        return whole
    anchor = max(
        (n for n in graph.nodes if CppDataMovement().covers(graph, n)), key=lambda n: n.output.spec.numel
    )
    region = CppDataMovement().cut(graph, anchor, (), True)
    assert region is not None
    return region


def units(bench: Any, graph: Graph, region: Region) -> Iterator[tuple[Technique, Unit]]:
    for technique in CppDataMovement().techniques(graph, region, bench.facts):
        yield technique, CppDataMovement().write(graph, region, technique)


RARE = {
    "pad_replicate", "slice_step", "slice_tail", "shift", "gather_rows", "index_columns", "repeat", "triu", "stack",
    "pixel_unshuffle", "channel_shuffle", "repeat_last", "pad_crop", "heads", "tril", "transpose_gelu", "cat_channels", "index_select",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in RARE else []) for n in CASES]
)
def test_every_shape_of_kernel_is_right_at_all_sizes(bench: Any, name: str) -> None:
    function, main, others = CASES[name]
    graph = bench.graph(function, *main)
    region = region_of(bench, graph)
    written = list(units(bench, graph, region))
    assert written
    for _, unit in written:
        bench.check(unit, graph, main)
    first = written[0][1]
    for args in others:
        bench.check(first, bench.graph(function, *args), args)


@pytest.mark.parametrize(
    ("name", "technique"),
    [("transpose_gelu", "tiles"), ("tokens", "tiles"), ("rotary_pairs", "interleaved"), ("pixel_shuffle", "interleaved")],
)  # fmt: skip
def test_the_technique_for_the_access_pattern_comes_first(bench: Any, name: str, technique: str) -> None:
    function, main, _ = CASES[name]
    graph = bench.graph(function, *main)
    found = CppDataMovement().techniques(graph, region_of(bench, graph), bench.facts)
    assert found[0].name == technique
    assert [t.name for t in found[1:]] == (["runs"] if technique == "tiles" else [])


def test_a_rotary_embedding_is_one_region_in_the_first_plan(bench: Any) -> None:
    graph = bench.graph(*CASES["rotary"][:1], *CASES["rotary"][1])
    (region,) = plans(graph, bench.facts)[0]
    assert {n.op.split(".")[1] for n in graph.nodes} == {
        graph.by_name[n].op.split(".")[1] for n in region.nodes
    }
    assert len(region.nodes) == len(graph.nodes)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["transpose_add", "rotary_pairs", "cat_last"])
def test_half_precision(bench: Any, name: str, dtype: torch.dtype) -> None:
    function, main, _ = CASES[name]
    args = tuple(a.to(dtype) for a in main)
    graph = bench.graph(function, *args)
    for _, unit in units(bench, graph, region_of(bench, graph)):
        bench.check(unit, graph, args, ulp=1.0)


@pytest.mark.parametrize("name", ["transpose_add", "pad", "tril", "rotary", "roll"])
def test_extreme_values_travel_unchanged(bench: Any, name: str) -> None:
    function, main, _ = CASES[name]
    args = tuple(a.clone() for a in main)
    for a in args:
        a.view(-1)[:4] = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e-42])
    graph = bench.graph(function, *args)
    for _, unit in units(bench, graph, region_of(bench, graph)):
        bench.check(unit, graph, args)


def test_strided_inputs(bench: Any) -> None:
    x, y = r(40, 60, 3).permute(2, 1, 0), r(3, 80, 120)[:, ::2, ::3]
    graph = bench.graph(
        lambda x, y: torch.cat((x.relu(), y.transpose(1, 2)[:, :10]), 1), x, y[:, :, :40].transpose(1, 2)
    )
    args = (x, y[:, :, :40].transpose(1, 2))
    for _, unit in units(bench, graph, region_of(bench, graph)):
        bench.check(unit, graph, args)


def test_what_cannot_be_written_is_declined(bench: Any) -> None:
    graph = bench.graph(lambda x, y: torch.cat((x, y), 1), r(6, 5).double(), r(6, 5).double())
    assert CppDataMovement().cut(graph, graph.nodes[0], (), True) is None
    graph = bench.graph(lambda x, y: (torch.cat((x, y), 1) * 2).sum(1), r(6, 5), r(6, 5))
    region = CppDataMovement().cut(graph, graph.nodes[0], (), True)
    assert region is not None
    assert {graph.by_name[n].op.split(".")[1] for n in region.nodes} == {"cat", "mul"}


def test_a_copy_at_the_speed_of_memory_is_left_to_aten(bench: Any) -> None:
    graph = bench.graph(lambda x, y: torch.cat((x, y), 1), r(60, 50), r(60, 50))
    assert CppDataMovement().cut(graph, graph.nodes[0], (), True) is None
    turned = bench.graph(lambda x: x.t().contiguous(), r(90, 80))
    anchor = next(n for n in turned.nodes if "clone" in n.op)
    assert CppDataMovement().cut(turned, anchor, (), True) is not None


def test_integers_are_moved(bench: Any) -> None:
    args = (ids(1 << 40, 6, 5), ids(9, 6, 3) - 5)
    graph = bench.graph(lambda x, y: F.pad(torch.cat((x, y), 1).flip(0), (1, 0), value=-7), *args)
    for _, unit in units(bench, graph, bench.whole(graph)):
        bench.check(unit, graph, args)


def test_costly_arithmetic_is_not_repeated_for_every_copy(bench: Any) -> None:
    graph = bench.graph(lambda x: F.gelu(x).repeat(1, 8), r(50, 100))
    anchor = next(n for n in graph.nodes if "repeat" in n.op)
    region = CppDataMovement().cut(graph, anchor, (), True)
    assert region is not None
    assert region.nodes == (anchor.name,)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 40), min_size=3, max_size=3),
    order=st.permutations(range(3)),
    widths=st.tuples(st.integers(0, 9), st.integers(1, 9)),
    dim=st.integers(0, 2),
    pad=st.integers(0, 3),
)
def test_random_movements(
    bench: Any, sizes: list[int], order: list[int], widths: tuple[int, int], dim: int, pad: int
) -> None:
    other = [sizes[d] for d in order]
    other[dim] = widths[1]

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        moved = F.pad(torch.cat((x.permute(order) * 2, y), dim), (pad, 1))
        return moved.flip(dim) + 1

    args = (r(*sizes), r(*other))
    graph = bench.graph(function, *args)
    for _, unit in units(bench, graph, region_of(bench, graph)):
        bench.check(unit, graph, args)
