"""Products by warpgroup: their arithmetic on the CPU by `cuda_host`, against float64; with nvcc, that they build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import CudaBench

from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget

R = torch.randn
Made = Callable[[], tuple[torch.Tensor, ...]]
Case = tuple[Callable[..., object], Made, dict[str, int]]  # … and values of tunables

CASES: dict[str, Case] = {
    "several slices, ragged": (lambda a, b: a @ b, lambda: (R(131, 200), R(200, 75)), {}),
    "rows of two dimensions": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)), lambda: (R(3, 30, 66), R(135, 66), R(135)), {},
    ),
    "across the sum, in parts": (
        lambda a, b: torch.relu(a @ b), lambda: (R(330, 70).t(), R(66, 330).t()), {"SPLIT": 3, "STAGES": 2},
    ),
    "batched": (lambda a, b: torch.bmm(a, b), lambda: (R(2, 65, 70), R(2, 70, 68)), {}),
    "several tiles a block": (
        lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=2), lambda: (R(260, 70), R(70, 68), R(68)), {"BLOCKS": 2},
    ),
    "a triangle": (lambda a, b: torch.tril(a @ b), lambda: (R(140, 40), R(40, 140)), {}),
}  # fmt: skip
THIN: dict[str, Case] = {
    "several slices, ragged": (lambda a, w: F.linear(a, w), lambda: (R(100, 200), R(135, 200)), {}),
    "an odd sum": (lambda a, w, b: torch.relu(F.linear(a, w, b)), lambda: (R(9, 131), R(140, 131), R(140)), {}),
    "several tiles a block, in parts": (
        lambda a, w: F.linear(a, w), lambda: (R(64, 330), R(300, 330)), {"SPLIT": 2, "BLOCKS": 2, "STAGES": 2},
    ),
    "batched": (
        lambda a, b: torch.bmm(a, b), lambda: (R(2, 65, 70), R(2, 68, 70).transpose(1, 2)), {"BLOCKS": 1},
    ),
    "one slice": (lambda a, w: F.linear(a, w), lambda: (R(20, 40), R(70, 40)), {}),
}  # fmt: skip


def unit_of(emulated: CudaBench, graph: Graph, values: dict[str, int], small_m: bool = False) -> Unit:
    found = emulated.techniques(graph, emulated.whole(graph))
    unit = next(
        unit
        for technique, unit in found
        if technique.name.endswith("gemm-3xfp16-small-m" if small_m else "gemm-3xfp16")
    )
    return with_values(unit, values)


def product(
    emulated: CudaBench, left: torch.Tensor, right: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(what the unit makes, the truth in float64)"""
    graph = emulated.graph(lambda a, b: a @ b, left, right)
    values = dict(zip((i.name for i in graph.inputs), (left, right), strict=True))
    (got,) = emulated.run(unit_of(emulated, graph, {"SPLIT": 1}), graph, values)
    return got.double(), left.double() @ right.double()


@pytest.mark.parametrize("name", CASES)
def test_products_are_right(emulated: CudaBench, name: str) -> None:
    function, made, values = CASES[name]
    graph, args = emulated.case(function, made)
    emulated.check(unit_of(emulated, graph, values), graph, args)


@pytest.mark.parametrize("name", THIN)
def test_products_whose_large_factor_is_read_once_are_right(emulated: CudaBench, name: str) -> None:
    function, made, values = THIN[name]
    graph, args = emulated.case(function, made)
    emulated.check(unit_of(emulated, graph, values, small_m=True), graph, args)


def test_whoever_stores_or_loads_arrives_by_itself(emulated: CudaBench) -> None:
    """A lane that arrived for its warp was a race to racecheck, which follows each thread's own arrivals."""
    graph, _ = emulated.case(*THIN["one slice"][:2])
    source = unit_of(emulated, graph, {}, small_m=True).source
    arrivals = [line.strip() for line in source.splitlines() if "barrier_arrive" in line]
    assert arrivals == ["ws::barrier_arrive(full + stage);", "ws::barrier_arrive(empty + behind);"]


