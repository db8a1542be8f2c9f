"""CUDA units for matrix products: emulated on the CPU against float64; with nvcc, that they build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import FACTS, CudaBench

from warpsmith.agents.expert.brain import hypotheses, plans, write_units
from warpsmith.agents.expert.review import review
from warpsmith.kernels.gemm.cuda.cuda_matmul import CudaMatMul
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget

Case = tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]]]
R = torch.randn
SMALL = {"BM": 64, "BN": 64, "BK": 16, "WM": 32}  # tiles that are soon emulated, several of them to a case
OWN = ("gemm-3xtf32", "algebraic-gemm-3xtf32", "skinny")

QUICK: dict[str, Case] = {
    "linear": (
        lambda x, w, b, y: torch.sigmoid(F.linear(x, w, b)) + y,
        lambda: (R(3, 25, 40), R(68, 40), R(68), R(3, 25, 68)),
    ),
    "odd": (lambda a, b: torch.relu(a @ b) * 2, lambda: (R(67, 77), R(77, 45))),
    "both across the sum": (lambda a, b: a @ b, lambda: (R(40, 68).t(), R(40, 36))),
    "long sum": (lambda a, b: a @ b + 1, lambda: (R(40, 1100), R(1100, 33))),
    "lower triangle": (lambda a, b: torch.tril(a @ b, 1) * 3, lambda: (R(100, 40), R(40, 90))),
    "matrix times vector": (lambda a, x: torch.relu(a @ x), lambda: (R(37, 1100), R(1100))),
    "vector times matrix": (lambda a, x: x @ a, lambda: (R(333, 37), R(333))),
}
REST: dict[str, Case] = {
    "whole tiles": (lambda a, b: a @ b, lambda: (R(128, 64), R(64, 128))),
    "right factor along the sum": (lambda a, w: F.linear(a, w), lambda: (R(70, 72), R(50, 72))),
    "odd and turned": (lambda a, b: a @ b, lambda: (R(40, 67).t(), R(33, 40).t())),
    "batch": (lambda a, b: torch.bmm(a, b), lambda: (R(3, 20, 40), R(3, 40, 24))),
    "broadcast batch": (lambda a, b: torch.matmul(a, b), lambda: (R(2, 3, 20, 40), R(3, 40, 24))),
    "addend": (
        lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2.0),
        lambda: (R(3, 1, 24), R(3, 20, 40), R(3, 40, 24)),
    ),
    "four dimensions": (lambda a, b: torch.matmul(a, b), lambda: (R(2, 3, 5, 40), R(40, 24))),
    "rows apart": (
        lambda a, b: torch.matmul(a, b), lambda: (R(2, 6, 5, 40).permute(2, 0, 1, 3)[:, :, ::2], R(40, 24)),
    ),
    "upper triangle": (lambda a, b: torch.triu(a @ b), lambda: (R(100, 40), R(40, 100))),
    "few rows": (lambda x, w, b: F.linear(x, w, b), lambda: (R(5, 256), R(70, 256), R(70))),
    "few columns": (lambda a, b: a @ b, lambda: (R(100, 64), R(64, 3))),
    "few columns of a turned matrix": (lambda a, b: a @ b, lambda: (R(64, 100).t(), R(64, 3))),
    "few rows, across": (lambda a, b: a @ b, lambda: (R(8, 200), R(200, 300))),
    "dot": (lambda a, b: torch.dot(a, b), lambda: (R(5000), R(5000))),
    "few rows of halves": (
        lambda x, w, b: F.linear(x, w, b), lambda: (R(5, 256).half(), R(70, 256).half(), R(70).half()),
    ),
    "bfloat16 across": (lambda a, b: a @ b, lambda: (R(3, 200).bfloat16(), R(200, 296).bfloat16())),
}  # fmt: skip
EVERY = {**QUICK, **REST}


def units_of(emulated: CudaBench, case: Case) -> tuple[Graph, tuple[torch.Tensor, ...], list[Unit]]:
    graph, args = emulated.case(*case)
    own = [u for t, u in emulated.techniques(graph, emulated.whole(graph)) if t.name in OWN]
    return graph, args, [with_values(u, SMALL) for u in own]


@pytest.mark.parametrize("name", QUICK)
def test_the_first_technique_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, units = units_of(emulated, QUICK[name])
    emulated.check(units[0], graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_technique_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, units = units_of(emulated, EVERY[name])
    assert units
    for unit in units:
        emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["odd", "long sum", "matrix times vector", "vector times matrix"])
def test_every_value_of_a_tunable_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, units = units_of(emulated, QUICK[name])
    for tunable in units[0].tunables:
        for value in tunable.domain:
            emulated.check(with_values(units[0], {tunable.name: value}), graph, args)
    emulated.check(with_values(units[0], {"SPLIT": 3}), graph, args)


def test_emulated_units_do_not_have_each_others_shared_memory(emulated: CudaBench) -> None:
    """Their functions have the same names, and the first one's memory is smaller."""
    for name in ("matrix times vector", "few rows"):
        graph, args, units = units_of(emulated, EVERY[name])
        emulated.check(next(u for u in units if u.technique == "skinny"), graph, args)


