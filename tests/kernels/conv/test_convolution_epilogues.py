"""What follows a convolution, fused into it by the CUDA expert: by `cuda_host` against float64; with nvcc, that it builds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import FACTS, CudaBench

from warpsmith.agents.expert.planner import plans
from warpsmith.agents.expert.review import review
from warpsmith.kernels.conv.cuda.convolution_epilogue import sums_bytes
from warpsmith.kernels.conv.cuda.cuda_convolution_epilogue import ConvolutionEpilogue
from warpsmith.kernels.conv.cuda.cuda_direct_convolution_epilogue import DirectConvolutionEpilogue
from warpsmith.kernels.conv.cuda.epilogue_family import FusedEpilogueFamily
from warpsmith.kernels.family import Technique
from warpsmith.kernels.registry import family_of
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import at_other_values
from warpsmith.targets.cuda import CudaTarget

Case = tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]]]
FAMILIES: dict[str, FusedEpilogueFamily] = {
    f.name: f for f in (ConvolutionEpilogue(), DirectConvolutionEpilogue())
}


def I(*shape: int) -> torch.Tensor:  # noqa: E743
    """Small whole numbers: their products are exact in TF32, and so are the sums."""
    return torch.randint(-4, 5, shape).float()


def _soft(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(torch.softmax(F.conv_transpose2d(x, w, b, stride=2, padding=1), dim=1) * 2)


def _space(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = F.max_pool3d(F.conv3d(x, w, b, padding=1) / 2, 2)
    return torch.relu(torch.logsumexp(torch.tanh(y), dim=1, keepdim=True))


DENSE: dict[str, Case] = {  # on tensor cores
    "least channel": (
        lambda x, w, b: torch.tanh(torch.min(F.conv2d(x, w, b), dim=1, keepdim=True)[0]),
        lambda: (I(2, 5, 11, 23), I(12, 5, 3, 3), I(12)),
    ),
    "softmax over channels, transposed": (_soft, lambda: (I(1, 16, 5, 9) / 16, I(16, 20, 3, 3), I(20))),
    "pool and channels": (_space, lambda: (I(1, 6, 5, 7, 18) / 16, I(16, 6, 3, 3, 3) / 4, I(16))),
    "pool": (
        lambda x, w, b, r: F.mish(F.max_pool2d(F.hardswish(F.conv2d(x, w, b) - r), 2)),
        lambda: (I(2, 4, 11, 37) / 8, I(20, 4, 3, 3) / 4, I(20), I(20, 1, 1)),
    ),
    "mean of all places": (
        lambda x, w, b: F.adaptive_avg_pool2d(F.gelu(F.conv2d(x, w, b, padding=1)), 1) + 1,
        lambda: (I(2, 4, 9, 37) / 8, I(40, 4, 3, 3) / 4, I(40)),
    ),
    "sum of all, pooled": (
        lambda x, w, b: torch.sum(torch.sigmoid(F.avg_pool2d(F.conv2d(x, w, b, groups=2), 4)), dim=[1, 2, 3]),
        lambda: (I(2, 8, 15, 38) / 8, I(24, 4, 3, 3) / 4, I(24)),
    ),
}  # fmt: skip
DIRECT: dict[str, Case] = {  # on CUDA cores
    "channels": (
        lambda x, w, b: torch.clamp(torch.logsumexp(F.conv_transpose2d(x, w, b, stride=2, padding=1), 1, keepdim=True), -1, 1),
        lambda: (I(2, 3, 5, 9) / 4, I(3, 10, 3, 3) / 4, I(10)),
    ),
    "pool and channels": (
        lambda x, w, b: torch.max(
            F.silu(torch.softmax(F.max_pool3d(F.conv_transpose3d(x, w, b, 2, 1, 1), 2), 1) - b.view(1, -1, 1, 1, 1)), dim=1
        )[0],
        lambda: (I(2, 3, 3, 4, 5) / 4, I(3, 12, 3, 3, 3) / 4, I(12)),
    ),
    "pools of pools": (
        lambda x, w, b: F.avg_pool2d(F.avg_pool2d(F.conv2d(x, w, b, padding=1) * 0.5, 2), 2) + b[:4].view(-1, 1, 1),
        lambda: (I(2, 3, 13, 36) / 4, I(4, 3, 3, 3) / 4, I(4)),
    ),
    "mean of what was pooled": (
        lambda x, w, b: torch.clamp(
            F.adaptive_avg_pool3d(F.max_pool3d(F.conv_transpose3d(x, w, b, stride=2, padding=1) * 0.5, 2), 1), 0, 1
        ),
        lambda: (I(2, 3, 3, 6, 5) / 4, I(3, 16, 3, 3, 3) / 4, I(16)),
    ),
}  # fmt: skip


def unit_of(
    emulated: CudaBench, case: Case, family: str
) -> tuple[Graph, tuple[torch.Tensor, ...], list[Unit]]:
    """Of the region that the family cuts, which is all of the graph."""
    graph, args = emulated.case(*case)
    anchored = FAMILIES[family]
    node = next(n for n in graph.nodes if anchored.covers(graph, n))
    region = anchored.cut(graph, node, (), True)
    assert region is not None
    found: list[Technique] = anchored.techniques(graph, region, FACTS)
    return graph, args, [anchored.write(graph, region, t) for t in found]


@pytest.mark.parametrize("name", DENSE)
def test_what_follows_a_convolution_on_tensor_cores_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, units = unit_of(emulated, DENSE[name], "convolution_tail")
    emulated.check(units[0], graph, args)


@pytest.mark.parametrize("name", DIRECT)
def test_what_follows_a_direct_convolution_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, (unit,) = unit_of(emulated, DIRECT[name], "direct_tail")
    emulated.check(unit, graph, args)


@pytest.mark.parametrize("family", ["convolution_tail", "direct_tail"])
def test_units_are_right_at_other_shapes(emulated: CudaBench, family: str) -> None:
    case = (DENSE if family == "convolution_tail" else DIRECT)["pool and channels"]
    _, _, units = unit_of(emulated, case, family)
    made = (I(3, 9, 4, 9, 11) / 16, I(10, 9, 3, 1, 3) / 4, I(10))
    args = made if family == "convolution_tail" else (I(1, 2, 4, 3, 8) / 4, I(2, 9, 3, 3, 3) / 4, I(9))
    emulated.check(units[0], emulated.graph(case[0], *args), args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "name"),
    [("convolution_tail", n) for n in DENSE] + [("direct_tail", n) for n in DIRECT],
)
def test_every_value_of_a_tunable_is_right(emulated: CudaBench, family: str, name: str) -> None:
    """The cases share them: what a value changes hardly depends on what follows the convolution."""
    cases = DENSE if family == "convolution_tail" else DIRECT
    graph, args, units = unit_of(emulated, cases[name], family)
    others = [other for unit in units for other in at_other_values(unit)]
    for other in others[list(cases).index(name) :: len(cases)]:
        emulated.check(other, graph, args)


def test_values_that_are_used_elsewhere_are_not_lost(emulated: CudaBench) -> None:
    """What is pooled, or summed, is returned, too: it has to be stored."""
    tail = FAMILIES["convolution_tail"]
    x, w = I(1, 8, 9, 20), I(16, 8, 3, 3)

    def pooled(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(F.conv2d(x, w))
        return F.max_pool2d(y, 2), y

    def summed(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = F.max_pool2d(F.conv2d(x, w), 2)
        return y.mean((2, 3)), y

    graphs = [emulated.graph(f, x, w) for f in (pooled, summed)]
    cuts = [tail.cut(g, next(n for n in g.nodes if tail.covers(g, n)), (), True) for g in graphs]
    assert cuts[0] is None
    assert cuts[1] is not None
    assert not any("mean" in n for n in cuts[1].nodes)


@pytest.mark.parametrize(
    ("case", "with_tail", "without"),
    [
        (DENSE["pool"], "convolution_tail", "convolution"),
        (DIRECT["pool and channels"], "direct_tail", "direct_convolution"),
    ],
)
def test_plans_with_and_without_what_follows_compete(
    emulated: CudaBench, case: Case, with_tail: str, without: str
) -> None:
    graph, _ = emulated.case(*case)
    cuts = [{f.name for r in p if (f := family_of(graph, r, "cuda"))} for p in plans(graph, FACTS)]
    assert any(with_tail in names for names in cuts)
    assert any(without in names for names in cuts)


def test_sums_over_places_reserve_the_workspace_of_their_technique(emulated: CudaBench) -> None:
    """Tiles of TF32 and of fp16 differ, and so does the number of partial sums that they store."""
    graph, _, units = unit_of(emulated, DENSE["mean of all places"], "convolution_tail")
    family = ConvolutionEpilogue()
    anchor = family.anchor(graph, units[0].region)
    assert anchor is not None
    shape = family.read_convolution(anchor)
    assert {u.technique for u in units} >= {"implicit-gemm-tf32", "implicit-gemm-fp16"}
    for unit in units:
        assert sums_bytes(shape, unit.technique == "implicit-gemm-tf32") in unit.source


def test_windows_that_overlap_or_are_cut_off_stay_apart(emulated: CudaBench) -> None:
    tail = FAMILIES["convolution_tail"]
    x, w = I(1, 8, 9, 20), I(16, 8, 3, 3)
    for pool in (
        lambda y: F.max_pool2d(y, 3, 2),
        lambda y: F.max_pool2d(y, 2, padding=1),
        lambda y: F.avg_pool2d(y, 2, ceil_mode=True),
        lambda y: F.max_pool2d(y, 2, return_indices=True)[1],
        lambda y: y.mean(3),
        lambda y: y.amax((1, 2)),
    ):
        graph = emulated.graph(lambda x, w, pool=pool: pool(F.conv2d(x, w)), x, w)
        node = next(n for n in graph.nodes if tail.covers(graph, n))
        assert tail.cut(graph, node, (), True) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "name"),
    [("convolution_tail", "softmax over channels, transposed"), ("direct_tail", "pool and channels")],
)
def test_units_build_without_spills(
    emulated: CudaBench, toolkit: None, builds: Path, family: str, name: str
) -> None:
    case = (DENSE if family == "convolution_tail" else DIRECT)[name]
    graph, _, units = unit_of(emulated, case, family)
    build = CudaTarget(builds / "cuda", arch="sm_90a").build(units[0], graph, "main")
    assert build.ok, build.diagnostics
    assert not build.diagnostics
    assert review(units[0]) == []
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels)
