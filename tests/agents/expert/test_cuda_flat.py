"""Convolutions over cells in a row: their arithmetic on the CPU by `cuda_host`, against float64; with nvcc, that they build."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import CudaBench
from test_cuda_convolution import EVERY, Case, I, unit_of

from warpsmith.search.tuner import at_other_values, with_values

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
    graph, args, unit = unit_of(emulated, SOME[name], "flat")
    emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SOME if n not in QUICK])
def test_other_convolutions_are_right(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, SOME[name], "flat")
    emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_every_value_of_a_tunable_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, SOME[name], "flat")
    for other in at_other_values(unit):
        emulated.check(other, graph, args)


@pytest.mark.parametrize("crews", [(2, 2), (4, 2), (3, 3)])
def test_crews_of_warpgroups_make_tiles_of_their_own(emulated: CudaBench, crews: tuple[int, int]) -> None:
    graph, args, unit = unit_of(emulated, SOME["padded"], "flat")
    warpgroups, teams = crews
    values = {
        "WARPGROUPS": warpgroups,
        "TEAMS": teams,
        "STAGES": 40,
        "UNITS": 2,
    }  # few blocks, several tiles each
    emulated.check(with_values(unit, values), graph, args)


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
    graph, args, unit = unit_of(emulated, TAILS[name], "flat")
    assert unit.family == "convolution_tail"
    emulated.check(unit, graph, args)
