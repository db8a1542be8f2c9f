"""Convolutions in a graph, with zeros put around the input before and a slice of the last columns behind."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...codegen.lowering.axis_relations import base_name
from ...records import Graph, Node
from ..anchored import Anchor, AnchoredFamily, Core, extents


@dataclass(frozen=True)
class Window:
    """Stride, padding before and after, dilation: one for each spatial dimension. `extents`: the input's shape as
    C++. `width`: the output's where it is cut short."""

    stride: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilation: tuple[int, ...]
    extents: tuple[str, ...]
    width: str
    weight: str  # operand
    bias: str  # operand, "" for none

    @property
    def rank(self) -> int:
        return len(self.extents)


class ConvolutionPattern(AnchoredFamily):
    name = "convolution"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) == "convolution"

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        """Name the core: with zeros put around the input, and with a slice that drops the last columns (causal convolutions)."""
        source, nodes, value = str(node.args[0]["v"]), [node.name], node.output.name
        pad = graph.producer.get(source)
        if pad is not None and pad.name in within and _pads_zeros(graph, pad):
            source, nodes = str(pad.args[0]["v"]), [pad.name, *nodes]
        cut = graph.users[value][0] if graph.is_read_once(value) else None
        if cut is not None and cut.name in within and _drops_columns(graph, cut):
            value, nodes = cut.output.name, [*nodes, cut.name]
        return Core(tuple(nodes), value, (source,))


def window_of(anchor: Anchor) -> Window:
    """Raises Unsupported when no operand tells an extent of the input."""
    node, graph = anchor.node, anchor.graph
    assert anchor.core is not None
    (source,) = anchor.core.reads
    rank = len(graph.specs[source].shape)

    def per_dimension(numbers: list[int]) -> tuple[int, ...]:
        return tuple(numbers) if len(numbers) == rank - 2 else (numbers[0],) * (rank - 2)

    padding, (before, after) = per_dimension(node.args[4]), zeros_around(anchor, rank)
    cut = any(base_name(graph.by_name[n]) == "slice" for n in anchor.core.nodes)
    return Window(
        stride=per_dimension(node.args[3]), before=tuple(p + z for p, z in zip(padding, before, strict=True)),
        after=tuple(p + z for p, z in zip(padding, after, strict=True)), dilation=per_dimension(node.args[5]),
        extents=tuple(extents(anchor, source)), width=f"out0_shape[{rank - 1}]" if cut else "",
        weight=anchor.names[weight_of(node)],
        bias=anchor.names[node.args[2]["v"]] if node.args[2] is not None else "",
    )  # fmt: skip


def zeros_around(anchor: Anchor, rank: int) -> tuple[list[int], list[int]]:
    """Return the zeros that a padding node of the core adds before and after each spatial dimension."""
    pads = [anchor.graph.by_name[n] for n in (anchor.core.nodes if anchor.core is not None else ())]
    widths = next((list(p.args[1]) for p in pads if base_name(p) == "constant_pad_nd"), [])
    widths += [0] * (2 * (rank - 2) - len(widths))
    return widths[-2::-2], widths[::-2]


def _pads_zeros(graph: Graph, node: Node) -> bool:
    """Zeros around the spatial dimensions, for one reader."""
    if base_name(node) != "constant_pad_nd" or (len(node.args) > 2 and node.args[2] not in (0, None)):
        return False
    widths, rank, padded = node.args[1], len(node.output.spec.shape), node.output.name
    return (
        graph.is_read_once(padded)
        and not node.kwargs
        and len(widths) <= 2 * (rank - 2)
        and all(n >= 0 for n in widths)
    )


def _drops_columns(graph: Graph, node: Node) -> bool:
    """A slice of the last dimension, from its first element, each one."""
    if base_name(node) != "slice" or node.kwargs:
        return False
    arguments = [*node.args[1:], *[0, None, None, 1][len(node.args) - 1 :]]
    dim, start, step = arguments[0], arguments[1], arguments[3]
    shape = graph.specs[node.uses[0]].shape
    return bool(dim % len(shape) == len(shape) - 1 and start in (0, None) and step == 1)


def weight_of(node: Node) -> str:
    return str(node.args[1]["v"])
