"""Half-precision products by TMA and wgmma in units: where they are offered, that they build as written, and on a GPU that they are right."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import FACTS, CudaBench

from warpsmith.hardware import H200
from warpsmith.kernels.family import Technique
from warpsmith.kernels.gemm.cuda.cuda_matmul import CudaMatMul
from warpsmith.kernels.gemm.cuda.gemm_tma_wgmma import NAMES, write_wgmma
from warpsmith.kernels.gemm.matmul_pattern import Sizes
from warpsmith.kernels.gemm.schedules.gemm_tma_wgmma_schedule import (
    COOPERATIVE,
    PING_PONG,
    SHAPE_M,
    SHAPE_N,
    build_tma_wgmma_techniques,
    fit_schedule,
)
from warpsmith.records import Graph, Tunable, Unit
from warpsmith.targets.cuda import CudaTarget

R = torch.randn
FAMILY = CudaMatMul()
Arguments = tuple[torch.Tensor, ...]
CASES: dict[str, tuple[Callable[..., object], Callable[[], Arguments]]] = {
    "linear": (lambda x, w: F.linear(x, w), lambda: (R(2, 160, 320).half(), R(256, 320).half())),
    "linear gelu residual": (
        lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r,
        lambda: (R(200, 512).bfloat16(), R(392, 512).bfloat16(), R(392).bfloat16(), R(200, 392).bfloat16()),
    ),
    "by rows": (lambda a, b: a @ b, lambda: (R(136, 256).bfloat16(), R(256, 320).bfloat16())),
    "addmm silu": (
        lambda c, a, b: F.silu(torch.addmm(c, a, b, beta=0.5, alpha=2)),
        lambda: (R(520).half(), R(72, 128).half(), R(128, 520).half()),
    ),
}  # fmt: skip


def offers(
    bench: CudaBench, function: Callable[..., object], *args: torch.Tensor, arch: str = ""
) -> dict[str, Technique]:
    graph = bench.graph(function, *args)
    found = FAMILY.techniques(graph, bench.whole(graph), replace(FACTS, arch=arch))
    return {t.name: t for t in found if t.name in NAMES}


def units(bench: CudaBench, graph: Graph) -> list[Unit]:
    """One for each technique and each width of its tiles, and one for each other shape of its clusters."""
    region = bench.whole(graph)
    made = []
    for technique in FAMILY.techniques(graph, region, FACTS):
        if technique.name in NAMES:
            widths = next(t.domain for t in technique.tunables if t.name == "BN")
            shapes = [{SHAPE_M: m, SHAPE_N: n} for m, n in ((1, 1), (2, 1), (1, 2), (2, 2))]
            made += [
                FAMILY.write(graph, region, technique.at(values))
                for values in (*({"BN": w} for w in widths), *shapes)
            ]
    return made


class TestOffers:
    @pytest.mark.parametrize("name", CASES)
    def test_both_to_what_a_copy_engine_can_move(self, emulated: CudaBench, name: str) -> None:
        function, make = CASES[name]
        assert set(offers(emulated, function, *make())) == set(NAMES)

    @pytest.mark.parametrize(
        ("function", "args"),
        [
            (lambda x, w: F.linear(x, w), (R(64, 60).half(), R(64, 60).half())),
            (lambda a, b: a @ b, (R(64, 64).half(), R(64, 60).half())),
            (lambda a, b: a.t() @ b, (R(64, 64).half(), R(64, 64).half())),
            (lambda a, b: a @ b, (R(3, 64, 64).half(), R(3, 64, 64).half())),
            (lambda a, b: torch.tril(a @ b), (R(64, 64).half(), R(64, 64).half())),
            (lambda a, b: a @ b, (R(64, 64), R(64, 64))),
            (lambda a, b: a @ b, (R(16, 64).half(), R(64, 64).half())),
        ],
        ids=[
            "odd depth",
            "odd rows of the right factor",
            "left factor across",
            "batches",
            "a triangle",
            "float32",
            "few rows",
        ],
    )
    def test_to_nothing_else(
        self, emulated: CudaBench, function: Callable[..., object], args: Arguments
    ) -> None:
        assert not offers(emulated, function, *args)

    def test_to_no_other_architecture(self, emulated: CudaBench) -> None:
        args = R(64, 64).half(), R(64, 64).half()
        assert offers(emulated, torch.mm, *args, arch="sm_90a")
        assert not offers(emulated, torch.mm, *args, arch="sm_80")

    def test_a_unit_says_what_it_requires(self, emulated: CudaBench) -> None:
        graph = emulated.graph(torch.mm, R(64, 128).half(), R(128, 64).half())
        unit = units(emulated, graph)[0]
        assert unit.requires == ("in0_shape[1] % 8 == 0", "in1_shape[1] % 8 == 0")
        assert "// tensor-map: RIGHT = in1 {64 / CLUSTER_SHAPE_M, 64} swizzle 128" in unit.source


@pytest.mark.parametrize(("tiles", "ping_pong"), [(COOPERATIVE, False), (PING_PONG, True)])
def test_every_tile_has_a_ring_that_fits(tiles: dict[tuple[int, int], float], ping_pong: bool) -> None:
    for tile_m, tile_n in tiles:
        schedule = fit_schedule(H200, tile_m, tile_n, ping_pong)
        assert schedule.stages >= 3
        assert schedule.smem_bytes <= H200.smem_bytes_per_block


def test_large_products_are_multiplied_in_clusters() -> None:
    """Alone each block reads both factors from the L2 cache, which gives too little: measured, 224 us at 4096 x 4096 x 4096 by tiles of
    128 x 256, and 300 by 128 x 128.
    """
    sizes = Sizes(1, 4096, 4096, 4096)
    alone, shared = (fit_schedule(H200, 128, 256, False, shape) for shape in ((1, 1), (2, 1)))
    assert alone.us(H200, sizes, 1.1) == pytest.approx(224, rel=0.03)
    assert fit_schedule(H200, 128, 128, False).us(H200, sizes, 1.1) == pytest.approx(300, rel=0.03)
    assert shared.us(H200, sizes, 1.1) < 0.9 * alone.us(H200, sizes, 1.1)
    for technique in build_tma_wgmma_techniques(
        H200, sizes, 3 * 2 * 4096 * 4096, Tunable(name="S", domain=(0,), value=0)
    ):
        values = {t.name: t.value for t in technique.tunables}
        assert values[SHAPE_M] * values[SHAPE_N] > 1


@pytest.mark.parametrize("width", [8, 64, 192, 256])
def test_an_instruction_names_each_operand_once(width: int) -> None:
    text = write_wgmma([width], "bfloat16")
    assert f"wgmma.mma_async.sync.aligned.m64n{width}k16.f32.bf16.bf16" in text
    literal = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text.split(": ", 1)[0]))
    body = literal[literal.index("wgmma.mma_async") :]
    assert [int(n) for n in re.findall(r"%(\d+)", body)] == [
        n for n in range(width // 2 + 5) if n != width // 2 + 2
    ]
    assert re.findall(r"d\[(\d+)\]\)", text) == [str(i) for i in range(width // 2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_units_build_without_spills(emulated: CudaBench, toolkit: None, builds: Path, name: str) -> None:
    function, make = CASES[name]
    graph = emulated.graph(function, *make())
    for unit in units(emulated, graph):
        build = CudaTarget(builds / "cuda", arch="sm_90a").build(unit, graph, "main")
        assert build.ok, build.diagnostics
        assert not any(k.spill_store_bytes for k in build.kernels)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("technique", "tile"),
    [
        (NAMES[0], (128, 256)),
        (NAMES[0], (256, 128)),
        (NAMES[0], (256, 192)),
        (NAMES[1], (128, 128)),
        (NAMES[1], (64, 256)),
    ],
)
@pytest.mark.parametrize("cluster_shape", [(1, 1), (2, 1), (1, 2)])
def test_large_tiles_build_without_spills(
    emulated: CudaBench,
    toolkit: None,
    builds: Path,
    technique: str,
    tile: tuple[int, int],
    cluster_shape: tuple[int, int],
) -> None:
    graph = emulated.graph(lambda x, w: F.silu(F.linear(x, w)), R(512, 128).half(), R(512, 128).half())
    region = emulated.whole(graph)
    offered = next(t for t in FAMILY.techniques(graph, region, FACTS) if t.name == technique)
    schedule = fit_schedule(H200, *tile, technique == NAMES[1], cluster_shape)
    chosen = tuple(Tunable(name=n, domain=(v,), value=v) for n, v in schedule.values().items())
    rest = tuple(t for t in offered.tunables if t.name not in schedule.values())
    unit = FAMILY.write(graph, region, replace(offered, tunables=(*chosen, *rest)))
    build = CudaTarget(builds / "cuda", arch="sm_90a").build(unit, graph, "main")
    assert build.ok, build.diagnostics
    assert not any(k.spill_store_bytes for k in build.kernels)


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU"
)
@pytest.mark.parametrize("name", CASES)
def test_they_are_right_on_a_gpu(emulated: CudaBench, builds: Path, name: str) -> None:
    """Against float64, as far off as the type's own rounding of sums, and of products that cancel."""
    import ctypes

    function, make = CASES[name]
    torch.manual_seed(0)
    args = make()
    graph = emulated.graph(function, *args)
    exact = function(*(a.double() for a in args))
    assert isinstance(exact, torch.Tensor)
    for unit in units(emulated, graph):
        build = CudaTarget(builds / "cuda").build(unit, graph, "main")
        assert build.ok, build.diagnostics
        library = ctypes.CDLL(build.library)
        given = [a.cuda() for a in args]
        output = torch.full(exact.shape, float("nan"), dtype=args[0].dtype, device="cuda")
        ordered = [given[[i.name for i in graph.inputs].index(n)] for n in unit.region.inputs]
        encode = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
        pointers = (ctypes.c_void_p * len(ordered))(*(t.data_ptr() for t in ordered))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        assert (
            library.warpsmith_run(pointers, (ctypes.c_void_p * 1)(output.data_ptr()), None, stream, encode)
            == 0
        )
        torch.cuda.synchronize()
        error = (output.cpu().double() - exact).norm() / exact.norm()
        assert error < 4 * torch.finfo(args[0].dtype).eps, f"{unit.technique} {unit.values}: {error:.2e}"
