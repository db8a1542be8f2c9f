"""Copies into another order of memory that the views behind them undo: `x.transpose(1, 2).contiguous().transpose(1, 2)`.

In: the graph of a decomposed program, whose nodes' values are fake tensors. Out: the same graph without them. A copy stays if its views are not dense
without it, if an output would lie otherwise in memory, or a view behind it could not be one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

_NAMES = ("view", "permute", "unsqueeze", "squeeze", "transpose", "expand", "alias", "t", "slice", "select")
VIEWS = tuple(getattr(torch.ops.aten, name) for name in _NAMES)
Values = dict[Node, Any]


def drop_undone_copies(graph: Graph) -> None:
    """Drop them where they are; whoever reads a copy then reads what it was a copy of."""
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.clone.default and _has_views_alone(node):
            values = _compute_without(node)
            if values is not None:
                for changed, value in values.items():
                    changed.meta["val"] = value
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)


def _is_view(node: Node) -> bool:
    return getattr(node.target, "overloadpacket", None) in VIEWS


def _has_views_alone(copy: Node) -> bool:
    return bool(copy.users) and all(_is_view(user) for user in copy.users)


def _compute_without(copy: Node) -> Values | None:
    """Compute every node's value without the copy, where that differs; None where the copy has to stay."""
    values: Values = {copy: copy.args[0].meta["val"]}  # type: ignore[union-attr]
    views = {copy}
    node = copy.next
    while node.op != "root":
        inputs = set(node.all_input_nodes)
        if node.op == "output":
            return None if any(n in views or _has_moved(n, values) for n in inputs) else values
        if inputs & values.keys():
            try:
                value = _run(node, values)
            except (
                RuntimeError,
                ValueError,
                TypeError,
                KeyError,
            ):  # a view that is none, or an operand without a value
                return None
            if inputs & views and _is_view(node):
                views.add(node)
            elif any(not values[n].is_contiguous() for n in inputs & views):
                return None
            if node in views or _has_other_strides(value, node.meta.get("val")):
                values[node] = value
        node = node.next
    return None


def _run(node: Node, values: Values) -> Any:
    def read(operand: Node) -> Any:
        return values[operand] if operand in values else operand.meta["val"]

    args, kwargs = map_arg((node.args, node.kwargs), read)
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _has_moved(node: Node, values: Values) -> bool:
    return node in values and _has_other_strides(values[node], node.meta["val"])


def _has_other_strides(value: Any, before: Any) -> bool:
    pairs = zip(tree_leaves(value), tree_leaves(before), strict=True)
    return any(isinstance(a, torch.Tensor) and a.stride() != b.stride() for a, b in pairs)
