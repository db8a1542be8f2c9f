"""Convolutions of the CUDA expert on tensor cores: by `cuda_host` against float64; with nvcc, that they build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import FACTS, CudaBench, share_values

from warpsmith.agents.expert.review import review
from warpsmith.kernels.registry import family_of
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget

Case = tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]]]


def I(*shape: int) -> torch.Tensor:  # noqa: E743
    """Small whole numbers: their products are exact in TF32, and so are the sums."""
    return torch.randint(-4, 5, shape).float()


QUICK: dict[str, Case] = {
    "strided and dilated": (
        lambda x, w, b: F.relu(F.conv2d(x, w, b, stride=2, padding=(0, 2), dilation=(2, 1))),
        lambda: (I(1, 12, 15, 20), I(20, 12, 3, 3), I(20)),
    ),
    "space and residual": (
        lambda x, w, b, r: F.conv3d(x, w, b, padding=(0, 1, 2)) + r,
        lambda: (I(1, 3, 6, 7, 9), I(16, 3, 2, 3, 4), I(16), I(1, 16, 5, 7, 10)),
    ),
    "transposed, phases of 2 x 3": (
        lambda x, w: F.conv_transpose2d(
            x, w, stride=(2, 3), padding=(1, 0), output_padding=(1, 0), dilation=(2, 1), groups=2
        ),
        lambda: (I(1, 24, 6, 7), I(24, 8, 5, 4)),
    ),
}  # fmt: skip
REST: dict[str, Case] = {
    "padded": (lambda x, w, b: F.conv2d(x, w, b, padding=1), lambda: (I(2, 5, 11, 37), I(12, 5, 3, 3), I(12))),
    "zeros on two sides": (
        lambda x, w: F.conv2d(F.pad(x, (2, 0, 1, 3)), w), lambda: (I(1, 4, 9, 12), I(8, 4, 3, 3)),
    ),
    "causal": (
        lambda x, w, b: torch.tanh(F.conv1d(x, w, b, padding=6, dilation=3)[:, :, :-6]),
        lambda: (I(2, 10, 70) / 64, I(9, 10, 3), I(9)),
    ),
    "line": (lambda x, w: F.conv1d(x, w, stride=3, dilation=4), lambda: (I(2, 8, 300), I(16, 8, 3))),
    "groups": (lambda x, w: F.conv2d(x, w, groups=2, padding=1), lambda: (I(1, 8, 9, 10), I(20, 4, 3, 3))),
    "transposed plane": (
        lambda x, w, b: F.hardswish(F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1)),
        lambda: (I(2, 16, 7, 9), I(16, 9, 3, 3), I(9)),
    ),
    "transposed space": (
        lambda x, w, b: F.conv_transpose3d(x, w, b, stride=2, padding=1),
        lambda: (I(1, 16, 3, 5, 6), I(16, 8, 3, 3, 3), I(8)),
    ),
    "phases without taps": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, dilation=2), lambda: (I(1, 16, 5, 6), I(16, 8, 3, 3), I(8)),
    ),
    "many phases of a line": (
        lambda x, w: F.conv_transpose1d(x, w, stride=4, padding=1, dilation=3), lambda: (I(2, 32, 40), I(32, 10, 5)),
    ),
    "more phases of a line than CUDA cores take": (
        lambda x, w, b: F.conv_transpose1d(x, w, b, stride=12, padding=3), lambda: (I(2, 8, 30), I(8, 10, 7), I(10)),
    ),
    "transposed without stride": (
        lambda x, w: F.conv_transpose1d(x, w, dilation=3), lambda: (I(2, 12, 140), I(12, 10, 5)),
    ),
}  # fmt: skip
EVERY = {**QUICK, **REST}


def unit_of(
    emulated: CudaBench, case: Case, technique: str = "implicit-gemm-tf32"
) -> tuple[Graph, tuple[torch.Tensor, ...], Unit]:
    graph, args = emulated.case(*case)
    return graph, args, unit_for(emulated, graph, technique)


def unit_for(emulated: CudaBench, graph: Graph, technique: str) -> Unit:
    return next(u for t, u in emulated.techniques(graph, emulated.whole(graph)) if t.name == technique)


@pytest.mark.parametrize("name", QUICK)
def test_a_convolution_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, QUICK[name])
    assert unit.family == "convolution"
    emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_other_convolutions_are_right(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, REST[name])
    emulated.check(unit, graph, args)


@pytest.mark.slow
def test_every_value_of_a_tunable_is_right(emulated: CudaBench) -> None:
    cases = [unit_of(emulated, QUICK[name]) for name in QUICK]
    for number, other in share_values([unit for _, _, unit in cases]):
        graph, args, _ = cases[number]
        emulated.check(other, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["padded", "transposed space"])
def test_tiles_of_large_images_are_right(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, REST[name])
    values = {
        "TILE_PIXELS": 128,
        "CHANNELS": 64,
        "CHUNK": 16,
        "MMA_TILES_PER_WARP": 4,
        "STAGES": 4,
        "K_STEPS_PER_STAGE": 8,
    }
    emulated.check(with_values(unit, values), graph, args)


def test_a_unit_is_right_at_other_shapes(emulated: CudaBench) -> None:
    function, made = QUICK["space and residual"]
    _, _, unit = unit_of(emulated, (function, made))
    args = (I(2, 6, 5, 4, 21), I(10, 6, 3, 1, 2), I(10), I(2, 10, 3, 6, 24))
    emulated.check(unit, emulated.graph(function, *args), args)


def test_a_unit_is_right_with_other_groups(emulated: CudaBench) -> None:
    _, _, unit = unit_of(emulated, EVERY["groups"])
    args = (I(1, 12, 9, 10), I(18, 4, 3, 3))
    emulated.check(unit, emulated.graph(lambda x, w: F.conv2d(x, w, groups=3, padding=1), *args), args)


def test_inputs_are_rounded_to_nearest(emulated: CudaBench) -> None:
    """Cut off, they would all be too small."""
    x, w = 1 + torch.rand(1, 8, 9, 17), 1 + torch.rand(8, 8, 3, 3)
    graph = emulated.graph(lambda x, w: F.conv2d(x, w), x, w)
    unit = unit_for(emulated, graph, "implicit-gemm-tf32")
    values = {i.name: a for i, a in zip(graph.inputs, (x, w), strict=True)}
    (got,) = emulated.run(unit, graph, values)
    exact = F.conv2d(x.double(), w.double())
    relative = (got.double() - exact) / exact
    assert relative.mean().abs() < 2e-5
    assert 1e-6 < relative.std() < 2e-4


def test_what_has_little_arithmetic_is_not_for_tensor_cores(emulated: CudaBench) -> None:
    for channels, groups in ((16, 16), (2, 1)):
        graph = emulated.graph(
            lambda x, w, groups=groups: F.conv2d(x, w, groups=groups),
            I(1, channels, 9, 9),
            I(16, channels // groups, 3, 3),
        )
        family = family_of(graph, emulated.whole(graph), FACTS.target)
        assert family is None or family.name != "convolution"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arch"), [("transposed space", "sm_90a"), ("strided and dilated", "sm_80")])
def test_convolutions_build_without_spills(
    emulated: CudaBench, toolkit: None, builds: Path, name: str, arch: str
) -> None:
    graph, _, unit = unit_of(emulated, EVERY[name])
    build = CudaTarget(builds / "cuda", arch=arch).build(unit, graph, "main")
    assert build.ok, build.diagnostics
    assert not build.diagnostics
    assert review(unit) == []
    assert {k.name for k in build.kernels} == {"pack", "convolve"}
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels)
