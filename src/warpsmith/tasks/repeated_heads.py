"""Keys and values that are repeated for each query head of a group, as `transformers` does where attention has a mask: attention reads them as they are.

In: the graph of a decomposed program, whose nodes' values are fake tensors. Out: the same graph, with grouped queries (`enable_gqa`) in each
`scaled_dot_product_attention` of `x[:, :, None].expand(…).reshape(…)`. What is repeated is neither written nor read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import ops
from torch.fx import Graph, Node

ATTENTION = ops.aten.scaled_dot_product_attention.default
_MERGES = (ops.aten.view.default, ops.aten._unsafe_view.default)
HEADS, REPEATS = 1, 2  # dimensions of keys, and of keys that are about to be repeated


def share_repeated_heads(graph: Graph) -> None:
    """Group the queries of each attention whose keys and values are repeated alike."""
    shared = False
    for node in list(graph.nodes):
        if node.target is ATTENTION and not node.kwargs.get("enable_gqa", False):
            operands: list[Any] = list(node.args[:3])
            sources = [_find_source(operand) for operand in operands[1:]]
            if _are_grouped(operands, sources):
                node.args = (operands[0], *sources, *node.args[3:])
                node.kwargs = {**node.kwargs, "enable_gqa": True}
                shared = True
    if shared:
        graph.eliminate_dead_code()


def _find_source(node: Any) -> Any:
    """The keys that a node repeats, each for several heads one after another; None where it does not."""
    if not _is(node, *_MERGES):
        return None
    expand = node.args[0].args[0] if _is(node.args[0], ops.aten.clone.default) else node.args[0]
    if not _is(expand, ops.aten.expand.default) or not _is(expand.args[0], ops.aten.unsqueeze.default):
        return None
    source, dim = expand.args[0].args[:2]
    shape, repeated = source.meta["val"].shape, expand.meta["val"].shape
    if len(shape) != 4 or dim not in (REPEATS, REPEATS - 5):
        return None
    batch, heads, tokens, features = shape
    times = repeated[REPEATS]
    fits = repeated == (batch, heads, times, tokens, features)
    return source if fits and node.meta["val"].shape == (batch, heads * times, tokens, features) else None


def _is(node: Any, *targets: Any) -> bool:
    return isinstance(node, Node) and node.target in targets


def _are_grouped(operands: Sequence[Node], sources: Sequence[Node | None]) -> bool:
    """Tell whether each head of the queries has its own of the repeated keys and values, and both are repeated as often."""
    heads = {node.meta["val"].shape[: HEADS + 1] for node in operands}
    groups = {node.meta["val"].shape[HEADS] if node is not None else 0 for node in sources}
    return len(heads) == len(groups) == 1 and 0 not in groups