def test_few_rows_and_a_large_factor_along_the_sum_are_small_m(emulated: CudaBench) -> None:
    def names(left: tuple[int, ...], right: tuple[int, ...], turned: bool = True) -> list[str]:
        def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return F.linear(a, b) if turned else a @ b

        graph = emulated.graph(function, torch.empty(left), torch.empty(right))
        return [t.name for t, _ in emulated.techniques(graph, emulated.whole(graph))]

    assert names((128, 32768), (32768, 32768))[0] == "gemm-3xfp16-small-m"
    assert names((4096, 4096), (4096, 4096))[0] == "gemm-3xfp16"
    assert "gemm-3xfp16-small-m" not in names((129, 4096), (4096, 4096))
    assert "gemm-3xfp16-small-m" not in names((128, 4096), (4096, 4096), turned=False)


def test_sums_do_not_drift_towards_zero(emulated: CudaBench) -> None:
    """Tensor cores cut off: over a long sum of positive terms that must stay within float32's own error."""
    torch.manual_seed(0)
    left, right = torch.rand(64, 640), torch.rand(640, 64)
    got, exact = product(emulated, left, right)
    plain = torch.zeros(64, 64)
    for k in range(640):
        plain += left[:, k : k + 1] * right[k : k + 1]
    assert (got - exact).norm() < (plain.double() - exact).norm()


def test_every_row_has_its_own_scale(emulated: CudaBench) -> None:
    torch.manual_seed(0)
    scales = torch.logspace(-30, 30, 64)[:, None]
    left, right = R(64, 70) * scales, R(70, 64) * torch.logspace(-6, 6, 64)
    left[5] = 0.0
    got, exact = product(emulated, left, right)
    off = (got - exact).abs() / (left.double().abs() @ right.double().abs()).clamp_min(1e-300)
    assert off.max() < 2.0**-21
    assert got[5].eq(0).all()


def test_small_elements_beside_large_ones_count(emulated: CudaBench) -> None:
    """Down to 2^-18 of the largest of a row they keep all bits that two halves hold."""
    left = torch.full((64, 64), 2.0**-17) * (1 + torch.rand(64, 64))
    left[:, 0] = 1.0
    right = torch.eye(64)
    right[0, 0] = 0.0
    got, exact = product(emulated, left, right)
    assert ((got - exact).abs() <= exact * 2.0**-22)[:, 1:].all()
    assert got[:, 0].eq(0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("(k_vector ^ r % 8)", "k_vector"),
        ("ws::products_wait<1>(some[0]);", ""),
        ("warp / 4 * 64 * 128", "0"),
    ],
)
def test_emulation_shows_mistakes(emulated: CudaBench, part: str, wrong: str) -> None:
    """A missing swizzle, sums that are used before they are there, the other warpgroup's rows."""
    args = (R(100, 130), R(130, 66))
    graph = emulated.graph(lambda a, b: a @ b, *args)
    unit = unit_of(emulated, graph, {"SPLIT": 1})
    assert part in unit.source
    with pytest.raises(AssertionError):
        emulated.check(unit.model_copy(update={"source": unit.source.replace(part, wrong)}), graph, args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("turn(x[1], x[0])", "turn(x[0], x[1])"),
        ("ws::products_wait<0>(some);", ""),
        ("32 * i + line, k_vector", "line, k_vector"),
    ],
)
def test_emulation_shows_mistakes_in_what_feeds(emulated: CudaBench, part: str, wrong: str) -> None:
    """The slice before once more, sums that are used before they are there, rows at other places."""
    args = (R(100, 330), R(135, 330))
    graph = emulated.graph(lambda a, w: F.linear(a, w), *args)
    unit = unit_of(emulated, graph, {"SPLIT": 1}, small_m=True)
    assert part in unit.source
    with pytest.raises(AssertionError):
        emulated.check(unit.model_copy(update={"source": unit.source.replace(part, wrong)}), graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("small_m", [False, True])
def test_products_build_without_spills(
    emulated: CudaBench, toolkit: None, builds: Path, small_m: bool
) -> None:
    function, made, values = CASES["rows of two dimensions"]
    graph = emulated.graph(function, *made())
    unit = unit_of(emulated, graph, values, small_m)
    build = CudaTarget(builds / "cuda", arch="sm_90a").build(unit, graph, "main")
    assert build.ok, build.diagnostics
    assert not build.diagnostics  # nor that products wait for each other
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels
