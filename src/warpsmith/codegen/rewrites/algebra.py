"""Rewrites that need fewer operations than the reference, found in the graph: patterns only, no code.

In: a graph and a node. Out: the pattern as a record, or None. What is found here is written by a family whose techniques are
named "algebraic…": the judge labels such a win *algorithmic*, apart from kernels that do the reference's own
operations faster, and times the same rewrite in ATen (`rewriting`) beside the other baselines.

A linear map followed by a sum that runs over dimensions of one of its two operands is the map of a sum:
Σ_o (Σ_k x_k W_ok + b_o) = Σ_k x_k (Σ_o W_ok) + Σ_o b_o: 2·K operations a row instead of 2·K·O;
Σ_n (Σ_k x_nk W_ok + b_o) = Σ_k (Σ_n x_nk) W_ok + N·b_o: one row of the map instead of N.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...records import Graph, Node
from ..lowering.axis_relations import base_name
from ..lowering.op_builder import FLOATS

SCALINGS = {"aten.mul.Tensor": "*", "aten.mul.Scalar": "*", "aten.div.Tensor": "/", "aten.div.Scalar": "/"}
SUMS = {"aten.sum.dim_IntList", "aten.mean.dim"}


@dataclass(frozen=True)
class Factor:
    """One of the two operands of a linear map y = Σ x · W."""

    value: str
    inner: int  # its dimension that the product sums over
    of: tuple[int | None, ...]  # for each dimension of y the one of its own that it runs over


@dataclass(frozen=True)
class LinearMap:
    """A product of two operands, plus a bias for each of the map's outputs."""

    given: Factor
    weight: Factor
    bias: str | None

    @property
    def feature(self) -> int:
        """The dimension of y that the bias runs over: the one that x does not have."""
        return self.given.of.index(None)


@dataclass(frozen=True)
class SummedMap:
    """A linear map, scalings ("*" or "/", number) in order, then a sum or mean over `dims` of its output."""

    nodes: tuple[Node, ...]  # the map first, the reduction last
    map: LinearMap
    steps: tuple[tuple[str, float], ...]
    dims: tuple[int, ...]  # ascending; all of them run over one factor alone

    @property
    def reduction(self) -> Node:
        return self.nodes[-1]

    @property
    def mean(self) -> bool:
        return base_name(self.reduction) == "mean"

    @property
    def keepdim(self) -> bool:
        return len(self.reduction.output.spec.shape) == len(self.map.given.of)

    @property
    def over_features(self) -> bool:
        """Tell whether the sum runs over the map's outputs, so that the weights are summed; else over rows of x."""
        return self.map.given.of[self.dims[0]] is None

    @property
    def summed(self) -> Factor:
        return self.map.weight if self.over_features else self.map.given

    @property
    def other(self) -> Factor:
        return self.map.given if self.over_features else self.map.weight

    @property
    def summed_dims(self) -> list[int]:
        """Dimensions of the summed factor, ascending."""
        return sorted(d for y in self.dims if (d := self.summed.of[y]) is not None)


def match_summed_map(graph: Graph, node: Node) -> SummedMap | None:
    """The pattern that begins at a linear map whose values go nowhere but into a sum that distributes over it."""
    product = _linear_map(graph, node)
    if product is None:
        return None
    nodes, steps = [node], []
    while (user := only_user(graph, nodes[-1])) is not None:
        nodes.append(user)
        step = _scaling(graph, user)
        if step is None:
            break
        steps.append(step)
    dims = _list_summed_dims(graph, nodes[-1]) if len(nodes) > 1 else ()
    factors = (product.given, product.weight)
    if not dims or not any(all(f.of[d] is None for d in dims) for f in factors):
        return None
    return SummedMap(tuple(nodes), product, tuple(steps), dims)


def _linear_map(graph: Graph, node: Node) -> LinearMap | None:
    linear_map = _product(graph, node) or _pointwise_convolution(graph, node)
    if linear_map is None or linear_map.given.value == linear_map.weight.value:
        return None
    named = (linear_map.given.value, linear_map.weight.value, linear_map.bias)
    specs = [graph.specs[v] for v in named if v is not None]
    if any(s.dtype not in FLOATS or s.dtype != specs[0].dtype for s in specs):
        return None
    features = node.output.spec.shape[linear_map.feature]
    return linear_map if linear_map.bias is None or specs[2].shape == (features,) else None


def _product(graph: Graph, node: Node) -> LinearMap | None:
    """linear, mm, addmm, bmm, or matmul whose batches agree; x has rows."""
    name, args, bias = base_name(node), node.args, None
    if node.kwargs:
        return None
    if name == "linear":
        source, weight = args[0]["v"], args[1]["v"]
        bias = args[2]["v"] if len(args) > 2 and args[2] is not None else None
    elif name in ("mm", "bmm", "matmul"):
        source, weight = args[0]["v"], args[1]["v"]
    elif name == "addmm":
        bias, source, weight = args[0]["v"], args[1]["v"], args[2]["v"]
    else:
        return None
    x, w = graph.specs[source].shape, graph.specs[weight].shape
    rank, batch = len(x), len(w) - 2
    if rank < 2 or batch < 0 or (batch and (rank != len(w) or x[:-2] != w[:-2])):
        return None
    features, inner = (0, 1) if name == "linear" else (batch + 1, batch)
    of_weight = (*range(batch), *[None] * (rank - 1 - batch), features)
    lhs = Factor(source, rank - 1, (*range(rank - 1), None))
    return LinearMap(lhs, Factor(weight, inner, of_weight), bias)


def _pointwise_convolution(graph: Graph, node: Node) -> LinearMap | None:
    """A convolution of one group that takes one tap, at every pixel."""
    if base_name(node) != "convolution" or len(node.args) != 9 or node.kwargs:
        return None
    source, weight, bias, stride, padding, _, transposed, _, groups = node.args
    taps = graph.specs[weight["v"]].shape[2:]
    if transposed or groups != 1 or any(n != 1 for n in (*taps, *stride)) or any(padding):
        return None
    if len(graph.specs[source["v"]].shape) != len(taps) + 2:
        return None
    image = Factor(source["v"], 1, (0, None, *range(2, len(taps) + 2)))
    kernel = Factor(weight["v"], 1, (None, 0, *[None] * len(taps)))
    return LinearMap(image, kernel, bias["v"] if bias is not None else None)


def only_user(graph: Graph, node: Node) -> Node | None:
    name = node.output.name
    return graph.users[name][0] if graph.is_read_once(name) else None


def _scaling(graph: Graph, node: Node) -> tuple[str, float] | None:
    sign = SCALINGS.get(node.op)
    if sign is None or node.kwargs or len(node.args) != 2 or len(node.uses) != 1:
        return None
    number = node.args[1]
    if isinstance(number, bool) or not isinstance(number, int | float) or not isinstance(node.args[0], dict):
        return None
    same = node.output.spec.dtype == graph.specs[node.uses[0]].dtype
    return (sign, float(number)) if same and (sign == "*" or number != 0) else None


def _list_summed_dims(graph: Graph, node: Node) -> tuple[int, ...]:
    """Return the dimensions that a sum or mean runs over, ascending, if it keeps the dtype of what is summed; none for any other node."""
    listed = node.args[1] if node.op in SUMS and len(node.args) > 1 else None
    if not isinstance(listed, list | tuple) or node.kwargs.get("dtype") is not None:
        return ()
    source = graph.specs[node.uses[0]]
    if node.output.spec.dtype != source.dtype:
        return ()
    return tuple(sorted(d % len(source.shape) for d in listed))
