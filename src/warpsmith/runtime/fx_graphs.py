"""A graph as a `torch.fx.GraphModule`: what `torch.compile`, `torch.export` and autograd can look into.

In: a graph, and regions of it that operators replace. Out: a module without state that takes the graph's inputs in order and
returns the output leaves as a tuple; inputs that the graph updates are updated in place at the end, as in `runtime.source`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import TaskError
from ..records import Graph, GraphInput, GraphOutput, Node, Region
from ..records.partial_update import takes_update
from ..tasks.regions import topological_groups
from ..tasks.values import literal_tensor
from .interpreter import aten_op, decode, find_executed_op, takes_device


@dataclass(frozen=True)
class Replacement:
    """An operator in place of a region; it takes and returns the region's values in their order, literals left out.

    An fx module stands for its own operations, which are put into the graph.
    """

    region: Region
    operator: Callable[..., Any]


def extract_region(graph: Graph, region: Region) -> Graph:
    """The region as a graph of its own. Its inputs and outputs are the region's, under the same names; literals stay literals."""
    members = set(region.nodes)
    literals = {i.name: i for i in graph.inputs if i.data}
    inputs = tuple(
        literals.get(name) or GraphInput(name=name, spec=graph.specs[name], role="input", target=name)
        for name in region.inputs
    )
    return Graph(
        inputs=inputs,
        nodes=tuple(n for n in graph.nodes if n.name in members),
        outputs=tuple(GraphOutput(value=name) for name in region.outputs),
        tree=str(list(range(len(region.outputs)))),
    )


def to_fx(
    graph: Graph,
    replacements: Sequence[Replacement] = (),
    device: str = "cpu",
    updates: bool = True,
    aliases: bool = False,
) -> torch.fx.GraphModule:
    """Build the module; `device`: where its tensors live. Without `updates` the updated values are further results instead;
    with `aliases` a result that is an input's new value is that input, and memory of its own otherwise.

    Raises TaskError where regions overlap or wait for each other.
    """
    return _Builder(graph, replacements, device).build(updates, aliases)


class _Builder:
    def __init__(self, graph: Graph, replacements: Sequence[Replacement], device: str) -> None:
        self.graph, self.device = graph, device
        self.operators = {r.region.id: r.operator for r in replacements}
        self.steps = topological_groups(graph, [r.region for r in replacements])
        self.fx = torch.fx.Graph()
        self.values: dict[str, torch.fx.Node] = {}
        self.literals: dict[str, torch.Tensor] = {}

    def build(self, updates: bool, aliases: bool) -> torch.fx.GraphModule:
        for item in self.graph.inputs:
            self.values[item.name] = self._literal(item) if item.data else self.fx.placeholder(item.name)
        for step in self.steps:
            if isinstance(step, Region):
                self._call_operator(step)
            else:
                self._call_aten(step)
        self.fx.output(self._finish(updates, aliases))
        module = torch.fx.GraphModule(self.literals, self.fx)
        for name, tensor in self.literals.items():
            module.register_buffer(name, tensor, persistent=False)
        return module

    def _literal(self, item: GraphInput) -> torch.fx.Node:
        name = f"literal_{len(self.literals)}"
        self.literals[name] = literal_tensor(item).to(self.device)
        return self.fx.get_attr(name)

    def _call_aten(self, node: Node) -> None:
        args = tuple(decode(a, self.values) for a in node.args)
        kwargs = {k: decode(v, self.values) for k, v in node.kwargs.items()}
        if takes_device(node.op) and (self.device != "cpu" or "device" in kwargs):
            kwargs["device"] = torch.device(self.device)
        target = aten_op(find_executed_op(node.op))
        self._name(self.fx.call_function(target, args, kwargs), node)

    def _name(self, call: torch.fx.Node, node: Node) -> None:
        """Bind the results of a call to the names of its values."""
        if len(node.outputs) == 1 and not returns_list(node.op):
            self._bind(node.outputs[0].name if node.outputs[0] else "", call)
            return
        for number, value in enumerate(node.outputs):
            if value is not None:
                self._bind(value.name, self.fx.call_function(operator.getitem, (call, number)))

    def _bind(self, name: str, node: torch.fx.Node) -> None:
        if name:
            self.values[name] = node

    def _call_operator(self, region: Region) -> None:
        literals = {i.name for i in self.graph.inputs if i.data}
        args = tuple(self.values[name] for name in region.inputs if name not in literals)
        replacement = self.operators[region.id]
        if isinstance(replacement, torch.fx.GraphModule):
            results = self._inline(replacement, args)
        else:
            call = self.fx.call_function(replacement, args)
            count = len(region.outputs)
            results = (
                [self.fx.call_function(operator.getitem, (call, n)) for n in range(count)]
                if count > 1
                else [call]
            )
        for name, node in zip(region.outputs, results, strict=True):
            self._bind(name, node)

    def _inline(self, module: torch.fx.GraphModule, args: tuple[torch.fx.Node, ...]) -> list[torch.fx.Node]:
        """Copy the operations of another module."""
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        nodes = dict(zip(placeholders, args, strict=True))
        for node in module.graph.nodes:
            if node.op == "get_attr":
                name = f"literal_{len(self.literals)}"
                self.literals[name] = getattr(module, node.target)
                nodes[node] = self.fx.get_attr(name)
        results: Any = self.fx.graph_copy(module.graph, nodes)
        return list(results)

    def _finish(self, updates: bool, aliases: bool) -> tuple[Any, ...]:
        changed = [o for o in self.graph.outputs if o.role != "output" and o.value is not None]
        pairs = [(str(o.value), find_updated_input(self.graph, o)) for o in changed]
        targets = dict(pairs)
        results = [o for o in self.graph.outputs if o.role == "output"]
        if not updates:
            return (*(self._leaf(o, ()) for o in results), *(self.values[str(o.value)] for o in changed))
        if aliases:
            leaves = [
                self.values[targets[o.value]] if o.value in targets else self._leaf(o, ()) for o in results
            ]
        else:
            leaves = [self._leaf(o, [target for _, target in pairs]) for o in results]
        for value, target in pairs:
            self.fx.call_function(torch.ops.aten.copy_.default, (self.values[target], self.values[value]))
        return tuple(leaves)

    def _leaf(self, output: GraphOutput, updated: Collection[str]) -> Any:
        if output.value is None:
            return output.literal
        value = self.values[output.value]
        if output.value in updated:
            return self.fx.call_function(torch.ops.aten.clone.default, (value,))
        return value


def find_updated_input(graph: Graph, output: GraphOutput) -> str:
    """Find the graph input that takes an update. Raises TaskError where there is none."""
    for item in graph.inputs:
        if takes_update(item, output):
            return item.name
    raise TaskError(f"the graph updates {output.target}, which is none of its inputs")


def returns_list(op: str) -> bool:
    """Return whether an op returns a list of tensors."""
    returns = aten_op(op)._schema.returns  # type: ignore[attr-defined]
    return len(returns) == 1 and str(returns[0].type) == "List[Tensor]"


__all__ = ["Replacement", "extract_region", "find_updated_input", "returns_list", "to_fx"]
