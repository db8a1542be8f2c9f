"""Updates that write parts of an input: a cache takes a row, and the rest of it stays.

In a graph an update is a new value of the input's whole size. Out: the nodes that make it from the input by writing some of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import Graph, GraphInput, GraphOutput, Node

WRITTEN = {
    "index_put": 2, "index_copy": 3, "index_add": 3, "scatter": 3, "scatter_add": 3, "slice_scatter": 1, "select_scatter": 1,
}  # fmt: skip
# an operation that writes to part of its first operand → position of the operand that holds what is written


def find_writers(graph: Graph, output: GraphOutput) -> tuple[Node, ...]:
    """The nodes from an updated input to its new value, the last first, each of which writes to the result of the one before.

    Empty where the new value is made in another way, or from something else.
    """
    writers: list[Node] = []
    value = output.value
    while output.role != "output" and value is not None and value in graph.producer:
        node = graph.producer[value]
        if not _writes_part(graph, node):
            return ()
        writers.append(node)
        value = node.args[0]["v"]
    taker = next((i for i in graph.inputs if i.name == value), None)
    return tuple(writers) if taker is not None and takes_update(taker, output) else ()


def takes_update(item: GraphInput, output: GraphOutput) -> bool:
    """Tell whether an output is the new value of this input."""
    target = item.target if output.role == "buffer_update" else item.name
    is_input = output.role == "input_update"
    return output.role != "output" and target == output.target and (item.role == "input") == is_input


def count_written_bytes(graph: Graph, node: Node) -> int:
    """Count the bytes that a node of `find_writers` writes to its first operand at least; a value may be broadcast to its places."""
    return graph.specs[node.args[WRITTEN[node.base_name]]["v"]].nbytes


def _writes_part(graph: Graph, node: Node) -> bool:
    """Tell whether a node gives its first operand with other elements in some places, and reads it nowhere else."""
    at = WRITTEN.get(node.base_name)
    if at is None or len(node.args) <= at or not all(map(_is_value, (node.args[0], node.args[at]))):
        return False
    operand = node.args[0]["v"]
    before, after = graph.specs[operand], node.output.spec
    return node.count_reads(operand) == 1 and (before.shape, before.dtype) == (after.shape, after.dtype)


def _is_value(argument: Any) -> bool:
    return isinstance(argument, dict) and "v" in argument
