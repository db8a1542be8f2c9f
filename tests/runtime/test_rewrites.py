"""A unit without code becomes part of the graph: what is allowed in it, and what it is deployed as."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from warpsmith.errors import TaskError
from warpsmith.records import Candidate, Graph, GraphInput, GraphOutput, Node, Unit, Value
from warpsmith.runtime.deployed import deploy
from warpsmith.runtime.module import OptimizedModule
from warpsmith.runtime.rewrites import deployed_graph, forbidden, with_rewrites
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.tasks.regions import make_region


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x * self.scale * 2.0)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return program_graph(export_program(Twice(), (torch.rand(3, 5),), {}, "t.py"), "t.py")


def unit(graph: Graph, change: Callable[[Node], Node] = lambda node: node) -> Unit:
    """(x · s) · 2 as x · (s · 2); `change` is done to the last node."""
    first, second, _ = graph.nodes
    region = make_region(graph, [first.name, second.name])
    scale = graph.inputs[0]
    spec = scale.spec
    weight = Node(
        name="w",
        op="aten.mul.Tensor",
        args=({"v": scale.name}, 2.0),
        kwargs={},
        outputs=(Value(name="w", spec=spec),),
    )
    product = Node(
        name="y",
        op="aten.mul.Tensor",
        args=({"v": graph.inputs[1].name}, {"v": "w"}),
        kwargs={},
        outputs=second.outputs,
    )
    rewrite = Graph(
        inputs=tuple(GraphInput(name=v, spec=graph.specs[v], role="input", target=v) for v in region.inputs),
        nodes=(weight, change(product)), outputs=tuple(GraphOutput(value=v) for v in region.outputs), tree="[0]",
    )  # fmt: skip
    return Unit(region=region, language="aten", source="", technique="algebraic-x", rewrite=rewrite)


def test_it_is_deployed_in_place_of_its_region(graph: Graph) -> None:
    made, x = unit(graph), torch.randn(3, 5)
    module = Twice()
    there = deployed_graph(graph, [made])
    assert [n.name for n in there.nodes] == ["w", "y", graph.nodes[2].name]
    torch.testing.assert_close(deploy(there, [])([module.scale, x])[0], module(x))
    assert deployed_graph(graph, []) is graph


def test_a_module_of_nothing_else_is_fast(graph: Graph) -> None:
    module, x = Twice(), torch.randn(3, 5)
    fast = OptimizedModule(module, graph, [], rewritten=deployed_graph(graph, [unit(graph)]))
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x))
    assert (fast.fast_calls, fast.fallbacks) == (1, 0)


def test_what_is_compiled_keeps_its_place(graph: Graph) -> None:
    """A unit over the next region fits the changed graph, and a compiled unit's own rewrite changes nothing."""
    made = unit(graph)
    rest = make_region(graph, [graph.nodes[2].name])
    kernel = Unit(region=rest, language="c++", source="//", technique="algebraic-y", rewrite=made.rewrite)
    candidate = Candidate(task_id="t", target="cpu", units=(made, kernel))
    assert candidate.compiled == (kernel,)
    changed = deployed_graph(graph, candidate.units)
    again = make_region(changed, rest.nodes)
    assert (again.inputs, again.outputs) == (rest.inputs, rest.outputs)
    assert [n.name for n in changed.nodes][:2] == ["w", "y"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"op": "aten.empty_like.default"}, "not one of the operations"),
        ({"op": "aten.rand_like.default"}, "not one of the operations"),
        ({"op": "aten.as_strided.default"}, "not one of the operations"),
        ({"op": "prims.mul.default"}, "not one of the operations"),
        ({"op": "aten.expand.default"}, "memory of its own"),
        ({"op": "aten.view.default"}, "memory of its own"),
    ],
)
def test_what_it_may_not_be(graph: Graph, change: dict[str, str], reason: str) -> None:
    right = unit(graph).rewrite
    wrong = unit(graph, lambda node: node.model_copy(update=change)).rewrite
    assert right is not None
    assert wrong is not None
    assert forbidden(right) == ""
    assert reason in forbidden(wrong)


def test_names_must_be_its_own(graph: Graph) -> None:
    taken = unit(graph, lambda node: node.model_copy(update={"name": graph.nodes[2].name}))
    with pytest.raises(TaskError, match="a name twice"):
        with_rewrites(graph, [taken])


def test_it_is_data_and_nothing_else(graph: Graph) -> None:
    made = unit(graph)
    assert made.text.splitlines()[0] == f"w = aten.mul.Tensor({graph.inputs[0].name}, 2.0)"
    for change in (
        {"rewrite": None},
        {"source": "//"},
        {"flags": ("-O1",)},
        {"requires": ("in0_rank == 1",)},
    ):
        with pytest.raises(ValueError, match="a unit in aten has a rewrite"):
            Unit.model_validate({**dict(made), **change})
    coded = Unit.model_validate({**dict(made), "language": "c++"})
    assert coded.code_key != made.code_key
