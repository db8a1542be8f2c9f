"""Convolutions over cells in a row: their arithmetic on the CPU by `cuda_host`, against float64; with nvcc, that they build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import CudaBench, share_values
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from test_implicit_gemm_fp16 import convolved
from test_implicit_gemm_tf32 import EVERY, Case, I, unit_of

from warpsmith.agents.expert.review import review
from warpsmith.kernels.conv.convolution_kinds import read_kind
from warpsmith.kernels.conv.cuda.cuda_convolution import CudaConvolution
from warpsmith.kernels.conv.schedules import implicit_gemm_fp16_schedule as conv_halves
from warpsmith.kernels.conv.schedules.implicit_gemm_warp_specialized_schedule import (
    RATES,
    FullChannels,
    rank_warp_specialized_schedules,
)
from warpsmith.kernels.registry import family_of
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget

R = torch.randn
SOME: dict[str, Case] = {
    "padded": (lambda x, w, b: F.conv2d(x, w, b, padding=1), lambda: (I(3, 10, 11, 37), I(12, 10, 3, 3), I(12))),
    "space": (
        lambda x, w, b: F.relu(F.conv3d(x, w, b, padding=(0, 1, 2))), lambda: (I(2, 8, 6, 7, 9), I(16, 8, 2, 3, 4), I(16)),
    ),
    **{n: c for n, c in EVERY.items() if n not in ("padded", "space and residual", "zeros on two sides", "groups")},
}  # fmt: skip
QUICK = ("padded", "strided and dilated", "transposed, phases of 2 x 3")


@pytest.mark.parametrize("name", QUICK)
def test_a_convolution_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, SOME[name], "implicit-gemm-warp-specialized")
    emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SOME if n not in QUICK])
def test_other_convolutions_are_right(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, SOME[name], "implicit-gemm-warp-specialized")
    emulated.check(unit, graph, args)


@pytest.mark.slow
def test_every_value_of_a_tunable_is_right(emulated: CudaBench) -> None:
    cases = [
        unit_of(emulated, SOME[name], "implicit-gemm-warp-specialized")
        for name in ("padded", "transposed, phases of 2 x 3")
    ]
    for number, other in share_values([unit for _, _, unit in cases]):
        graph, args, _ = cases[number]
        emulated.check(other, graph, args)


@pytest.mark.parametrize("crews", [(2, 2), (4, 2), (3, 3)])
def test_crews_of_warpgroups_make_tiles_of_their_own(emulated: CudaBench, crews: tuple[int, int]) -> None:
    graph, args, unit = unit_of(emulated, SOME["padded"], "implicit-gemm-warp-specialized")
    warpgroups, teams = crews
    values = {
        "WARPGROUPS": warpgroups,
        "CONSUMER_GROUPS": teams,
        "STAGES": 40,
        "SM_COUNT": 2,
    }  # few blocks, several tiles each
    emulated.check(with_values(unit, values), graph, args)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Case, dict[str, int]]:
    """In two dimensions, transposed or not, with values of tunables."""

    def two(least: int, most: int) -> tuple[int, int]:
        return draw(st.integers(least, most)), draw(st.integers(least, most))

    kernel, stride, dilation, padding, groups = (
        two(1, 4),
        two(1, 3),
        two(1, 2),
        two(0, 3),
        draw(st.integers(1, 2)),
    )
    ins, outs = groups * draw(st.sampled_from((8, 9, 16, 20))), groups * draw(st.sampled_from((8, 12, 17)))
    image = (draw(st.integers(1, 3)), ins, draw(st.integers(3, 9)), draw(st.integers(9, 40)))
    transposed = draw(st.booleans())
    weight = (ins, outs // groups, *kernel) if transposed else (outs, ins // groups, *kernel)
    function = F.conv_transpose2d if transposed else F.conv2d
    case = (
        lambda x, w, b: function(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=groups),
        lambda: (I(*image), I(*weight), I(outs)),
    )
    of = {
        "MMA_TILES_M": (1, 2),
        "WARPGROUPS": (1, 2),
        "CONSUMER_GROUPS": (1, 2),
        "BAND": (0, 1),
        "CHUNK": (8, 16),
        "STAGES": (2, 40),
        "K_STEPS_PER_STAGE": (1, 3),
        "SM_COUNT": (1, 132),
    }
    return case, {name: draw(st.sampled_from(values)) for name, values in of.items()}


@pytest.mark.slow
@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(drawn=convolutions())
def test_any_convolution_is_right(emulated: CudaBench, drawn: tuple[Case, dict[str, int]]) -> None:
    case, values = drawn
    try:
        made = case[0](*case[1]())
    except RuntimeError:  # a kernel larger than the image
        assume(False)
    assume(isinstance(made, torch.Tensor) and made.numel() > 0)
    graph, args = emulated.case(*case)
    family = family_of(graph, emulated.whole(graph), "cuda")
    found = (
        [
            u
            for t, u in emulated.techniques(graph, emulated.whole(graph))
            if t.name == "implicit-gemm-warp-specialized"
        ]
        if family is not None
        else []
    )
    assume(found)
    emulated.check(with_values(found[0], values), graph, args)


TAILS: dict[str, Case] = {
    "softmax": (
        lambda x, w, b, c: torch.sigmoid((F.softmax(F.conv_transpose2d(x, w, b, stride=2, padding=1), 1) + c) * 2),
        lambda: (I(2, 16, 9, 7) / 64, I(16, 24, 4, 4), I(24), I(24, 1, 1)),
    ),
    "least of scaled": (
        lambda x, w, b: (F.conv2d(x, w, b) * 2).min(dim=1, keepdim=True).values, lambda: (I(3, 16, 12, 20), I(40, 16, 3, 3), I(40)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAILS)
def test_channels_are_reduced_where_they_are_made(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, TAILS[name], "implicit-gemm-warp-specialized")
    assert unit.family == "convolution_tail"
    emulated.check(unit, graph, args)


def test_precision_is_that_of_tf32(emulated: CudaBench) -> None:
    torch.manual_seed(0)
    got, exact, _ = convolved(emulated, R(2, 20, 10, 12), R(16, 20, 3, 3), "implicit-gemm-warp-specialized")
    assert 5e-5 <= (got - exact).norm() / exact.norm() < 5e-4


def test_each_image_and_each_channel_has_a_scale(emulated: CudaBench) -> None:
    torch.manual_seed(0)
    images, channels = (
        torch.tensor([1e-15, 1.0, 1e12])[:, None, None, None],
        torch.logspace(-9, 9, 8)[:, None, None, None],
    )
    got, exact, _ = convolved(
        emulated, R(3, 16, 9, 11) * images, R(8, 16, 3, 3) * channels, "implicit-gemm-warp-specialized"
    )
    for image in range(3):
        for channel in range(8):
            off = (got - exact)[image, channel].norm() / exact[image, channel].norm()
            assert off < 1e-3, (image, channel)


def test_an_image_is_mended_where_the_sample_told_too_little(emulated: CudaBench) -> None:
    """Halves would be infinite with the scale of the sample, which lies in the middle of some channels."""
    torch.manual_seed(0)
    x = R(2, 16, 12, 20)
    x[1, 3, 0, 1] = 1e4
    got, exact, size = convolved(emulated, x, R(8, 16, 3, 3), "implicit-gemm-warp-specialized")
    assert torch.isfinite(got).all()
    assert ((got - exact).abs() <= 1e-3 * size).all()


def test_infinities_stay_where_they_are(emulated: CudaBench) -> None:
    torch.manual_seed(0)
    x, w = R(1, 8, 12, 20), R(8, 8, 3, 3)
    x[0, 1, 4, 9], x[0, 2, 8, 15] = float("inf"), float("nan")
    got, exact, _ = convolved(emulated, x, w, "implicit-gemm-warp-specialized")
    finite = torch.isfinite(exact)
    assert torch.equal(torch.isfinite(got), finite)
    assert (got[finite] - exact[finite]).norm() / exact[finite].norm() < 5e-4


LONG: Case = (
    lambda x, w, b: F.gelu(F.mish(F.conv2d(x, w, b)) * 2),
    lambda: (R(2, 64, 20, 38), R(128, 64, 3, 3), R(128)),
)
LARGE = {
    "MMA_TILES_M": 1,
    "WARPGROUPS": 4,
    "CONSUMER_GROUPS": 4,
    "CHANNELS": 128,
    "CHUNK": 32,
    "BAND": 0,
    "K_STEPS_PER_STAGE": 6,
    "STAGES": 6,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "values"), [(SOME["padded"], {}), (SOME["transposed plane"], {}), (TAILS["softmax"], {}), (LONG, LARGE)],
    ids=["padded", "transposed", "softmax", "long chain"],
)  # fmt: skip
def test_they_build_without_spills(
    emulated: CudaBench, toolkit: None, builds: Path, case: Case, values: dict[str, int]
) -> None:
    """Sums in local memory are a fault that was there: where what stores them was long, it kept loops over them from being unrolled."""
    graph, _, unit = unit_of(emulated, case, "implicit-gemm-warp-specialized")
    build = CudaTarget(builds / "cuda", arch="sm_90a").build(with_values(unit, values), graph, "main")
    assert build.ok, build.diagnostics
    assert not build.diagnostics  # nor that products wait for each other
    assert review(unit) == []
    assert {k.name for k in build.kernels} == {"cast_to_fp16", "rescale", "powers", "pack", "convolve"}
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels


def test_tiles_that_fit_are_told_apart(emulated: CudaBench) -> None:
    """Of many channels few are made at a time where all of a place are wanted by nobody; else a block makes all."""
    graph, _, unit = unit_of(emulated, LONG, "implicit-gemm-warp-specialized")
    family = family_of(graph, unit.region, "cuda")
    assert isinstance(family, CudaConvolution)
    anchor = family.anchor(graph, unit.region)
    assert anchor is not None
    kind = read_kind(graph, anchor.node)
    assert kind is not None
    shapes = graph.specs[anchor.node.uses[0]].shape, anchor.node.output.spec.shape
    assert {t.schedule.width for t in rank_warp_specialized_schedules(kind, *shapes)} > {32, 64, 128}
    whole = rank_warp_specialized_schedules(kind, *shapes, FullChannels(128, 2))
    assert {t.schedule.width for t in whole} == {128}
    cheap = {t.schedule: t.us for t in rank_warp_specialized_schedules(kind, *shapes, FullChannels(128, 0))}
    assert all(t.us > cheap[t.schedule] for t in whole)
    slow = replace(RATES, stored=RATES.stored / 2)
    assert all(t.load.us(slow) > t.load.us() for t in whole)


def test_fp16_techniques_are_expected_to_take_as_long_as_looks_found(
    emulated: CudaBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expected() -> dict[str, float | None]:
        graph = emulated.graph(F.conv2d, torch.empty(64, 64, 66, 66), torch.empty(64, 64, 3, 3))
        return {t.name: t.us for t, _ in emulated.techniques(graph, emulated.whole(graph))}

    found = expected()
    monkeypatch.setattr(conv_halves, "LONGER", 1.0)
    before = expected()
    assert {name for name in found if found[name] != before[name]} == {"implicit-gemm-fp16"}
    assert (found["implicit-gemm-fp16"] or 0) > (before["implicit-gemm-fp16"] or 0)
