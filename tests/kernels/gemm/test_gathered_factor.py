"""Products with matrices that an index picks from a table: emulated on the CPU against float64; with nvcc, that they build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import FACTS, CudaBench, cut_product

from warpsmith.agents.expert.planner import plans
from warpsmith.agents.expert.review import review
from warpsmith.kernels.gemm.cuda.cuda_matmul import CudaMatMul
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget

Case = tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]], dict[str, int]]


def brain(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).bfloat16()


def experts(x: torch.Tensor, table: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """As a mixture of experts has them at decode: a matrix for each token and place."""
    return F.silu(torch.matmul(table[chosen], x[:, None, :, None]))


CASES: dict[str, Case] = {
    "experts of tokens": (experts, lambda: (brain(3, 72), brain(7, 40, 72), torch.randint(7, (3, 2))), {"SPLIT": 2}),
    "from the end, and more than are there": (
        experts, lambda: (brain(4, 33), brain(2, 19, 33), torch.randint(-2, 2, (4, 5))), {"GROUP": 32},
    ),
    "an index of one dimension, in 32 bits": (
        lambda x, table, chosen: torch.bmm(table[chosen], x) + 1,
        lambda: (torch.randn(6, 48, 3), torch.randn(9, 100, 48), torch.randint(9, (6,), dtype=torch.int32)), {},
    ),
    "the right factor, across the sum": (
        lambda x, table, chosen: torch.matmul(x[:, :, None, :], table[chosen]),
        lambda: (torch.randn(3, 4, 64).half(), torch.randn(5, 64, 136).half(), torch.randint(5, (3, 4))), {},
    ),
    "one index for all": (
        lambda x, table, chosen: torch.matmul(table[chosen], x),
        lambda: (brain(3, 2, 64, 1), brain(5, 24, 64), torch.randint(5, (1, 2))), {},
    ),
    "rows of the table apart": (
        experts, lambda: (brain(3, 64), brain(7, 2, 40, 64)[:, 1], torch.randint(7, (3, 2))), {},
    ),
}  # fmt: skip


def unit_of(graph: Graph, values: dict[str, int]) -> Unit:
    region = cut_product(graph)
    (technique,) = CudaMatMul().techniques(graph, region, FACTS)
    assert technique.name == "skinny"
    return with_values(CudaMatMul().write(graph, region, technique), values)


@pytest.mark.parametrize("name", CASES)
def test_picked_matrices_are_right(emulated: CudaBench, name: str) -> None:
    function, make, values = CASES[name]
    graph, args = emulated.case(function, make)
    assert "index" in cut_product(graph).nodes
    emulated.check(unit_of(graph, values), graph, args)


def test_a_unit_is_right_at_other_shapes(emulated: CudaBench) -> None:
    graph, _ = emulated.case(*CASES["experts of tokens"][:2])
    unit = unit_of(graph, {})
    graph, args = emulated.case(experts, lambda: (brain(1, 31), brain(3, 77, 31), torch.randint(3, (1, 4))))
    emulated.check(unit, graph, args)


@pytest.mark.parametrize("what", ["others read the copy", "rows, not matrices"])
def test_other_picks_are_left_alone(emulated: CudaBench, what: str) -> None:
    def function(x: torch.Tensor, table: torch.Tensor, chosen: torch.Tensor) -> object:
        if what == "rows, not matrices":  # of one matrix for all
            return torch.matmul(table[:, 0][chosen[:, 0]], x[0])
        picked = table[chosen]
        out = torch.matmul(picked, x[:1, None, :, None])
        return (out, picked) if what.startswith("others") else out

    graph, _ = emulated.case(function, lambda: (brain(3, 64), brain(7, 40, 64), torch.randint(7, (3, 2))))
    assert "index" not in cut_product(graph).nodes


def test_a_plan_copies_no_matrix(emulated: CudaBench) -> None:
    graph, _ = emulated.case(experts, lambda: (brain(8, 512), brain(32, 768, 512), torch.randint(32, (8, 8))))
    assert {"index", "matmul", "silu"} <= set(plans(graph, FACTS)[0][0].nodes)


@pytest.mark.slow
def test_picking_units_build_without_spills(emulated: CudaBench, toolkit: None, builds: Path) -> None:
    table, x = torch.empty(128, 768, 2048, dtype=torch.bfloat16), torch.empty(8, 2048, dtype=torch.bfloat16)
    graph = emulated.graph(experts, x, table, torch.zeros(8, 8, dtype=torch.int64))
    unit = unit_of(graph, {})
    assert review(unit) == []
    build = CudaTarget(builds / "cuda", arch="sm_90a").build(unit, graph, "main")
    assert build.ok, build.diagnostics
    assert not build.diagnostics
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels), build.kernels
