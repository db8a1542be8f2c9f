"""What an anchored region takes in and leaves out; the contract between a family and the planner."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from warpsmith.agents.expert.planner import plans
from warpsmith.codegen.writer import Writer
from warpsmith.kernels.anchored import Anchor
from warpsmith.kernels.family import Technique, tunable
from warpsmith.kernels.lrn.cpu.cpp_lrn import CppLrn
from warpsmith.kernels.registry import family_of, list_anchored_families
from warpsmith.kernels.scan.cpu.cpp_scan import CppScan
from warpsmith.records import Graph, Region
from warpsmith.tasks.regions import make_region

SCAN = CppScan()


def cut(bench: Any, function: Any, *args: torch.Tensor, fuse: bool = True) -> tuple[Graph, Region]:
    graph = bench.graph(function, *args)
    node = next(n for n in graph.nodes if SCAN.covers(graph, n))
    region = SCAN.cut(graph, node, (), fuse)
    assert region is not None
    return graph, region


def ops(graph: Graph, region: Region) -> list[str]:
    return [graph.by_name[n].op.split(".")[1] for n in region.nodes]


def test_neighbours_are_taken_in_and_without_fusion_left_out(bench: Any) -> None:
    x = torch.randn(8, 40)
    graph, region = cut(bench, lambda x, y: torch.cumsum(x * y, 1).relu() + y, x, x)
    assert ops(graph, region) == ["mul", "cumsum", "relu", "add"]
    graph, region = cut(bench, lambda x, y: torch.cumsum(x * y, 1).relu() + y, x, x, fuse=False)
    assert ops(graph, region) == ["cumsum"]


def test_a_value_that_others_need_is_not_computed_before_the_anchor(bench: Any) -> None:
    x = torch.randn(8, 40)
    graph, region = cut(bench, lambda x: (lambda e: torch.cumsum(e, 1) + e.sum(1, keepdim=True))(x.exp()), x)
    assert ops(graph, region)[:1] == ["cumsum"]


def test_a_neighbour_that_waits_for_something_outside_is_left_out(bench: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        s = torch.cumsum(x, 1)
        return s.relu() - s.mean()  # the mean leaves the region and would come back

    graph, region = cut(bench, function, torch.randn(8, 40))
    assert ops(graph, region) == ["cumsum", "relu"]
    assert len(region.outputs) == 2


def test_the_anchor_s_value_and_values_made_of_it_may_all_be_returned(bench: Any) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        s = torch.cumsum(x, 1)
        return s, s > 0, (s * 2).to(torch.bfloat16)

    x = torch.randn(8, 40)
    graph, region = cut(bench, function, x)
    assert len(region.outputs) == 3
    for _, unit in bench.techniques(graph, region):
        bench.check(unit, graph, (x,))


def test_a_region_of_other_nodes_goes_to_another_family(bench: Any) -> None:
    graph = bench.graph(lambda x: torch.cumsum(x.flip(0).exp() * 2, 1), torch.randn(8, 40))
    chain = make_region(graph, [n.name for n in graph.nodes if n.op.split(".")[1] in ("exp", "mul")])
    assert family_of(graph, chain).name == "pointwise"  # type: ignore[union-attr]
    assert SCAN.anchor(graph, chain) is None
    assert SCAN.techniques(graph, chain, bench.facts) == []


def test_regions_of_anchors_exclude_each_other_and_leave_the_rest_to_the_common_growth(bench: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        s = torch.cumsum(x * 2, 1).relu()
        return torch.softmax(torch.cumsum(s, 0), 1)

    graph = bench.graph(function, torch.randn(20, 40))
    widest = plans(graph, bench.facts)[0]
    assert [ops(graph, r) for r in widest] == [["mul", "cumsum", "relu"], ["cumsum"], ["_softmax"]]
    assert any(all("cumsum" not in ops(graph, r) for r in p) for p in plans(graph, bench.facts))


def test_a_core_that_others_have_a_part_of_is_neither_cut_nor_written(bench: Any) -> None:
    family = CppLrn()
    graph = bench.graph(lambda x: F.local_response_norm(x, 3), torch.randn(2, 7, 6, 9))
    pool = next(n for n in graph.nodes if family.covers(graph, n))
    whole = family.cut(graph, pool, (), True)
    assert whole is not None
    core = family.core(graph, pool, whole.nodes).nodes
    assert len(core) > 1
    for name in core:
        assert family.cut(graph, pool, {name}, True) is None
    assert family.anchor(graph, make_region(graph, [pool.name])) is None


class Forgetful(CppScan):
    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        return ""


def test_streaming_without_a_fence_is_refused(bench: Any) -> None:
    graph = bench.graph(lambda x: torch.cumsum(x, 1), torch.randn(8, 40))
    technique = Technique("rows", "", "memory", (tunable("NT", 0, 1),))
    with pytest.raises(ValueError, match="fence"):
        Forgetful().write(graph, bench.whole(graph), technique)


def test_every_family_has_a_name_of_its_own() -> None:
    names = [f.name for f in list_anchored_families("cpu")]
    assert all(names)
    assert len(set(names)) == len(names)