def test_a_unit_is_right_at_other_shapes(emulated: CudaBench) -> None:
    _, _, units = units_of(emulated, EVERY["few rows"])
    assert [u.technique for u in units] == ["skinny", "gemm-3xtf32"]
    args = (R(11, 131), R(7, 131), R(7))  # more rows than are taken at once, and odd ones
    graph = emulated.graph(EVERY["few rows"][0], *args)
    for unit in units:
        emulated.check(unit, graph, args)


def test_long_sums_are_as_exact_as_in_float32(emulated: CudaBench) -> None:
    """Tensor cores cut off what they add; the emulator does so after every four terms."""
    torch.manual_seed(0)
    a, b = R(64, 2048), R(2048, 32)
    graph = emulated.graph(lambda a, b: a @ b, a, b)
    found = {t.name: u for t, u in emulated.techniques(graph, emulated.whole(graph))}
    unit = with_values(found["gemm-3xtf32"], {"BM": 64, "BN": 32, "BK": 32, "WM": 32, "SPLIT": 1})
    (got,) = emulated.run(unit, graph, {i.name: x for i, x in zip(graph.inputs, (a, b), strict=True)})
    exact, chain = a.double() @ b.double(), torch.zeros(64, 32)
    for k in range(2048):
        chain = chain + a[:, k : k + 1] * b[k : k + 1]
    assert (got.double() - exact).norm() <= (chain.double() - exact).norm()


def test_shapes_decide_technique_and_tiles(emulated: CudaBench) -> None:
    def first(*shapes: tuple[int, ...]) -> Unit:
        graph = emulated.graph(torch.matmul, *(torch.empty(s) for s in shapes))
        return next(iter(emulated.techniques(graph, emulated.whole(graph))))[1]

    assert first((2048, 1 << 18), (1 << 18,)).technique == "skinny"
    assert first((4096, 4096), (4096, 4096)).technique != "skinny"
    graph = emulated.graph(torch.matmul, torch.empty(256, 1 << 19), torch.empty(1 << 19, 256))
    found = {t.name: t for t in CudaMatMul().techniques(graph, emulated.whole(graph), FACTS)}
    split = next(t for t in found["gemm-3xtf32"].tunables if t.name == "SPLIT")
    assert split.value >= 16  # four tiles of results, and a GPU to fill


@pytest.mark.parametrize(("arch", "offered"), [("sm_90a", True), ("", True), ("sm_80", False)])
def test_an_architecture_without_the_instructions_is_not_offered_them(
    emulated: CudaBench, arch: str, offered: bool
) -> None:
    graph = emulated.graph(torch.matmul, torch.empty(4096, 4096), torch.empty(4096, 4096))
    found = CudaMatMul().techniques(graph, emulated.whole(graph), replace(FACTS, arch=arch))
    assert ("gemm-3xfp16" in {t.name for t in found}) == offered
    assert "gemm-3xtf32" in {t.name for t in found}


def test_the_library_stays_a_competitor(emulated: CudaBench) -> None:
    graph = emulated.graph(lambda x, w: F.gelu(F.linear(x, w)), R(64, 64), R(64, 64))
    kinds = [{n for region in plan for n in region.nodes} for plan in plans(graph, FACTS)]
    assert {n.name for n in graph.nodes} in kinds
    assert any(len(nodes) < len(graph.nodes) for nodes in kinds)
    halves = emulated.graph(lambda x, w: F.linear(x, w), R(64, 60).half(), R(64, 60).half())
    assert not CudaMatMul().supports(halves, halves.nodes[0])  # rows of 120 bytes: no tensor map has them
    (best,) = hypotheses(graph, FACTS, [], 1)
    assert write_units(graph, best, 1, FACTS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arch"), [("linear", "sm_90a"), ("both across the sum", "sm_80"), ("few rows", "sm_90a"),
                                            ("few rows, across", "sm_90a")])  # fmt: skip
def test_units_build_without_spills(
    emulated: CudaBench, toolkit: None, builds: Path, name: str, arch: str
) -> None:
    graph, _, units = units_of(emulated, EVERY[name])
    unit = with_values(units[0], {"BM": 128, "BN": 128, "BK": 32})
    build = CudaTarget(builds / "cuda", arch=arch).build(unit, graph, "main")
    assert build.ok, build.diagnostics
    assert not build.diagnostics
    assert review(unit) == []
    assert all(k.spill_store_bytes == 0 for k in build.kernels), build.kernels
