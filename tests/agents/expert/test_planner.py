"""Cutting graphs: what is fused, what stays ATen, and that competing plans differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from warpsmith.agents.expert import planner
from warpsmith.agents.expert.planner import Planner, plans, saving
from warpsmith.facts import Facts
from warpsmith.records import Graph
from warpsmith.tasks.export import export_program, program_graph

FACTS = Facts(threads=2)


class Wrapped(torch.nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> object:
        return self.function(*args)


def graph_of(function: Callable[..., object], *args: torch.Tensor) -> Graph:
    return program_graph(export_program(Wrapped(function).eval(), args, {}, "test.py"), "test.py")


def ops(graph: Graph, names: tuple[str, ...]) -> list[str]:
    return [graph.by_name[n].op.split(".")[1] for n in names]


def test_producers_and_consumers_join_a_reduction() -> None:
    graph = graph_of(lambda x, y: torch.softmax(x * 2 + y, -1).relu(), torch.randn(8, 64), torch.randn(8, 64))
    (region,) = plans(graph, FACTS)[0]
    assert ops(graph, region.nodes) == ["mul", "add", "_softmax", "relu"]


def test_a_plan_leaves_library_calls_to_aten_and_their_epilogue_is_one_region() -> None:
    graph = graph_of(
        lambda x, w, r: F.gelu(F.linear(x, w)) + r,
        torch.randn(8, 64),
        torch.randn(32, 64),
        torch.randn(8, 32),
    )
    assert [["gelu", "add"]] in [[ops(graph, r.nodes) for r in plan] for plan in plans(graph, FACTS)]


def test_reductions_over_different_axes_are_different_regions() -> None:
    graph = graph_of(lambda x: torch.softmax(torch.softmax(x, 0), 1), torch.randn(40, 64))
    assert sorted(len(r.nodes) for r in plans(graph, FACTS)[0]) == [1, 1]


def test_regions_of_a_plan_are_disjoint_and_plans_differ() -> None:
    graph = graph_of(
        lambda x, y: (torch.softmax(x + y, -1) * y).sum(0), torch.randn(40, 64), torch.randn(40, 64)
    )
    found = plans(graph, FACTS)
    assert len({tuple(r.id for r in p) for p in found}) == len(found) > 1
    for plan in found:
        names = [n for r in plan for n in r.nodes]
        assert len(names) == len(set(names))
    savings = [saving(graph, p, FACTS) for p in found]
    assert savings == sorted(savings, reverse=True)


def test_a_single_cheap_op_and_an_unknown_op_are_left_alone() -> None:
    assert plans(graph_of(lambda x: x + 1, torch.randn(40, 64)), FACTS) == []
    assert plans(graph_of(lambda x: torch.sort(x, 1).values, torch.randn(40, 64)), FACTS) == []


def test_a_cheap_op_is_written_when_it_is_all_there_is_and_large() -> None:
    (plan,) = plans(graph_of(lambda x: torch.relu(x), torch.randn(512, 1024)), FACTS)
    assert len(plan) == 1
    both = plans(graph_of(lambda x: torch.sort(torch.relu(x), 1).values, torch.randn(512, 1024)), FACTS)
    assert both == []


def test_a_view_that_only_leads_outside_is_not_written() -> None:
    graph = graph_of(lambda x: F.gelu(x * 2).transpose(0, 1), torch.randn(40, 64))
    (region,) = plans(graph, FACTS)[0]
    assert ops(graph, region.nodes) == ["mul", "gelu"]


def test_measured_time_decides_which_plan_comes_first() -> None:
    x = torch.randn(64, 64)
    graph = graph_of(lambda x: (torch.softmax(x, 0), torch.softmax(x.exp() * 2, 1)), x)
    first, second = [n.name for n in graph.nodes if "softmax" in n.op]
    for slow in (first, second):
        facts = Facts(threads=2, node_us={n.name: 1000.0 if n.name == slow else 1.0 for n in graph.nodes})
        alone = next(p for p in plans(graph, facts) if len(p) == 1)
        assert slow in alone[0].nodes


def test_a_planner_cuts_a_graph_again_only_when_what_was_measured_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.randn(64, 64)
    graph = graph_of(lambda x: torch.softmax(x * 2, 0).relu(), x)
    other = graph_of(lambda x: torch.softmax(x * 2, 1), x)
    asked: list[Facts] = []

    def counted(graph: Graph, facts: Facts) -> list[planner.Plan]:
        asked.append(facts)
        return plans(graph, facts)

    monkeypatch.setattr(planner, "plans", counted)
    own = Planner()
    first = own.plans(graph, FACTS)
    assert first == plans(graph, FACTS)
    first.clear()  # the caller's own list
    later = replace(FACTS, total_us=7.0)  # says nothing of where to cut
    assert own.plans(graph, later) == plans(graph, FACTS)
    assert asked == [FACTS]
    measured = replace(FACTS, node_us={n.name: 5.0 for n in graph.nodes})
    assert own.plans(graph, measured) == plans(graph, measured)
    assert own.plans(other, measured) == plans(other, measured)
    assert own.plans(graph, measured) == plans(graph, measured)
    assert len(asked) == 4
    own.plans(graph, replace(measured, arch="sm_80"))
    assert len(asked) == 5, "techniques depend on it, and cuts on what they take"


def test_a_product_that_a_technique_makes_faster_is_written_anew_first() -> None:
    """Where techniques say what they take, that decides; by its floor at the library's own rate it would come last."""
    facts = Facts(threads=2, bandwidth=4e12, flop_rate=5e13, target="cuda", arch="sm_90a")
    graph = graph_of(lambda x, w: F.linear(x, w).relu(), torch.randn(1024, 2048), torch.randn(2048, 2048))
    assert any("linear" in r.nodes for r in plans(graph, facts)[0])
    slow = replace(facts, arch="sm_80")  # by TF32 on older GPUs: no faster than the library
    assert saving(graph, plans(graph, facts)[0], facts) > 1.5 * saving(graph, plans(graph, slow)[0], slow)
