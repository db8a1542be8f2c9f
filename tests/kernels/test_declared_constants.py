"""Units of small graphs name only strides and pointers that they declare, even where an operand lacks loops of the unit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from unit_bench import Bench

from warpsmith.agents.expert.planner import plans
from warpsmith.codegen.program import Unsupported
from warpsmith.kernels.registry import families_of
from warpsmith.records import Graph, Unit

NAME = re.compile(r"\b(?:in|out)\d+_(?:col|all|at|sizes|steps|row\d*|r\d+|g\d+)\b")
SHAPES = [(1, 1), (1, 1, 8), (8, 1, 1), (1, 8, 1), (5, 1, 8)]
FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "squeezed": lambda x, y: ((x * y).squeeze(), x + y),
    "normed and squeezed": lambda x, y: (x + y, F.layer_norm(torch.exp(x + y), x.shape[-1:]).squeeze()),
    "columns": lambda x, y: (x.sum(0).squeeze(), torch.softmax(x * y, 0)),
    "several axis groups": lambda x, y: (x.mean((0, -1)), torch.exp(x - x.mean((0, -1), keepdim=True)).squeeze()),
    "broadcast": lambda x, y: x.amax(-1, keepdim=True) + torch.zeros_like(y),
    "row results": lambda x, y: (x.argmax(-1), (x > y).any(-1), torch.logsumexp(x * y, -1, keepdim=True)),
    "all together": lambda x, y: ((x * y).sum(), torch.tanh(x).squeeze()),
    "scan": lambda x, y: (torch.cumsum(x * y, -1) * 2).squeeze(),
}  # fmt: skip


def write_units(bench: Bench, graph: Graph) -> Iterator[Unit]:
    """Every technique of every family for every region of the plans, and for the whole graph."""
    regions = {r.id: r for plan in (*plans(graph, bench.facts), [bench.whole(graph)]) for r in plan}
    for region, family in product(regions.values(), families_of("cpu").values()):
        try:
            for technique in family.techniques(graph, region, bench.facts):
                yield family.write(graph, region, technique)
        except Unsupported:
            continue


def find_undeclared(source: str) -> set[str]:
    code = re.sub(r'//[^\n]*|"[^"\n]*"', "", source)
    return {
        name for name in NAME.findall(code)
        if not re.search(rf"(?:int64_t|\*|\* const) {name}(?:\[\])? = ", code)
    }  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_units_declare_the_constants_that_they_name(bench: Bench, name: str) -> None:
    count = 0
    for shape in SHAPES:
        x, y = torch.randn(shape), torch.randn(shape[::-1]).permute(*reversed(range(len(shape))))
        for unit in write_units(bench, bench.graph(FUNCTIONS[name], x, y)):
            count += 1
            assert find_undeclared(unit.source) == set(), (shape, unit.family, unit.technique)
    assert count > 0


def test_an_undeclared_constant_is_found() -> None:
    assert find_undeclared("constexpr int64_t in0_col = 1;\nwrite<out0_col>(in0_col);") == {"out0_col"}


@pytest.mark.parametrize(
    ("function", "shape"),
    [(lambda x: (x * 2).squeeze(), (1, 1)), (lambda x: (x * x).sum(0).squeeze(), (8, 1))],
    ids=["pointwise", "columns"],
)
def test_outputs_without_the_innermost_loop_are_computed_right(
    bench: Bench, function: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape)
    graph = bench.graph(function, x)
    units = list(write_units(bench, graph))
    assert units
    for unit in units:
        bench.check(unit, graph, (x,))
