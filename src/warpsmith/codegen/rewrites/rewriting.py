"""An algebraic rewrite in ATen's own operations: what such a win is measured against, besides the task as written, or
what a unit without code is.

In: a graph, a region and the pattern in it (`algebra`, `folding`). Out: a graph with the region's inputs and outputs,
for `Unit.rewrite`, at the shapes of the graph given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Literal

from ...records import Graph, GraphInput, GraphOutput, Node, Region, TensorSpec, Value
from .algebra import SummedMap
from .folding import COMMUTES, Affine, Folded, Norm, Operand, bias_of


def rewritten_region(graph: Graph, region: Region, found: SummedMap, own: bool = False) -> Graph:
    """The region with the sum taken before the map; what is around the pattern stays as it is. `own`: the result is
    memory of its own, as that of a unit has to be, not a view.
    """
    core = {n.name for n in found.nodes}
    nodes: list[Node] = []
    for name in region.nodes:
        if name == found.reduction.name:
            nodes += _Rewriting(graph, found).nodes(own)
        elif name not in core:
            nodes.append(graph.by_name[name])
    return region_graph(graph, region, nodes)


def region_graph(graph: Graph, region: Region, nodes: Iterable[Node]) -> Graph:
    """These nodes as a graph with the inputs and outputs of the region."""
    return Graph(
        inputs=tuple(GraphInput(name=v, spec=graph.specs[v], role="input", target=v) for v in region.inputs),
        nodes=tuple(nodes), outputs=tuple(GraphOutput(value=v) for v in region.outputs),
        tree=json.dumps(list(range(len(region.outputs)))),
    )  # fmt: skip


def build_folded_nodes(graph: Graph, found: Folded) -> list[Node]:
    """The pattern in fewer passes: new weights, a new bias, the map of these."""
    return _Folding(graph, found).nodes()


class NodeMaker:
    """New nodes one after another, under names of their own that begin with a stem; all values are contiguous and of one
    dtype.
    """

    def __init__(self, graph: Graph, stem: str, dtype: str) -> None:
        self.graph, self.stem, self.dtype = graph, stem, dtype
        self.made: list[Node] = []
        while any(name.startswith(self.stem) for name in (*graph.specs, *graph.by_name)):
            self.stem += "_"

    def add(
        self, op: str, args: tuple[Any, ...], shape: Iterable[int], kwargs: dict[str, Any] | None = None
    ) -> str:
        """One more node; its value's name."""
        value = self._value(tuple(shape))
        self.made.append(Node(name=value.name, op=op, args=args, kwargs=kwargs or {}, outputs=(value,)))
        return value.name

    def broadcast(self, values: Sequence[str], shape: Iterable[int]) -> str:
        """A view of the last of these values at the shape that they have together."""
        value = self._value(tuple(shape))
        outputs = (*[None] * (len(values) - 1), value)
        args = ([{"v": v} for v in values],)
        self.made.append(
            Node(name=value.name, op="aten.broadcast_tensors.default", args=args, kwargs={}, outputs=outputs)
        )
        return value.name

    def shape_of(self, value: str) -> tuple[int, ...]:
        """The shape of a value of the graph, or of one that was made here."""
        spec = next((n.output.spec for n in self.made if n.name == value), None)
        return (spec or self.graph.specs[value]).shape

    def _value(self, sizes: tuple[int, ...]) -> Value:
        stride = tuple(prod(sizes[d + 1 :]) for d in range(len(sizes)))
        spec = TensorSpec(shape=sizes, dtype=self.dtype, stride=stride)
        return Value(name=f"{self.stem}{len(self.made)}", spec=spec)

    def ending(self, value: Value) -> list[Node]:
        """All of them, the last made to be this value of the region's own."""
        return [*self.made[:-1], self.made[-1].model_copy(update={"outputs": (value,)})]


class _Rewriting(NodeMaker):
    """The pattern's nodes in their new order: the sum, of the bias too; the same map of what it gives; the scalings."""

    def __init__(self, graph: Graph, found: SummedMap) -> None:
        super().__init__(graph, f"{found.reduction.name}_first", found.reduction.output.spec.dtype)
        self.found = found

    def nodes(self, own: bool) -> list[Node]:
        folding, bias = self.found, self.found.map.bias
        named = {folding.summed.value: self._sum(folding.summed.value, folding.summed_dims)}
        if bias is not None:
            named[bias] = self._bias(bias)
        for node in folding.nodes[:-1]:
            shape = [1 if d in folding.dims else n for d, n in enumerate(node.output.spec.shape)]
            named[node.output.name] = self.add(node.op, rename_argument(node.args, named), shape)
        if not folding.keepdim:
            last = named[folding.nodes[-2].output.name]
            sizes = folding.reduction.output.spec.shape
            last = self.add("aten.squeeze.dims", ({"v": last}, list(folding.dims)), sizes)
            if own:
                self.add("aten.clone.default", ({"v": last},), sizes)
        return self.ending(folding.reduction.output)

    def _sum(self, value: str, dims: list[int]) -> str:
        """The pattern's own sum or mean, of an operand."""
        shape = [1 if d in dims else n for d, n in enumerate(self.graph.specs[value].shape)]
        return self.add(self.found.reduction.op, ({"v": value}, dims, True), shape)

    def _bias(self, bias: str) -> str:
        """Summed with the features; where rows are summed, once for each of them."""
        folding = self.found
        if folding.over_features:
            return self._sum(bias, [0])
        if folding.mean:
            return bias
        rows = prod(folding.nodes[0].output.spec.shape[d] for d in folding.dims)
        return self.add("aten.mul.Tensor", ({"v": bias}, rows), self.graph.specs[bias].shape)


