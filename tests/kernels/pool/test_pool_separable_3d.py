"""Pooling of volumes plane by plane on a GPU: its arithmetic on the CPU by `cuda_host`; with nvcc, that it builds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import FACTS, CudaBench

from warpsmith.agents.expert.review import review
from warpsmith.kernels.pool.cuda.cuda_pooling import CudaPooling
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import at_other_values
from warpsmith.targets.cuda import CudaTarget

Case = tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]]]
R = torch.randn
FAMILY = CudaPooling()

QUICK: dict[str, Case] = {
    "dilated": (lambda x: F.max_pool3d(x, 3, 2, 1, 3), lambda: (R(1, 2, 20, 17, 16),)),
    "average": (lambda x: F.avg_pool3d(x, 3, 2, 1), lambda: (R(1, 2, 9, 11, 13),)),
}
REST: dict[str, Case] = {
    "rows in tiles": (lambda x: F.max_pool3d(x, 3, 2, 1, 3), lambda: (R(1, 1, 12, 9, 131),)),
    "rows in tiles, padded far": (
        lambda x: F.avg_pool3d(x, (3, 3, 15), (2, 1, 3), (1, 1, 7)), lambda: (R(1, 1, 6, 5, 402),),
    ),
    "a warp a row": (lambda x: F.max_pool3d(x, 3, 2, 1, 3), lambda: (R(1, 1, 10, 50, 128),)),
    "layers": (lambda x: F.max_pool3d(x, 3, 1, 1), lambda: (R(2, 1, 37, 8, 12),)),
    "many rows": (lambda x: F.max_pool3d(x, (2, 3, 4), (1, 2, 1), (0, 1, 2)), lambda: (R(1, 2, 7, 150, 4),)),
    "unlike": (
        lambda x: F.max_pool3d(x, (3, 2, 4), (2, 3, 1), (1, 0, 2), (2, 5, 1)), lambda: (R(2, 2, 11, 13, 10),),
    ),
    "nothing but padding": (lambda x: F.max_pool3d(x, 3, 2, 1, (2, 3, 4)), lambda: (R(1, 2, 8, 8, 9),)),
    "padding of more elements than threads": (
        lambda x: F.max_pool3d(x, (2, 1, 4), (3, 1, 2), (1, 0, 2), (3, 2, 1)), lambda: (R(1, 2, 4, 22, 5),),
    ),
    "without padding": (lambda x: F.max_pool3d(x, 3, 2, 0, 2), lambda: (R(2, 12, 11, 20),)),
    "up to the ceiling": (lambda x: F.max_pool3d(x, 3, 2, 1, 2, ceil_mode=True), lambda: (R(1, 2, 12, 10, 14),)),
    "average of what is there": (
        lambda x: F.avg_pool3d(x, 3, 2, 1, True, False), lambda: (R(1, 3, 10, 12, 14),),
    ),
    "average with a divisor": (
        lambda x: F.avg_pool3d(x, (4, 2, 3), (2, 1, 2), (2, 1, 0), divisor_override=5), lambda: (R(2, 9, 8, 11),),
    ),
    "halves among others": (
        lambda x, y: torch.tanh(F.max_pool3d(x, 3, 2, 1, 3)) + y, lambda: (R(1, 3, 14, 13, 16).half(), R(3, 1, 1, 1).half()),
    ),
    "strided": (
        lambda x: F.max_pool3d(x.transpose(2, 4), 3, 2, 1, 3), lambda: (R(1, 2, 16, 12, 14),),
    ),
}  # fmt: skip
EVERY = {**QUICK, **REST}


def unit_of(emulated: CudaBench, case: Case) -> tuple[Graph, tuple[torch.Tensor, ...], Unit]:
    graph, args = emulated.case(*case)
    node = next(n for n in graph.nodes if FAMILY.covers(graph, n))
    region = FAMILY.cut(graph, node, (), True)
    assert region is not None
    (technique,) = (t for t in FAMILY.techniques(graph, region, FACTS) if t.name == "separable-3d")
    return graph, args, FAMILY.write(graph, region, technique)


@pytest.mark.parametrize("name", QUICK)
def test_volumes_are_pooled_plane_by_plane(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, QUICK[name])
    emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_all_kinds_of_windows_are(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, REST[name])
    emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dilated", "average", "rows in tiles", "layers"])
def test_every_value_of_a_tunable_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, unit = unit_of(emulated, EVERY[name])
    for other in at_other_values(unit):
        emulated.check(other, graph, args)


def test_nans_and_infinities_go_where_torch_has_them(emulated: CudaBench) -> None:
    x = R(1, 2, 12, 11, 13)
    x[0, 0, 3, 4, 5], x[0, 0, 11, 10, 12], x[0, 1, 0, 0, 0] = float("nan"), float("nan"), float("inf")
    x[0, 1, 6:] = -float("inf")
    for pool in (lambda x: F.max_pool3d(x, 3, 2, 1, 2), lambda x: F.avg_pool3d(x, 3, 2, 1)):
        graph, args, unit = unit_of(emulated, (pool, lambda: (x,)))
        emulated.check(unit, graph, args)


def test_it_comes_first_where_neighbouring_windows_share_little(emulated: CudaBench) -> None:
    x = R(1, 2, 20, 20, 20)
    orders = {
        ("separable-3d", "register-tiled"): lambda x: F.max_pool3d(x, 3, 2, 1, 3),
        ("register-tiled", "separable-3d"): lambda x: F.avg_pool3d(x, 3, 2, 1),
        ("register-tiled",): lambda x: F.max_pool3d(x, 2, 2),
    }
    for names, pool in orders.items():
        graph = emulated.graph(pool, x)
        assert tuple(t.name for t, _ in emulated.techniques(graph, emulated.whole(graph))) == names


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_it_builds_without_spills(emulated: CudaBench, toolkit: None, builds: Path, arch: str) -> None:
    largest: Case = (lambda x: F.max_pool3d(x, 4, 2, 2, (2, 2, 5)), lambda: (R(1, 2, 20, 20, 64),))
    names = ("dilated", "average", "rows in tiles, padded far", "halves among others")
    for case in (largest, *(EVERY[n] for n in names)):
        graph, _, unit = unit_of(emulated, case)
        build = CudaTarget(builds / "cuda", arch=arch).build(unit, graph, "main")
        assert build.ok, build.diagnostics
        assert not build.diagnostics
        assert review(unit) == []
        assert all(k.spill_store_bytes == 0 for k in build.kernels), build.kernels
