"""What a graph says around a scan: is it backwards, is it exclusive?

In: a graph, the scan's node and its dimension. Out: a `Form`: the nodes that the scan's loops can do along with
it. Backwards is flip → scan → flip. Exclusive is a column of the operation's identity put in front, before or
after the scan, by `cat` or a constant pad, with the last element dropped anywhere between (or not at all).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...codegen.lowering.axis_relations import VIEWS, base_name
from ...codegen.lowering.op_builder import number, option
from ...records import Graph, Node
from ..anchored import Core

IDENTITY = {"cumsum": 0.0, "cumprod": 1.0, "cummax": -float("inf"), "cummin": float("inf")}
SHAPES_ONLY = VIEWS | {"select", "slice"}  # what leads to `full_like`, which reads no elements


@dataclass(frozen=True)
class Form:
    """`exclusive`: element i holds the scan of those before it; the source's last elements may stay unread."""

    core: Core
    reverse: bool = False
    exclusive: bool = False


def form(graph: Graph, node: Node, axis: int, within: Collection[str]) -> Form:
    """The widest form whose nodes all are in `within`."""
    flipped = _reverse(graph, node, axis, within)
    if flipped is not None:
        return Form(flipped, reverse=True)
    shifted = _exclusive(graph, node, axis, within)
    if shifted is not None:
        return Form(shifted, exclusive=True)
    return Form(Core((node.name,), node.output.name, (node.uses[0],)))


def _reverse(graph: Graph, node: Node, axis: int, within: Collection[str]) -> Core | None:
    before, after = _maker(graph, node.uses[0], within), _reader(graph, node.output.name, within)
    if before is None or after is None or not (_flips(before, axis) and _flips(after, axis)):
        return None
    return Core((before.name, node.name, after.name), after.output.name, (before.uses[0],))


def _exclusive(graph: Graph, node: Node, axis: int, within: Collection[str]) -> Core | None:
    identity = IDENTITY[base_name(node)]
    source, value, nodes, padded = node.uses[0], node.output.name, [node.name], False
    while (maker := _maker(graph, source, within)) is not None:
        extra = None if padded else _pads(graph, maker, axis, identity, within)
        if extra is None and not _trims(graph, maker, axis):
            break
        nodes += [maker.name, *(extra[1] if extra else ())]
        padded, source = padded or extra is not None, extra[0] if extra else maker.uses[0]
    while (reader := _reader(graph, value, within)) is not None:
        extra = None if padded else _pads(graph, reader, axis, identity, within)
        if not (_trims(graph, reader, axis) or (extra is not None and extra[0] == value)):
            break
        nodes += [reader.name, *(extra[1] if extra else ())]
        padded, value = padded or extra is not None, reader.output.name
    if not padded or graph.specs[source].dtype != graph.specs[node.uses[0]].dtype:
        return None
    return Core(tuple(dict.fromkeys(nodes)), value, (source,))


def _maker(graph: Graph, value: str, within: Collection[str]) -> Node | None:
    """The node that makes a value which one node alone reads."""
    maker = graph.producer.get(value)
    return maker if maker is not None and maker.name in within and graph.is_read_once(value) else None


def _reader(graph: Graph, value: str, within: Collection[str]) -> Node | None:
    """The only node that reads a value."""
    readers = graph.users[value]
    if len(readers) != 1 or value in graph.returned or readers[0].name not in within:
        return None
    return readers[0]


def _flips(node: Node, axis: int) -> bool:
    rank = len(node.output.spec.shape)
    return base_name(node) == "flip" and [d % rank for d in node.args[1]] == [axis]


def _trims(graph: Graph, node: Node, axis: int) -> bool:
    """Does it drop the last element, or nothing?"""
    if base_name(node) != "slice":
        return False
    shape, rank = graph.specs[node.uses[0]].shape, len(node.output.spec.shape)
    start, step = option(node, 2, "start", None), option(node, 4, "step", 1)
    dropped = shape[axis] - node.output.spec.shape[axis]
    return (
        int(option(node, 1, "dim", 0)) % rank == axis
        and start in (0, None)
        and step == 1
        and dropped in (0, 1)
    )


def _pads(
    graph: Graph, node: Node, axis: int, identity: float, within: Collection[str]
) -> tuple[str, tuple[str, ...]] | None:
    """Match one `identity` padded in front of a value; return that value, and the nodes that make the identity."""
    rank = len(node.output.spec.shape)
    if base_name(node) == "constant_pad_nd":
        expected_widths = [*[0, 0] * (rank - 1 - axis), 1, 0]
        pad = [*node.args[1]]
        while len(pad) > len(expected_widths) and pad[-2:] == [0, 0]:
            pad = pad[:-2]
        fits = pad == expected_widths and number(option(node, 2, "value", 0)) == identity
        return (node.uses[0], ()) if fits else None
    if base_name(node) != "cat" or len(node.args[0]) != 2 or int(option(node, 1, "dim", 0)) % rank != axis:
        return None
    front, remainder = (a["v"] for a in node.args[0])
    front_nodes = _constant(graph, front, identity, within)
    same = graph.specs[front].dtype == graph.specs[remainder].dtype
    if front_nodes is None or not same or graph.specs[front].shape[axis] != 1:
        return None
    return remainder, front_nodes


def _constant(graph: Graph, value: str, wanted: float, within: Collection[str]) -> tuple[str, ...] | None:
    """The nodes that make a tensor of one constant and serve nothing else; None where it is none."""
    node = graph.producer.get(value)
    if node is None or base_name(node) not in ("full", "full_like", "scalar_tensor", "fill"):
        return None
    filling = node.args[0 if base_name(node) == "scalar_tensor" else 1]
    if (isinstance(filling, dict) and "v" in filling) or number(filling) != wanted:
        return None
    names: list[str] = []
    maker: Node | None = _maker(graph, value, within)
    while maker is not None:
        names.append(maker.name)
        maker = _maker(graph, maker.uses[0], within) if maker.uses else None
        maker = maker if maker is not None and base_name(maker) in SHAPES_ONLY else None
    return tuple(names)
