"""An algebraic rewrite in ATen's own operations: what such a win is measured against, besides the task as written.

In: a graph, a region and the pattern in it (`algebra`). Out: a graph with the region's inputs and outputs, for
`Unit.rewrite`. It is the pattern's own operations in another order, at the shapes of the graph given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import prod
from typing import Any

from ...records import Graph, GraphInput, GraphOutput, Node, Region, TensorSpec, Value
from .algebra import SummedMap


def rewritten_region(graph: Graph, region: Region, found: SummedMap) -> Graph:
    """The region with the sum taken before the map; what is around the pattern stays as it is."""
    core = {n.name for n in found.nodes}
    nodes: list[Node] = []
    for name in region.nodes:
        if name == found.reduction.name:
            nodes += _Rewriting(graph, found).nodes()
        elif name not in core:
            nodes.append(graph.by_name[name])
    return Graph(
        inputs=tuple(GraphInput(name=v, spec=graph.specs[v], role="input", target=v) for v in region.inputs),
        nodes=tuple(nodes), outputs=tuple(GraphOutput(value=v) for v in region.outputs),
        tree=json.dumps(list(range(len(region.outputs)))),
    )  # fmt: skip


class _Rewriting:
    """The pattern's nodes in their new order: the sum, of the bias too; the same map of what it gives; the scalings."""

    def __init__(self, graph: Graph, found: SummedMap) -> None:
        self.graph, self.found = graph, found
        self.made: list[Node] = []
        self.stem = f"{found.reduction.name}_first"
        while any(name.startswith(self.stem) for name in (*graph.specs, *graph.by_name)):
            self.stem += "_"

    def nodes(self) -> list[Node]:
        found, bias = self.found, self.found.map.bias
        named = {found.summed.value: self._sum(found.summed.value, found.summed_dims)}
        if bias is not None:
            named[bias] = self._bias(bias)
        for node in found.nodes[:-1]:
            shape = [1 if d in found.dims else n for d, n in enumerate(node.output.spec.shape)]
            named[node.output.name] = self._add(node.op, _renamed(node.args, named), shape)
        if not found.keepdim:
            last = named[found.nodes[-2].output.name]
            self._add("aten.squeeze.dims", ({"v": last}, list(found.dims)), found.reduction.output.spec.shape)
        # The last value is the region's own.
        return [*self.made[:-1], self.made[-1].model_copy(update={"outputs": (found.reduction.output,)})]

    def _sum(self, value: str, dims: list[int]) -> str:
        """The pattern's own sum or mean, of an operand."""
        shape = [1 if d in dims else n for d, n in enumerate(self.graph.specs[value].shape)]
        return self._add(self.found.reduction.op, ({"v": value}, dims, True), shape)

    def _bias(self, bias: str) -> str:
        """Summed with the features; where rows are summed, once for each of them."""
        found = self.found
        if found.over_features:
            return self._sum(bias, [0])
        if found.mean:
            return bias
        rows = prod(found.nodes[0].output.spec.shape[d] for d in found.dims)
        return self._add("aten.mul.Tensor", ({"v": bias}, rows), self.graph.specs[bias].shape)

    def _add(self, op: str, args: tuple[Any, ...], shape: Iterable[int]) -> str:
        """One more node; its value's name."""
        sizes = tuple(shape)
        stride = tuple(prod(sizes[d + 1 :]) for d in range(len(sizes)))
        spec = TensorSpec(shape=sizes, dtype=self.found.reduction.output.spec.dtype, stride=stride)
        name = f"{self.stem}{len(self.made)}"
        self.made.append(Node(name=name, op=op, args=args, kwargs={}, outputs=(Value(name=name, spec=spec),)))
        return name


def _renamed(arg: Any, names: dict[str, str]) -> Any:
    """An argument of a node that reads other values."""
    if isinstance(arg, dict) and "v" in arg:
        return {"v": names.get(arg["v"], arg["v"])}
    return type(arg)(_renamed(a, names) for a in arg) if isinstance(arg, list | tuple) else arg
