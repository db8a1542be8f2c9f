"""The expert's reviewer: what it objects to, and that it objects to nothing that the expert writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from warpsmith.agents.expert.brain import hypotheses, write_units
from warpsmith.agents.expert.review import review
from warpsmith.facts import Facts
from warpsmith.records import Graph, Unit
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.testing import chain_task

HOPPER = Facts(threads=2, bandwidth=3e12, flop_rate=5e13, target="cuda", arch="sm_90a")


class Wrapped(torch.nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> object:
        return self.function(*args)


def graph_of(function: Callable[..., object], *args: torch.Tensor) -> Graph:
    return program_graph(export_program(Wrapped(function).eval(), args, {}, "test.py"), "test.py")


def half(*shape: int) -> torch.Tensor:
    return torch.randn(shape).bfloat16()


@pytest.mark.parametrize(
    ("technique", "graph"),
    [
        ("gemm-tma-wgmma", graph_of(F.linear, half(1024, 512), half(768, 512))),
        ("gemm-small-m-mma", graph_of(F.linear, half(8, 512), half(768, 512))),
        (
            "flash-mma",
            graph_of(
                F.scaled_dot_product_attention, half(1, 4, 256, 64), half(1, 4, 256, 64), half(1, 4, 256, 64)
            ),
        ),
        ("register-resident", graph_of(lambda x: torch.softmax(x, -1), half(256, 512))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_that_the_expert_writes_for_halves(technique: str, graph: Graph) -> None:
    """Its products hold their PTX in the unit's own text: once all of them were refused for it, and no block of a served model won."""
    units = [u for h in hypotheses(graph, HOPPER, [], 40) for u in write_units(graph, h, 2, HOPPER)]
    assert technique in {u.technique for u in units}
    assert [(u.technique, review(u)) for u in units if u.language != "aten" and review(u)] == []


@pytest.mark.parametrize(
    ("language", "line", "objection"),
    [
        ("c++", 'asm volatile("nop");', "contains inline assembly"),
        ("c++", "static int calls = 0;", "keeps state between calls"),
        ("cuda", "static int calls = 0;", "keeps state between calls"),
        ("cuda", "clock();", "reads a clock"),
    ],
)
def test_what_looks_like_a_cheat(language: str, line: str, objection: str) -> None:
    task = chain_task()
    region = task.graph.nodes and hypotheses(task.graph, Facts(threads=2), [], 1)[0].region
    unit = Unit(region=region, language=language, source=f"void unit() {{ {line} }}")  # type: ignore[arg-type]
    assert review(unit) == [objection]
