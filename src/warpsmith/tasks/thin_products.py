"""A computed matrix times a column, over a short sum, as a pointwise product and a sum: `h @ c` of a state-space scan that is written step by step.

In: the graph of a decomposed program, whose nodes' values are fake tensors. Out: the same graph, in which such a product joins the pointwise
nodes that make its matrix: a matrix product is a kernel of its own, and a scan had one a step. Halves are summed in float32 and rounded once, as
a product's are.
"""

from __future__ import annotations

import torch
from torch import ops
from torch.fx import Graph, Node

LONGEST_SUM = 32  # beyond it, products are worth their kernels
_HALVES = (torch.float16, torch.bfloat16)
_POINTWISE = (
    ops.aten.add,
    ops.aten.mul,
    ops.aten.sub,
    ops.aten.div,
    ops.aten.addcmul,
    ops.aten.where,
    ops.aten.exp,
)
_CAST = ops.aten._to_copy.default


def spread_thin_products(graph: Graph) -> None:
    """Replace each of these products."""
    for node in list(graph.nodes):
        if node.target is ops.aten.matmul.default and not _is_returned(node) and _is_thin(*node.args):
            with graph.inserting_before(node):
                node.replace_all_uses_with(_spread(graph, *node.args))  # type: ignore[arg-type]
            graph.erase_node(node)


def _is_returned(node: Node) -> bool:
    """Tell whether the graph returns it: by its name, which another node would not have."""
    return any(user.op == "output" for user in node.users)


def _is_thin(matrix: object, column: object) -> bool:
    if not isinstance(matrix, Node) or not isinstance(column, Node) or not _is_computed(matrix):
        return False
    rows, values = matrix.meta["val"], column.meta["val"]
    return (
        rows.dim() == values.dim() >= 2
        and values.shape[-1] == 1
        and 0 < rows.shape[-1] <= LONGEST_SUM
        and rows.shape[-2] > 1
        and rows.dtype.is_floating_point
        and rows.dtype == values.dtype
    )


def _is_computed(node: Node) -> bool:
    """Tell whether a pointwise node makes it, maybe by a cast."""
    source = node.args[0] if node.target is _CAST else node
    return isinstance(source, Node) and getattr(source.target, "overloadpacket", None) in _POINTWISE


def _spread(graph: Graph, matrix: Node, column: Node) -> Node:
    dtype = matrix.meta["val"].dtype
    turned = list(range(column.meta["val"].dim()))
    turned[-2:] = reversed(turned[-2:])
    factors = [matrix, _call(graph, ops.aten.permute.default, column, turned)]
    if dtype in _HALVES:
        factors = [_call(graph, _CAST, factor, dtype=torch.float32) for factor in factors]
    product = _call(graph, ops.aten.mul.Tensor, *factors)
    total = _call(graph, ops.aten.sum.dim_IntList, product, [-1], True)
    return _call(graph, _CAST, total, dtype=dtype) if dtype in _HALVES else total


def _call(graph: Graph, op: object, *args: object, **kwargs: object) -> Node:
    """Add a node with its value."""
    node = graph.call_function(op, args, kwargs)  # type: ignore[arg-type]
    values = [a.meta["val"] if isinstance(a, Node) else a for a in args]
    node.meta["val"] = op(*values, **kwargs)  # type: ignore[operator]
    return node
