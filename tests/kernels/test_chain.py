"""Chains as lambdas: broadcasting, dtypes, strides and runs of any length, inside a kernel that only copies."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.codegen.fusion.op_chain import epilogue, prologue
from warpsmith.codegen.fusion.pointwise_growth import grow_after, grow_before
from warpsmith.codegen.program import Unsupported
from warpsmith.codegen.writer import Writer
from warpsmith.facts import Facts
from warpsmith.kernels.anchored import Anchor
from warpsmith.kernels.cpp_anchored import CppAnchored
from warpsmith.kernels.family import Technique, tunable
from warpsmith.records import Graph, Node, Region
from warpsmith.tasks.regions import make_region

RUN = "const int64_t size = out0_shape[RANK - 1] - c < 24 ? out0_shape[RANK - 1] - c : 24;"


class Tripled(CppAnchored):
    """A family whose anchor multiplies by 3 (`aten.mul.Scalar`-like `x * 3`), run by run: the least that uses chains."""

    name = "tripled"

    def covers(self, graph: Graph, node: Node) -> bool:
        return node.op.startswith("aten.mul") and node.args[1] == 3

    def supports(self, graph: Graph, node: Node) -> bool:
        return True

    def prologues(self, graph: Graph, node: Node) -> tuple[str, ...]:
        return (node.uses[0],)

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        plain = Technique("plain", "", "memory", ())
        streamed = Technique("streamed", "", "memory", (tunable("NT", 1, 0), tunable("VEC", 8, 16)))
        return [plain, streamed]

    def helpers(self, anchor: Anchor, technique: Technique) -> str:
        rank = len(anchor.graph.specs[anchor.value].shape)
        return f"constexpr int RANK = {rank};\n"

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        w.line("int64_t rows = 1;")
        w.line("for (int d = 0; d < RANK - 1; ++d) rows *= out0_shape[d];")
        with w.block("for (int64_t row = 0; row < rows; ++row)"):
            w.line("int64_t at[RANK], left = row;")
            w.line("for (int d = RANK - 2; d >= 0; --d) at[d] = left % out0_shape[d], left /= out0_shape[d];")
            with w.block("for (int64_t c = 0; c < out0_shape[RANK - 1]; c += 24)"):
                w.line(RUN)
                w.line("float run[24];")
                w.line("at[RANK - 1] = c;")
                w.line("prologue0(run, at, size);")
                w.line("for (int j = 0; j < size; ++j) run[j] *= 3.0f;")
                w.line("epilogue(run, at, size);")
        w.line("if (NT) ws::fence();")
        return ""


FAMILY = Tripled()
Chained = Callable[..., object]


def cut(graph: Graph) -> Region:
    node = next(n for n in graph.nodes if FAMILY.covers(graph, n))
    region = FAMILY.cut(graph, node, (), True)
    assert region is not None
    return region


def check(bench: Any, function: Chained, args: tuple[torch.Tensor, ...], nodes: int | None = None) -> None:
    """All nodes (or `nodes` of them) are in the region, and both techniques compute it."""
    graph = bench.graph(function, *args)
    region = cut(graph)
    assert len(region.nodes) == (len(graph.nodes) if nodes is None else nodes)
    for technique in FAMILY.techniques(graph, region, bench.facts):
        bench.check(FAMILY.write(graph, region, technique), graph, args)


def test_alone_it_reads_and_writes_what_it_is_given(bench: Any) -> None:
    check(bench, lambda x: x * 3, (torch.randn(5, 61),))
    check(bench, lambda x: x * 3, (torch.randn(61, 5).t(),))
    check(bench, lambda x: x * 3, (torch.randn(4, 3, 9).to(torch.bfloat16),))


def test_chains_before_and_after_broadcast_as_torch_does(bench: Any) -> None:
    def function(x: torch.Tensor, row: torch.Tensor, column: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(((x + row).relu() * column) * 3 - one) * column + x

    args = (torch.randn(6, 5, 50), torch.randn(50), torch.randn(6, 5, 1), torch.randn(()))
    check(bench, function, args)
    check(bench, function, (torch.randn(6, 5, 1), torch.randn(1), torch.randn(6, 1, 1), torch.randn(1)))


def test_masks_and_halves_go_in_and_out(bench: Any) -> None:
    def function(x: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.where(m, x, 0.5) * 3
        return y > 0, y.to(torch.float32), torch.where(m, y, y.neg()).to(torch.float16)

    check(bench, function, (torch.randn(7, 40).to(torch.bfloat16), torch.randn(7, 40) > 0))


def test_a_tensor_filled_with_one_number_is_written(bench: Any) -> None:
    check(bench, lambda x: (lambda y: (y + 1, torch.where(y > 0, 1.0, 2.0)))(x * 3), (torch.randn(7, 40),))


def test_a_diamond_before_the_anchor_is_taken_whole_and_once(bench: Any) -> None:
    graph = bench.graph(lambda x: (lambda e: (e.sigmoid() * e) * 3)(x + 1), torch.randn(7, 40))
    anchor = next(n for n in graph.nodes if FAMILY.covers(graph, n))
    names = grow_before(graph, anchor.uses[0], {anchor.name})
    assert sorted(names) == sorted(n.name for n in graph.nodes if n is not anchor)
    check(bench, lambda x: (lambda e: (e.sigmoid() * e) * 3)(x + 1), (torch.randn(7, 40),))


def test_what_makes_a_chain_s_other_operands_joins_it(bench: Any) -> None:
    def function(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return x * 3 * torch.sigmoid(gate + 1)

    check(bench, function, (torch.randn(7, 40), torch.randn(7, 40)))

    def shared(x: torch.Tensor, gate: torch.Tensor) -> tuple[torch.Tensor, ...]:
        open_ = torch.sigmoid(gate)
        return x * 3 * open_, open_.sum(1)  # also needed elsewhere: stays outside

    check(bench, shared, (torch.randn(7, 40), torch.randn(7, 40)), nodes=2)


def test_values_of_other_shapes_or_that_come_back_stay_outside(bench: Any) -> None:
    def function(x: torch.Tensor, big: torch.Tensor) -> torch.Tensor:
        y = x * 3
        return (y.exp() - y.amax(-1, keepdim=True)) + big

    graph = bench.graph(function, torch.randn(7, 40), torch.randn(4, 7, 40))
    region = cut(graph)
    assert [graph.by_name[n].op.split(".")[1] for n in region.nodes] == ["mul", "exp"]
    anchor = next(n for n in graph.nodes if FAMILY.covers(graph, n))
    after = grow_after(graph, anchor.output.name, {anchor.name, "exp"})
    assert "exp" not in after


def test_what_a_chain_cannot_say_is_refused(bench: Any) -> None:
    graph = bench.graph(lambda x: (x * 3, (x * 3).sum(1)), torch.randn(7, 40))
    anchor = next(n for n in graph.nodes if FAMILY.covers(graph, n))
    region = make_region(graph, [anchor.name])
    with pytest.raises(Unsupported):
        epilogue(graph, region, anchor.uses[0], [])  # an input: nothing in the region makes or stores it
    whole = bench.graph(lambda n: n * 3, torch.ones(7, 40, dtype=torch.int64))
    only = bench.whole(whole)
    with pytest.raises(Unsupported, match="int64"):
        prologue(whole, only, whole.nodes[0].uses[0], [])
    with pytest.raises(Unsupported, match="int64"):
        epilogue(whole, only, whole.nodes[0].output.name, [])


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 17, 48, 65]), min_size=1, max_size=4),
    ones=st.sets(st.integers(0, 3)),
    turn=st.booleans(),
)
def test_any_shape_any_broadcast(bench: Any, shape: list[int], ones: Collection[int], turn: bool) -> None:
    x = torch.randn(shape)
    if turn and len(shape) > 1:
        x = torch.randn(shape[::-1]).permute(*reversed(range(len(shape))))
    small = torch.randn([1 if d in ones else n for d, n in enumerate(shape)])
    graph = bench.graph(lambda x, b: ((x - b).relu() * 3) * b, x, small)
    region = cut(graph)
    unit = FAMILY.write(graph, region, FAMILY.techniques(graph, region, bench.facts)[0])
    bench.check(unit, graph, (x, small))
