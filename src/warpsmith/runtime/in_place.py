"""Updates of inputs that can be made where they are: a cache takes a row, and the rest of it is not copied.

In: a graph, in which an update is a new value and written back at the end, and the order in which its steps run. Out: the nodes
that may write to the input instead, each with the operation that does. Nothing may read the input's old value afterwards, and no
other result may share its memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..records import Graph, GraphOutput, Node, Region
from .interpreter import aten_op, decode, find_executed_op

UNANNOTATED = frozenset({
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "channel_shuffle", "dropout", "meshgrid", "native_channel_shuffle",
    "pixel_shuffle", "pixel_unshuffle", "type_as",
})  # fmt: skip
# may return their operand's memory, which their schemas do not say


def find_in_place_updates(graph: Graph, steps: Sequence[Region | Node]) -> dict[str, str]:
    """Map the names of nodes to the operations that run instead. `steps`: all of the graph's work, in order."""
    updates: dict[str, str] = {}
    for output in graph.outputs:
        if output.role != "output" and output.value is not None:
            updates.update(_find_chain(graph, steps, output))
    return updates


def run_in_place(operation: str, node: Node, values: Mapping[str, torch.Tensor]) -> None:
    """Run what `find_in_place_updates` names for a node: the first operand holds the result afterwards."""
    _, name, overload = operation.split(".")
    args = [decode(a, values) for a in node.args]
    kwargs: dict[str, Any] = {k: decode(v, values) for k, v in node.kwargs.items()}
    getattr(getattr(torch.ops.aten, name), overload)(*args, **kwargs)


def _find_chain(graph: Graph, steps: Sequence[Region | Node], output: GraphOutput) -> dict[str, str]:
    """The operations of an update's nodes, where it can be made where the input is; else nothing."""
    writers = graph.partial_updates.get(output.value or "", ())
    single = {s.name for s in steps if isinstance(s, Node)}
    chain = {node.name: _find_operation(node) for node in writers}
    if not all(chain.values()) or not single.issuperset(chain):
        return {}
    if not all(_is_last_reader(graph, steps, node.args[0]["v"], node) for node in writers):
        return {}
    memory = {node.args[0]["v"] for node in writers} | {str(output.value)}
    returned = {o.value for o in graph.outputs if o is not output}
    return {} if returned & _find_views(graph, single, memory) else chain


def _find_operation(node: Node) -> str:
    """The node's operation on the memory of its first operand; empty where torch has none."""
    _, name, overload = node.op.split(".")
    twin = getattr(getattr(torch.ops.aten, f"{name}_", None), overload, None)
    return f"aten.{name}_.{overload}" if twin is not None else ""


def _is_last_reader(graph: Graph, steps: Sequence[Region | Node], value: str, node: Node) -> bool:
    """Tell whether all else that reads a value has done so before `node` runs, and made memory of its own of it."""
    at = next(i for i, s in enumerate(steps) if s is node)
    for index, step in enumerate(steps):
        reads = step.inputs if isinstance(step, Region) else step.uses
        if step is not node and value in reads and (index > at or _may_share(step)):
            return False
    return True


def _may_share(step: Region | Node) -> bool:
    """Tell whether a step's results may be views of what it reads. A unit's never are."""
    if isinstance(step, Region):
        return False
    schema = aten_op(find_executed_op(step.op))._schema  # type: ignore[attr-defined]
    return step.base_name in UNANNOTATED or any(r.alias_info is not None for r in schema.returns)


def _find_views(graph: Graph, single: set[str], memory: set[str]) -> set[str]:
    """Find the values that may share memory with one of these."""
    shared = set(memory)
    for node in graph.nodes:
        if node.name in single and not shared.isdisjoint(node.uses) and _may_share(node):
            shared.update(v.name for v in node.outputs if v is not None)
    return shared
