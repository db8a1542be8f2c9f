"""Values of four bits, two in a byte: where a graph takes them apart, as weights that are quantised to int4 are stored.

In: a value of the graph. Out: what it is unpacked from, and by which nodes, for a kernel that reads the bytes themselves:
`stack([p & 15, p >> 4], -1)`, its last two dimensions made one by a view, or the high half first.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...records import Graph, Node
from ..lowering.axis_relations import RESHAPES, VIEWS, base_name
from ..lowering.op_builder import option
from ..lowering.ops import pointwise
from ..program import Nibbles

SHIFTS = ("__rshift__", "bitwise_right_shift")


@dataclass(frozen=True)
class PackedValue:
    """A value is in the bytes `stored`; `nodes` take it apart."""

    stored: str
    nodes: tuple[str, ...]
    order: Nibbles


def find_packed_value(graph: Graph, value: str) -> PackedValue | None:
    """Tell what a value is unpacked from; None where it is not, or where other nodes need what is between."""
    view = graph.producer.get(value)
    if view is None or base_name(view) not in RESHAPES:
        return None
    stack = graph.producer.get(view.uses[0])
    if stack is None or base_name(stack) != "stack" or len(stack.uses) != 2:
        return None
    halves = [n for v in stack.uses if (n := graph.producer.get(v)) is not None]
    kinds = [_find_half(n) for n in halves]
    if set(kinds) != {"low", "high"} or not _merges_last(graph, stack, value):
        return None
    first, second = halves
    stored = first.uses[0]
    between = (first.output.name, second.output.name, stack.output.name)
    if (
        second.uses[0] != stored
        or graph.specs[stored].dtype != "uint8"
        or graph.specs[stored].stride[-1] != 1
    ):
        return None
    if not all(map(graph.is_read_once, between)):
        return None
    return PackedValue(
        stored, (first.name, second.name, stack.name, view.name),
        "low first" if kinds[0] == "low" else "high first",
    )  # fmt: skip


def find_packed_sources(graph: Graph, value: str) -> tuple[PackedValue, ...]:
    """List the packed values that `value` is made of by pointwise nodes, which nothing else reads."""
    packed_values, visited, todo = list[PackedValue](), set[str](), [value]
    while todo:
        name = todo.pop()
        node = graph.producer.get(name)
        if name in visited or node is None or not graph.is_read_once(name):
            continue
        visited.add(name)
        if (packed := find_packed_value(graph, name)) is not None:
            packed_values.append(packed)
        elif pointwise(node.op) is not None and base_name(node) not in VIEWS:
            todo += node.uses
    return tuple(packed_values)


def _find_half(node: Node) -> str:
    """Tell which half of a byte a node takes: "low", "high", or "" for neither."""
    if len(node.args) < 2:
        return ""
    if base_name(node) == "bitwise_and" and node.args[1] == 15:
        return "low"
    return "high" if base_name(node) in SHIFTS and node.args[1] == 4 else ""


def _merges_last(graph: Graph, stack: Node, value: str) -> bool:
    """Tell whether the halves are stacked behind their last dimension, and a view makes these two one."""
    shape = graph.specs[stack.output.name].shape
    behind = option(stack, 1, "dim", 0) % len(shape) == len(shape) - 1
    return behind and len(shape) > 1 and graph.specs[value].shape == (*shape[:-2], 2 * shape[-2])