def rename_argument(arg: Any, names: Mapping[str, str]) -> Any:
    """An argument of a node that reads other values."""
    if isinstance(arg, dict) and "v" in arg:
        return {"v": names.get(arg["v"], arg["v"])}
    return type(arg)(rename_argument(a, names) for a in arg) if isinstance(arg, list | tuple) else arg


class _Folding(NodeMaker):
    """`scale` and `shift` of the map's outputs so far; None where there is none."""

    def __init__(self, graph: Graph, found: Folded) -> None:
        super().__init__(graph, f"{found.nodes[-1].name}_folded", found.map.output.spec.dtype)
        self.found = found
        self.scale: Operand | None = None
        self.shift: Operand | None = bias_of(found.map)

    def nodes(self) -> list[Node]:
        folding = self.found
        for step in folding.steps:
            if isinstance(step, Norm):
                self._norm(step)
            else:
                self._affine(step)
        source, weight, *_ = folding.map.args
        shift = {"v": self.shift} if self.shift is not None else None
        scaled_weight = {"v": self._scale_weight(weight["v"])}
        self.add(
            folding.map.op,
            (source, scaled_weight, shift, *folding.map.args[3:]),
            folding.map.output.spec.shape,
        )
        return self.ending(folding.nodes[-1].output)

    def _norm(self, norm: Norm) -> None:
        factor = self._two("mul", self._one("rsqrt", self._two("add", norm.var, norm.eps)), norm.weight)
        shift = self._one("neg", norm.mean) if self.shift is None else self._two("sub", self.shift, norm.mean)
        self.shift = self._two("add", self._two("mul", shift, factor), norm.bias)
        self.scale = self._two("mul", factor, self.scale)

    def _affine(self, step: Affine) -> None:
        operand, name = self._flat(step.operand), step.name
        if name in ("div", "sub"):
            opposite = "reciprocal" if name == "div" else "neg"
            operand, name = self._one(opposite, operand), "mul" if name == "div" else "add"
        if name == "mul":
            self.scale = self._two("mul", operand, self.scale)
            self.shift = self._two("mul", self.shift, operand) if self.shift is not None else None
        else:
            self.shift = self._two("add", operand, self.shift)

    def _flat(self, operand: Operand) -> Operand:
        """Flatten a value to one dimension."""
        if not isinstance(operand, str) or len(self.shape_of(operand)) == 1:
            return operand
        return self.add("aten.reshape.default", ({"v": operand}, [-1]), (prod(self.shape_of(operand)),))

    def _one(self, name: str, operand: Operand) -> Operand:
        if isinstance(operand, float):
            return -operand if name == "neg" else 1.0 / operand
        return self.add(f"aten.{name}.default", ({"v": operand},), self.shape_of(operand))

    def _two(self, name: Literal["add", "sub", "mul"], lhs: Operand, rhs: Operand | None) -> Operand:
        """`rhs` None: `lhs` as it is."""
        if rhs is None:
            return lhs
        if isinstance(lhs, float) and isinstance(rhs, float):
            return lhs + rhs if name == "add" else lhs - rhs if name == "sub" else lhs * rhs
        if isinstance(lhs, float):
            lhs, rhs = (rhs, lhs) if name in COMMUTES else (self._one("neg", rhs), -lhs)
        assert isinstance(lhs, str)
        sizes = self.shape_of(lhs), self.shape_of(rhs) if isinstance(rhs, str) else (1,)
        second = {"v": rhs} if isinstance(rhs, str) else rhs
        return self.add(f"aten.{name}.Tensor", ({"v": lhs}, second), max(sizes))

    def _scale_weight(self, weight: str) -> str:
        """The weights, each output channel by its scale."""
        scale, shape = self.scale, self.shape_of(weight)
        if scale is None:
            return weight
        if isinstance(scale, float) or self.shape_of(scale) == (1,):
            second = {"v": scale} if isinstance(scale, str) else scale
            return self.add("aten.mul.Tensor", ({"v": weight}, second), shape)
        groups, transposed, taps = self.found.groups, self.found.transposed, [1] * (len(shape) - 2)
        if not transposed:
            sizes = [-1, 1, *taps]
        elif groups == 1:
            sizes = [1, -1, *taps]
        else:  # (inputs, outputs of a group, …): its inputs lie group by group
            sizes = [groups, 1, -1, *taps]
            split = (groups, shape[0] // groups, *shape[1:])
            weight = self.add("aten.unflatten.int", ({"v": weight}, 0, [groups, -1]), split)
        columns = [shape[1] if n < 0 and transposed else shape[0] if n < 0 else n for n in sizes]
        column = self.add("aten.view.default", ({"v": scale}, sizes), columns)
        product = self.add("aten.mul.Tensor", ({"v": weight}, {"v": column}), self.shape_of(weight))
        if len(sizes) == len(shape):
            return product
        return self.add("aten.flatten.using_ints", ({"v": product}, 0, 1), shape)
