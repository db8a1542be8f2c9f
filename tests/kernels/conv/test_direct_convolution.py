"""Direct convolutions on a GPU: their arithmetic on the CPU by `cuda_host`, against float64; with nvcc, that they build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import FACTS, CudaBench

from warpsmith.agents.expert.review import review
from warpsmith.kernels.conv.convolution_kinds import is_direct, read_kind
from warpsmith.kernels.conv.cuda.cuda_direct_convolution import DirectConvolution
from warpsmith.kernels.registry import family_of
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import at_other_values
from warpsmith.targets.cuda import CudaTarget

Case = tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]]]
R = torch.randn
FAMILY = DirectConvolution()


def causal(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv1d(x, w, None, 1, 4, 2, 3)[:, :, :-4]


QUICK: dict[str, Case] = {
    "depthwise": (
        lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1, groups=3)), lambda: (R(2, 3, 18, 20), R(3, 1, 3, 3), R(3)),
    ),
    "transposed 3d": (
        lambda x, w, b: F.conv_transpose3d(x, w, b, 2, 1) * 2, lambda: (R(2, 3, 3, 5, 6), R(3, 5, 3, 3, 3), R(5)),
    ),
    "few made of many": (
        lambda x, w, y: F.conv2d(x, w, None, 1, 1) + y, lambda: (R(1, 90, 7, 10), R(6, 90, 3, 3), R(1, 6, 7, 10)),
    ),
}  # fmt: skip
REST: dict[str, Case] = {
    "tall kernel": (lambda x, w: F.conv2d(x, w, None, groups=2), lambda: (R(2, 2, 20, 13), R(2, 1, 7, 1))),
    "wide kernel": (lambda x, w: F.conv2d(x, w, None, groups=2), lambda: (R(2, 2, 9, 38), R(2, 1, 1, 7))),
    "strided": (lambda x, w: F.conv2d(x, w, None, 2, 2, 1, 3), lambda: (R(2, 3, 23, 32), R(3, 1, 5, 5))),
    "dilated": (lambda x, w: F.conv2d(x, w, None, 1, (2, 4), (2, 4), 3), lambda: (R(1, 3, 19, 24), R(3, 1, 3, 3))),
    "large kernel": (lambda x, w: F.conv2d(x, w, None, 1, 5, 1, 2), lambda: (R(1, 2, 17, 20), R(2, 1, 11, 11))),
    "line": (lambda x, w, b: F.gelu(F.conv1d(x, w, b, 2, 3, 1, 4)), lambda: (R(2, 4, 101), R(4, 1, 7), R(4))),
    "few to many in a line": (lambda x, w: F.conv1d(x, w, None, 1, 1), lambda: (R(2, 2, 67), R(20, 2, 3))),
    "causal": (causal, lambda: (R(2, 3, 40), R(3, 1, 3))),
    "surrounded by zeros": (
        lambda x, w: F.conv2d(F.pad(x, (1, 2, 0, 3)), w, None, 1, 0, 1, 3), lambda: (R(2, 3, 9, 13), R(3, 1, 3, 3)),
    ),
    "depthwise 3d": (lambda x, w: F.conv3d(x, w, None, 1, 1, 1, 3), lambda: (R(2, 3, 5, 6, 12), R(3, 1, 3, 3, 3))),
    "multiplier": (lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 3), lambda: (R(2, 3, 10, 12), R(6, 1, 3, 3))),
    "groups of two": (lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 3), lambda: (R(2, 6, 10, 12), R(6, 2, 3, 3))),
    "groups to three": (lambda x, w: F.conv2d(x, w, None, 1, 0, 1, 2), lambda: (R(2, 10, 9, 11), R(6, 5, 3, 3))),
    "transposed depthwise": (
        lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1, 3), lambda: (R(2, 3, 7, 10), R(3, 1, 3, 3)),
    ),
    "transposed groups": (
        lambda x, w, b: torch.tanh(F.conv_transpose2d(x, w, b, (2, 3), (1, 2), 0, 2, (2, 1))),
        lambda: (R(2, 6, 9, 11), R(6, 9, 3, 5), R(18)),
    ),
    "transposed line": (
        lambda x, w: F.conv_transpose1d(x, w, None, 3, 1, 2, 1, 2), lambda: (R(2, 4, 37), R(4, 5, 4)),
    ),
    "bf16": (
        lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 3), lambda: (R(2, 3, 9, 16).bfloat16(), R(3, 1, 3, 3).bfloat16()),
    ),
    "rows apart": (
        lambda x, w: F.conv2d(x[:, :, :, :17], w, None, 1, 1, 1, 3), lambda: (R(2, 3, 9, 20), R(3, 1, 3, 3)),
    ),
}  # fmt: skip
EVERY = {**QUICK, **REST}
# Transposed, of long strides: up to 25 phases in a plane, most of them without a tap.
FAR_APART: dict[str, Case] = {
    "one tap at most": (
        lambda x, w, b: F.relu(F.conv_transpose2d(x, w, b, 5, 1, 0, 1, 2)), lambda: (R(2, 9, 7, 20), R(9, 5, 3, 3), R(5)),
    ),
    "an odd width": (
        lambda x, w, y: F.conv_transpose2d(x, w, None, 5, 1, 0, 1, 2) + y,
        lambda: (R(2, 3, 4, 37), R(3, 4, 3, 3), R(2, 4, 18, 183)),
    ),
    "padding of the output": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, (3, 6), 0, (2, 5), 2), lambda: (R(2, 4, 5, 7), R(4, 3, 2, 2), R(6)),
    ),
    "an output without a tap": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, (4, 5), 0, (3, 4)), lambda: (R(1, 2, 3, 70), R(2, 9, 1, 1), R(9)),
    ),
    "kernel longer than the stride": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, 5, 3), lambda: (R(1, 3, 6, 9), R(3, 3, 7, 8), R(3)),
    ),
    "in depth": (
        lambda x, w, b: F.conv_transpose3d(x, w, b, (2, 3, 5), (1, 0, 2), 0, 1, (1, 2, 3)),
        lambda: (R(2, 3, 3, 4, 5), R(3, 2, 3, 3, 3), R(2)),
    ),
    "a line": (
        lambda x, w: torch.tanh(F.conv_transpose1d(x, w, None, 7, 2, 5, 3, 2)), lambda: (R(2, 6, 45), R(6, 3, 3)),
    ),
    "depthwise": (
        lambda x, w: F.conv_transpose2d(x, w, None, (1, 8), (1, 3), (0, 1), 3), lambda: (R(2, 3, 9, 11), R(3, 1, 3, 2)),
    ),
    "bf16": (
        lambda x, w: F.conv_transpose2d(x, w, None, 5, 1), lambda: (R(2, 3, 4, 6).bfloat16(), R(3, 4, 3, 3).bfloat16()),
    ),
    "cut short": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, (4, 6), (5, 8)), lambda: (R(1, 3, 6, 8), R(3, 2, 2, 3), R(2)),
    ),
}  # fmt: skip


def units_of(emulated: CudaBench, case: Case) -> tuple[Graph, tuple[torch.Tensor, ...], list[Unit]]:
    graph, args = emulated.case(*case)
    node = next(n for n in graph.nodes if FAMILY.covers(graph, n))
    region = FAMILY.cut(graph, node, (), True)
    assert region is not None
    return graph, args, [FAMILY.write(graph, region, t) for t in FAMILY.techniques(graph, region, FACTS)]


@pytest.mark.parametrize("name", QUICK)
def test_the_first_technique_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, units = units_of(emulated, QUICK[name])
    emulated.check(units[0], graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_technique_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, units = units_of(emulated, EVERY[name])
    assert {u.technique for u in units} == {"register-tiled", "smem-tiled"}
    for unit in units:
        emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAR_APART)
def test_long_strides_are_right(emulated: CudaBench, name: str) -> None:
    graph, args, units = units_of(emulated, FAR_APART[name])
    assert units[0].family == "direct_convolution"
    for unit in units:
        emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["depthwise", "transposed 3d"])
def test_every_value_of_a_tunable_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, units = units_of(emulated, QUICK[name])
    for unit in units:
        for other in at_other_values(unit):
            emulated.check(other, graph, args)


@pytest.mark.slow
def test_a_unit_is_right_at_other_shapes(emulated: CudaBench) -> None:
    _, _, units = units_of(emulated, QUICK["transposed 3d"])
    args = (R(1, 3, 2, 7, 5), R(3, 5, 3, 3, 3), R(5))
    emulated.check(units[0], emulated.graph(QUICK["transposed 3d"][0], *args), args)


def test_a_depthwise_unit_is_right_with_other_channels(emulated: CudaBench) -> None:
    """Then there are other groups, too."""
    _, _, units = units_of(
        emulated, (lambda x, w: F.conv2d(x, w, groups=8), lambda: (R(2, 8, 9, 16), R(8, 1, 3, 1)))
    )
    args = (R(2, 7, 11, 13), R(7, 1, 3, 1))
    graph = emulated.graph(lambda x, w: F.conv2d(x, w, groups=7), *args)
    for unit in units:
        emulated.check(unit, graph, args)


def test_what_makes_the_image_and_much_arithmetic_stay_outside(emulated: CudaBench) -> None:
    graph = emulated.graph(
        lambda x, w: F.conv2d(torch.tanh(x), w, None, 1, 1, 1, 4), R(2, 4, 9, 9), R(4, 1, 3, 3)
    )
    tanh, convolution = graph.nodes
    region = FAMILY.cut(graph, convolution, (), True)
    assert region is not None
    assert tanh.name not in region.nodes
    many = emulated.graph(lambda x, w: F.conv2d(x, w), R(2, 8, 9, 9), R(16, 8, 3, 3))
    kind = read_kind(many, many.nodes[0])
    assert kind is not None
    assert not is_direct(kind)
    assert FAMILY.cut(many, many.nodes[0], (), True) is None


def test_the_expert_takes_depthwise_convolutions(emulated: CudaBench) -> None:
    function, made = QUICK["depthwise"]
    graph = emulated.graph(function, *made())
    family = family_of(graph, emulated.whole(graph), "cuda")
    assert family is not None
    assert family.name == "direct_convolution"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("depthwise", "sm_80"), ("depthwise", "sm_90a"), ("transposed 3d", "sm_90a"), ("one tap at most", "sm_80"),
        ("one tap at most", "sm_90a"), ("kernel longer than the stride", "sm_90a"), ("in depth", "sm_90a"),
    ],
)  # fmt: skip
def test_the_first_technique_builds_without_spills(
    emulated: CudaBench, toolkit: None, builds: Path, name: str, arch: str
) -> None:
    graph, _, units = units_of(emulated, {**QUICK, **FAR_APART}[name])
    build = CudaTarget(builds / "cuda", arch=arch).build(units[0], graph, "main")
    assert build.ok, build.diagnostics
    assert not build.diagnostics
    assert review(units[0]) == []
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels
