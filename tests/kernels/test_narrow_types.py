"""Casts to and from integers of 8 to 32 bits and float8, and arithmetic of such integers, inside the expert's kernels: every
byte is torch's, on a CPU and on emulated CUDA; and a plan has one region for a whole quantising reduction.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import warpsmith.tasks.suites.serving
from warpsmith.agents.expert.planner import plans
from warpsmith.codegen.lowering.axis_relations import VIEWS, base_name
from warpsmith.codegen.lowering.lower import try_lower
from warpsmith.facts import Facts
from warpsmith.runtime.interpreter import run_graph

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
ROWS, WIDTH = 13, 45
Results = tuple[torch.Tensor, ...]
Case = tuple[Callable[..., Results | torch.Tensor], tuple[torch.Tensor, ...]]


def floats() -> torch.Tensor:
    """Random values; ties; what float8 and small integers cannot hold; zeros of both signs; NaN."""
    torch.manual_seed(2)
    x = torch.randn(ROWS, WIDTH) * 30
    x[0, :8] = torch.tensor([0.0, -0.0, 2.5, -2.5, 300.7, -300.7, 464.0, float("nan")])
    x[1, :6] = torch.tensor([2.0**-9, 2.0**-10, 1.5 * 2.0**-9, 17.0, 19.0, 40000.0])
    return x


def integers(dtype: torch.dtype) -> torch.Tensor:
    """The type's ends among random values."""
    torch.manual_seed(3)
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    x = torch.randint(low, high + 1, (ROWS, WIDTH), dtype=torch.int64)
    x[0, :4] = torch.tensor([low, high, 0, 1])
    return x.to(dtype)


def compute_arithmetic(a: torch.Tensor, b: torch.Tensor) -> Results:
    largest = torch.maximum(a, b)
    return (
        a + b, a * b, a - b, -a, a & 15, a ^ b, ~a, a >> 2, a << 3, a >> (b & 31), torch.where(a > b, a, b), largest.clamp(2, 90),
    )  # fmt: skip


def cast_floats(x: torch.Tensor) -> Results:
    y = x * 1.5
    return (
        y.to(torch.int8), y.to(torch.uint8), y.to(torch.int16), y.to(torch.int32), y.to(torch.int8).float() * 2, y.to(torch.int8) > 3,
        (y > 0).to(torch.int8),
    )  # fmt: skip


def cast_to_float8(x: torch.Tensor, half: torch.Tensor) -> Results:
    y = (x * 1.5).clamp(-448, 448)
    return y.to(E4M3), y.to(E5M2), y.to(E4M3).float() + half, half.to(E5M2).float(), y.to(E4M3).to(E5M2)


def cast_integers(wide: torch.Tensor) -> Results:
    x = wide + 1
    return (
        x.to(torch.int8),
        x.to(torch.uint8),
        x.to(torch.int16),
        x.to(torch.int64),
        x.to(torch.int8).to(torch.int16) + x.to(torch.int16),
    )


def quantise_rows(x: torch.Tensor) -> Results:
    scale = x.abs().nan_to_num(1.0).amax(dim=-1, keepdim=True).clamp(min=1e-8) / 448
    y = x / scale
    return y.to(E4M3), torch.round(y / 4).clamp(-100, 100).to(torch.int8), scale, (scale * 50).to(torch.uint8)


def quantise_columns(x: torch.Tensor) -> Results:
    scale = x.abs().nan_to_num(1.0).amax(dim=0).clamp(min=1e-8) / 448
    y = x / scale
    return (
        y.to(E5M2),
        torch.round(y / 4).clamp(-100, 100).to(torch.int8),
        (scale * 50).to(torch.uint8),
        scale.to(E4M3),
    )


def quantise_halves(x: torch.Tensor) -> Results:
    """Scale and quotient are halves: what torch rounds them to decides the step."""
    scale = x.abs().amax(dim=-1, keepdim=True) / 127
    y = x / scale
    return torch.round(y).to(torch.int8), (y * 3).to(E4M3), scale, y.float().exp().to(E5M2)


CASES: dict[str, Case] = {
    "bfloat16 rows": (quantise_halves, (torch.randn(64, 300, generator=torch.Generator().manual_seed(5)).bfloat16(),)),
    "float16 rows": (quantise_halves, (torch.randn(64, 300, generator=torch.Generator().manual_seed(6)).half(),)),
    "floats to integers": (cast_floats, (floats(),)),
    "floats to float8": (cast_to_float8, (floats(), floats().half())),
    "float8 to floats": (
        lambda a, b, s: (a.float() * s, b.bfloat16() + a.bfloat16(), b.clone()),
        (floats().to(E4M3), floats().clamp(-100, 100).to(E5M2), torch.linspace(0.5, 2.0, WIDTH)),
    ),
    "integers to integers": (cast_integers, (integers(torch.int32),)),
    "int8": (compute_arithmetic, (integers(torch.int8), integers(torch.int8).flip(0))),
    "uint8": (compute_arithmetic, (integers(torch.uint8), integers(torch.uint8).flip(0))),
    "int32": (compute_arithmetic, (integers(torch.int32), integers(torch.int32).flip(0))),
    "nibbles": (
        lambda packed, shift, scale: (((packed >> shift) & 15) - 8).to(torch.float16) * scale,
        (integers(torch.int32)[:, None], torch.arange(0, 32, 4).int()[:, None], torch.ones(WIDTH).half()),
    ),
    "rows": (quantise_rows, (floats(),)),
    "columns": (quantise_columns, (floats(),)),
}  # fmt: skip
MOVES: dict[str, Case] = {
    "bytes woven": (lambda p: torch.stack([p & 15, p >> 4], -1).flatten(-2), (integers(torch.uint8),)),
    "joined": (
        lambda x, y: torch.cat([torch.round(x).clamp(-9, 9).nan_to_num(0.0).to(torch.int8), y], 1),
        (floats(), integers(torch.int8)),
    ),
    "turned to float8": (lambda x: (x * 10).t().contiguous().to(E4M3), (torch.linspace(-9, 9, 64 * 96).view(64, 96),)),
    "turned from float8": (
        lambda x: x.t().contiguous().float() * 2, (torch.linspace(-9, 9, 64 * 96).view(64, 96).to(E4M3),)
    ),
}  # fmt: skip
TARGETS = ("bench", "emulated")


def bits(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype == torch.bool or not tensor.is_floating_point():
        return tensor
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()])


def check(bench: Any, case: Case) -> None:
    """Every technique's every bit; NaN as such where a result is wider than a byte."""
    function, args = case
    graph = bench.graph(function, *args)
    values = {i.name: a for i, a in zip(graph.inputs, args, strict=True)}
    units = [unit for _, unit in bench.techniques(graph, bench.whole(graph))]
    assert units
    for unit in units:
        wanted = run_graph(graph, values, wanted=set(unit.region.outputs))
        for name, got in zip(unit.region.outputs, bench.run(unit, graph, values), strict=True):
            want = wanted[name]
            if want.is_floating_point() and want.element_size() > 1:
                got, want = got.nan_to_num(3.25), want.nan_to_num(3.25)
            assert torch.equal(bits(got), bits(want)), (unit.technique, name)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_every_byte_is_torchs(request: pytest.FixtureRequest, name: str, target: str) -> None:
    check(request.getfixturevalue(target), CASES[name])


@pytest.mark.parametrize("name", MOVES)
def test_bytes_that_move_are_torchs(bench: Any, name: str) -> None:
    check(bench, MOVES[name])


REFUSED: dict[str, Case] = {
    "bits of another type": (lambda x: (x * 2).view(torch.int32) + 1, (floats(),)),
    "a limit beyond the type": (
        lambda x, most: torch.minimum(x, most) + 1, (integers(torch.int8), torch.tensor(300, dtype=torch.int64))
    ),
    "a sum of integers": (lambda x: x.to(torch.int8).sum(dim=-1), (floats(),)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_is_declined(bench: Any, name: str) -> None:
    function, args = REFUSED[name]
    graph = bench.graph(function, *args)
    assert try_lower(graph, bench.whole(graph)) is None


SMALL: dict[str, dict[str, int]] = {
    "quantise_token_int8_bf16": {"tokens": 64, "width": 256},
    "quantise_block_int8_bf16": {"tokens": 64, "width": 256},
    "quantise_block_fp8_bf16": {"tokens": 64, "width": 256},
    "rmsnorm_quantise_int8_bf16": {"tokens": 64, "width": 256},
    "silu_multiply_quantise_fp8_bf16": {"tokens": 64, "hidden": 256},
}
MACHINES = {"cpu": Facts(threads=2), "cuda": Facts(threads=2, bandwidth=3e12, flop_rate=5e13, target="cuda")}


@pytest.mark.parametrize("name", SMALL)
def test_a_quantising_reduction_is_one_region(bench: Any, name: str) -> None:
    """Its first plan covers all that is no view."""
    (folder,) = warpsmith.tasks.suites.serving.__path__
    task = runpy.run_path(f"{folder}/{name}.py")
    task["get_inputs"].__globals__.update(SMALL[name])
    graph = bench.graph(task["Model"](*task["get_init_inputs"]()), *task["get_inputs"]())
    work = {n.name for n in graph.nodes if base_name(n) not in {*VIEWS, "select"}}
    for facts in MACHINES.values():
        (region,) = plans(graph, facts)[0]
        assert work <= set(region.nodes)
