"""Convolutions by warpgroup on halves: their arithmetic on the CPU by `cuda_host`, against float64; with nvcc, that they
build."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import FACTS, CudaBench, share_values
from test_implicit_gemm_tf32 import EVERY, QUICK, REST, Case, I, unit_for, unit_of

from warpsmith.agents.expert.review import review
from warpsmith.kernels.registry import family_of
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget

R = torch.randn
BOTH = ("implicit-gemm-fp16", "implicit-gemm-3xfp16")
FEW: dict[str, Case] = {
    "one channel": (lambda x, w: F.conv2d(x, w, stride=2, padding=3), lambda: (I(2, 1, 21, 40), I(16, 1, 7, 7))),
    "two channels, dilated": (
        lambda x, w, b: F.conv1d(x, w, b, padding=8, dilation=3), lambda: (I(2, 2, 90), I(20, 2, 13), I(20)),
    ),
    "a row shorter than a channel vector": (lambda x, w: F.conv2d(x, w), lambda: (I(1, 2, 9, 20), I(8, 2, 5, 3))),
}  # fmt: skip

OTHERS: dict[str, Case] = {**REST, **FEW}
SOME: dict[str, Case] = {**QUICK, **FEW}


def convolved(
    emulated: CudaBench, x: torch.Tensor, w: torch.Tensor, technique: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(what the unit makes, the truth in float64, the same of magnitudes)"""
    graph = emulated.graph(lambda x, w: F.conv2d(x, w), x, w)
    unit = with_values(unit_for(emulated, graph, technique), {"CHUNK": 16})
    values = {i.name: a for i, a in zip(graph.inputs, (x, w), strict=True)}
    (got,) = emulated.run(unit, graph, values)
    return got.double(), F.conv2d(x.double(), w.double()), F.conv2d(x.double().abs(), w.double().abs())


@pytest.mark.parametrize("name", QUICK)
def test_a_convolution_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, QUICK[name], "implicit-gemm-fp16")
    emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_convolutions_are_right(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, OTHERS[name], "implicit-gemm-fp16")
    emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_three_products_are_right(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, SOME[name], "implicit-gemm-3xfp16")
    emulated.check(unit, graph, args)


@pytest.mark.slow
def test_every_value_of_a_tunable_is_right(emulated: CudaBench) -> None:
    cases = [unit_of(emulated, QUICK[name], "implicit-gemm-fp16") for name in QUICK]
    for number, other in share_values([unit for _, _, unit in cases]):
        graph, args, _ = cases[number]
        emulated.check(other, graph, args)


def test_a_unit_is_right_at_other_shapes(emulated: CudaBench) -> None:
    function, made = QUICK["space and residual"]
    _, _, unit = unit_of(emulated, (function, made), "implicit-gemm-fp16")
    args = (I(2, 18, 5, 4, 21), I(10, 18, 3, 1, 2), I(10), I(2, 10, 3, 6, 24))
    emulated.check(unit, emulated.graph(function, *args), args)


@pytest.mark.parametrize(
    ("technique", "least", "most"), [("implicit-gemm-fp16", 5e-5, 5e-4), ("implicit-gemm-3xfp16", 0, 3e-7)]
)
def test_precision_is_that_of_the_terms(
    emulated: CudaBench, technique: str, least: float, most: float
) -> None:
    torch.manual_seed(0)
    got, exact, _ = convolved(emulated, R(1, 20, 10, 12), R(16, 20, 3, 3), technique)
    assert least <= (got - exact).norm() / exact.norm() < most


@pytest.mark.parametrize("technique", BOTH)
def test_scales_follow_the_elements(emulated: CudaBench, technique: str) -> None:
    """Between output channels, and between chunks of channels: later ones larger, then smaller."""
    torch.manual_seed(0)
    sizes = torch.logspace(-25, 20, 48).roll(16)[:, None, None]
    got, exact, size = convolved(
        emulated,
        R(1, 48, 9, 9) * sizes,
        R(8, 48, 3, 3) / sizes * torch.logspace(-9, 9, 8)[:, None, None, None],
        technique,
    )
    # What is small beside the largest element of a patch so far may be lost; here all products are as large as others.
    some, whole, _ = convolved(emulated, R(1, 48, 9, 9) * 1e-20, R(8, 48, 3, 3) * 1e20, technique)
    assert torch.isfinite(got).all()
    assert (some - whole).norm() / whole.norm() < (5e-4 if technique == "implicit-gemm-fp16" else 3e-7)
    assert ((got - exact).abs() <= size).all()


@pytest.mark.parametrize("technique", BOTH)
def test_infinities_stay_where_they_are(emulated: CudaBench, technique: str) -> None:
    torch.manual_seed(0)
    x, w = R(1, 3, 12, 20), R(8, 3, 3, 3)
    x[0, 1, 4, 9], x[0, 2, 8, 15] = float("inf"), float("nan")
    got, exact, _ = convolved(emulated, x, w, technique)
    finite = torch.isfinite(exact)
    assert torch.equal(torch.isfinite(got), finite)
    assert (got[finite] - exact[finite]).norm() / exact[finite].norm() < 5e-4


def test_exact_comes_first_where_libraries_do_not_round(emulated: CudaBench) -> None:
    for channels, more in ((3, ()), (32, ("implicit-gemm-warp-specialized",))):
        graph = emulated.graph(
            lambda x, w: F.conv2d(x, w), torch.empty(64, channels, 128, 128), torch.empty(64, channels, 3, 3)
        )
        family = family_of(graph, emulated.whole(graph), "cuda")
        assert family is not None
        offered = family.techniques(graph, emulated.whole(graph), FACTS)
        assert (offered[0].name == "implicit-gemm-3xfp16") is (channels == 3)
        assert {t.name for t in offered} == {"implicit-gemm-tf32", *BOTH, *more}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "technique"),
    [
        ("padded", "implicit-gemm-fp16"),
        ("transposed space", "implicit-gemm-fp16"),
        ("space and residual", "implicit-gemm-3xfp16"),
    ],
)
def test_they_build_without_spills(
    emulated: CudaBench, toolkit: None, builds: Path, name: str, technique: str
) -> None:
    graph, _, unit = unit_of(emulated, EVERY[name], technique)
    build = CudaTarget(builds / "cuda", arch="sm_90a").build(unit, graph, "main")
    assert build.ok, build.diagnostics
    assert not build.diagnostics  # nor that products wait for each other
    assert review(unit) == []
    assert {k.name for k in build.kernels} == {"powers", "pack", "convolve"}
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels
