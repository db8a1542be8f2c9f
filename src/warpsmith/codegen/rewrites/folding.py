"""Scales and shifts of a linear map's outputs that can be folded into its weights and bias: the pattern, no code.

In: a graph and a node. Out: the pattern as a record, or None. `rewriting` states it in ATen. A convolution (of any rank, stride,
dilation or groups, transposed too) or a linear layer, then batch norm in evaluation mode, or products and sums with
numbers and per-channel values, is one map: s·(W x + b) + t = (s·W) x + (s·b + t). Weights are inputs like any other, so
they are folded anew in every call: that costs as much as touching the weights, and saves passes over the activations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...records import Graph, Node, Region
from ..lowering.axis_relations import base_name
from ..lowering.op_builder import FLOATS
from .algebra import only_user

BATCH_NORM = "aten._native_batch_norm_legit_no_training.default"
AFFINE = {
    f"aten.{name}.{kind}": name for name in ("add", "sub", "mul", "div") for kind in ("Tensor", "Scalar")
}
COMMUTES = ("add", "mul")
WORTH = 8  # times as many bytes in the outputs as in the weights, from which on folding may pay
Operand = str | float  # a value of as many elements as there are channels, or of one; or a number
# How many numbers a shift has: none, one, one in a tensor, one for each channel.
NOTHING, NUMBER, ONE, FULL = range(4)


@dataclass(frozen=True)
class Norm:
    """Batch norm with running statistics."""

    weight: str | None
    bias: str | None
    mean: str
    var: str
    eps: float


@dataclass(frozen=True)
class Affine:
    name: Literal["add", "sub", "mul", "div"]
    operand: Operand


@dataclass(frozen=True)
class Folded:
    """A linear map and the steps that are folded into it, in order."""

    nodes: tuple[Node, ...]  # the map first; one more for each step
    steps: tuple[Norm | Affine, ...]

    @property
    def map(self) -> Node:
        return self.nodes[0]

    @property
    def transposed(self) -> bool:
        return base_name(self.map) == "convolution" and bool(self.map.args[6])

    @property
    def groups(self) -> int:
        return int(self.map.args[8]) if base_name(self.map) == "convolution" else 1


def match_folding(graph: Graph, node: Node) -> Folded | None:
    """The longest pattern that begins at a linear map, where what it saves is worth a look."""
    channel = _channel(graph, node)
    if channel is None:
        return None
    nodes, steps, shift, folded_count = [node], [], FULL if bias_of(node) else NOTHING, 0
    for user in _users(graph, node):
        step = _step(graph, user, nodes[-1].output.name, channel)
        if step is None:
            break
        nodes.append(user)
        steps.append(step)
        shift = _count_shift_values(graph, shift, step, node.output.spec.shape[channel])
        folded_count = len(steps) if shift in (NOTHING, FULL) else folded_count
    return Folded(tuple(nodes[: folded_count + 1]), tuple(steps[:folded_count])) if folded_count else None


def match_folded_region(graph: Graph, region: Region) -> Folded | None:
    """The pattern that a region is, with nothing besides."""
    folding = next(
        (f for n in region.nodes if (f := match_folding(graph, graph.by_name[n])) is not None), None
    )
    return folding if folding is not None and {n.name for n in folding.nodes} == set(region.nodes) else None


def _users(graph: Graph, node: Node) -> Iterator[Node]:
    while (user := only_user(graph, node)) is not None:
        yield user
        node = user


def _channel(graph: Graph, node: Node) -> int | None:
    """The dimension of a linear map's output that its bias runs over; None for other nodes, and where weights weigh too
    much.
    """
    name, args = base_name(node), node.args
    if node.kwargs or name not in ("convolution", "linear") or any(v is None for v in node.outputs):
        return None
    if name == "convolution" and len(args) != 9:
        return None
    specs = [graph.specs[v] for v in node.uses]
    source, weight, result = graph.specs[args[0]["v"]], graph.specs[args[1]["v"]], node.output.spec
    if any(s.dtype != result.dtype or s.dtype not in FLOATS for s in specs) or args[0] == args[1]:
        return None
    if not weight.numel or result.nbytes < WORTH * weight.nbytes or len(result.shape) < 2:
        return None
    if name == "linear":
        return len(result.shape) - 1
    return 1 if len(source.shape) == len(weight.shape) else None


def bias_of(node: Node) -> str | None:
    bias = node.args[2] if len(node.args) > 2 else None
    return str(bias["v"]) if bias is not None else None


def _step(graph: Graph, node: Node, value: str, channel: int) -> Norm | Affine | None:
    """Read a node as a scale or shift of `value`, if it does the same to all of a channel."""
    if node.op == BATCH_NORM:
        return _norm(graph, node, value, channel)
    name = AFFINE.get(node.op)
    if name is None or node.kwargs or len(node.args) != 2:
        return None
    first, second = node.args
    if first != {"v": value} and name in COMMUTES:
        first, second = second, first
    before, result = graph.specs[value], node.output.spec
    if (
        first != {"v": value}
        or second == first
        or (result.shape, result.dtype) != (before.shape, before.dtype)
    ):
        return None
    if isinstance(second, int | float) and not isinstance(second, bool):
        return Affine(name, float(second)) if name != "div" or second else None  # type: ignore[arg-type]
    if not isinstance(second, dict) or "v" not in second:
        return None
    spec = graph.specs[second["v"]]
    lead = len(before.shape) - len(spec.shape)
    other_sizes = [n for d, n in enumerate(spec.shape) if d + lead != channel]
    fits = lead >= 0 and all(n == 1 for n in other_sizes) and spec.dtype == before.dtype
    return Affine(name, str(second["v"])) if fits else None  # type: ignore[arg-type]


def _norm(graph: Graph, node: Node, value: str, channel: int) -> Norm | None:
    source, *named, _, eps = node.args
    if source != {"v": value} or channel != 1 or any(v is not None for v in node.outputs[1:]):
        return None
    weight, bias, mean, var = (str(a["v"]) if a is not None else None for a in named)
    dtypes = {graph.specs[v].dtype for v in node.uses}
    if mean is None or var is None or dtypes != {node.output.spec.dtype}:
        return None
    return Norm(weight, bias, mean, var, float(eps))


def _count_shift_values(graph: Graph, shift: int, step: Norm | Affine, channels: int) -> int:
    """Return the number of values in the shift after a step."""
    if isinstance(step, Norm):
        return FULL
    if step.name in ("mul", "div") and shift == NOTHING:
        return NOTHING
    form = ONE if isinstance(step.operand, str) else NUMBER
    per_channel = isinstance(step.operand, str) and graph.specs[step.operand].numel == channels
    return max(shift, FULL if per_channel else form)
