"""Keys and values that are repeated for each query head of a group, as `transformers` does where attention has a mask: attention reads them as they are.

In: the graph of a decomposed program, whose nodes' values are fake tensors. Out: the same graph, with grouped queries (`enable_gqa`) in each
`scaled_dot_product_attention` of `x[:, :, None].expand(…).reshape(…)`. What is repeated is neither written nor read again.
"""

from __future__ import annotations

from torch import Tensor, ops
from torch.fx import Graph, Node

ATTENTION = ops.aten.scaled_dot_product_attention.default
_MERGES = (ops.aten.view.default, ops.aten._unsafe_view.default)
HEADS, REPEATS = 1, 2  # dimensions of keys, and of keys that are about to be repeated


def share_repeated_heads(graph: Graph) -> None:
    """Group the queries of each attention whose keys and values are repeated alike."""
    shared = False
    for node in list(graph.nodes):
        if node.target is ATTENTION and not node.kwargs.get("enable_gqa", False):
            query, *repeated = node.args[:3]
            sources = [_find_source(operand) for operand in repeated if isinstance(operand, Node)]
            if isinstance(query, Node) and len(sources) == 2 and _fit(query, *sources):
                node.args = (query, *sources, *node.args[3:])
                node.kwargs = {**node.kwargs, "enable_gqa": True}
                shared = True
    if shared:
        graph.eliminate_dead_code()


def _find_source(node: Node) -> Node | None:
    """The keys that a node repeats, each for several heads one after another; None where it does not."""
    if node.target not in _MERGES:
        return None
    merged = _value(node)
    expand = _skip_copy(node.args[0])
    unsqueeze = expand.args[0] if expand is not None and expand.target is ops.aten.expand.default else None
    if not isinstance(unsqueeze, Node) or unsqueeze.target is not ops.aten.unsqueeze.default:
        return None
    source = unsqueeze.args[0]
    assert isinstance(source, Node)
    shape, repeated = _value(source).shape, _value(expand).shape  # type: ignore[arg-type]
    if len(shape) != 4 or unsqueeze.args[1] not in (REPEATS, REPEATS - 5):
        return None
    batch, heads, tokens, features = shape
    times = repeated[REPEATS]
    fits = repeated == (batch, heads, times, tokens, features)
    return source if fits and merged.shape == (batch, heads * times, tokens, features) else None


def _skip_copy(node: object) -> Node | None:
    if isinstance(node, Node) and node.target is ops.aten.clone.default:
        node = node.args[0]
    return node if isinstance(node, Node) else None


def _fit(query: Node, key: Node | None, value: Node | None) -> bool:
    """Tell whether each key and value has its own queries, as many for each."""
    if key is None or value is None:
        return False
    heads = [_value(node).shape[HEADS] for node in (query, key, value)]
    return heads[1] == heads[2] and heads[1] > 0 and heads[0] % heads[1] == 0


def _value(node: Node) -> Tensor:
    value: Tensor = node.meta["val"]
    return value
