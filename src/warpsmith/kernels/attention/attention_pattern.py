"""Finds attention in a graph: one library node, or two products with a softmax (or another map) between them.

In: a graph and a node. Out: an `Attention`, which names queries, keys and values, the pointwise nodes between the
products, and the diagonal right of which every weight is 0 where the graph itself says so. Views that leave the
last two dimensions alone may stand next to the products and the softmax.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import FLOATS, literal, option
from ...codegen.lowering.ops import pointwise
from ...records import Graph, Node
from .attention_rewrites import (
    PASSING,
    Attention,
    diagonal_of,
    maps_scores,
    with_constants,
    with_scale,
    with_small_nodes,
    without_hidden_keys,
)

LIBRARY = "scaled_dot_product_attention"
PRODUCTS = {"matmul", "bmm", "mm"}
MAX_STEPS = 24  # nodes between the products


def attention_at(graph: Graph, node: Node) -> Attention | None:
    """The attention that a node is the first or the last product of."""
    name = base_name(node)
    if name == LIBRARY:
        return _library(graph, node)
    if name not in PRODUCTS:
        return None
    attention = _written(graph, node)
    if attention is not None:
        return attention
    for last in _products_behind(graph, node):
        attention = _written(graph, last)
        if attention is not None and node.name in attention.nodes:
            return attention
    return None


def _library(graph: Graph, node: Node) -> Attention | None:
    query, key, value = (a["v"] for a in node.args[:3])
    mask = option(node, 3, "attn_mask", None)
    if option(node, 4, "dropout_p", 0.0) != 0.0:
        return None
    shapes = [graph.specs[v].shape for v in (query, key, value)]
    if len({len(s) for s in shapes}) != 1 or len(shapes[0]) < 2:
        return None
    grouped = bool(option(node, 7, "enable_gqa", False))
    batch = shapes[0][:-2]
    for shape in shapes[1:]:
        fits = [n == m for n, m in zip(batch, shape[:-2], strict=True)]
        if not all(fits[:-1] if grouped else fits) or (
            grouped and (not batch or not shape[-3] or batch[-1] % shape[-3])
        ):
            return None
    scale = option(node, 6, "scale", None)
    scores = (*batch, shapes[0][-2], shapes[1][-2])
    limit = 0 if option(node, 5, "is_causal", False) else None
    band = None if mask is None else diagonal_of(graph, mask, scores)
    if band is not None:
        hidden = 0.0 if graph.specs[mask["v"]].dtype == "bool" else float("-inf")
        if band.outside == hidden and band.inside == (1.0 if hidden == 0.0 else 0.0):
            limit, mask = band.limit, None
    return with_constants(graph, Attention(
        (node.name,), node, query, key, value, False, scores, "", "", (), scores, True, limit,
        "(float)(1.0 / __builtin_sqrt((double)WIDTH))" if scale is None else literal(float(scale)),
        mask["v"] if mask is not None else "", grouped, True,
    ))  # fmt: skip


def _written(graph: Graph, node: Node) -> Attention | None:
    """Attention whose last product is `node`."""
    if base_name(node) not in PRODUCTS or not all(isinstance(a, dict) and "v" in a for a in node.args[:2]):
        return None
    weights, value = (a["v"] for a in node.args[:2])
    nodes = [node.name]
    end = _through_cast(graph, _through(graph, weights, nodes), nodes)
    soft = graph.producer.get(end)
    softmax = soft is not None and _is_softmax(graph, soft)
    if soft is not None and softmax:
        nodes.append(soft.name)
        end = _through(graph, soft.uses[0], nodes)
    links = _chain(graph, end, nodes)
    if links is None:
        return None
    start, product, chain = links
    if not softmax and not chain:
        return None
    shapes = [graph.specs[v].shape for v in (product.args[0]["v"], product.args[1]["v"], value)]
    if not softmax and (len({s[:-2] for s in shapes}) > 1 or len(shapes[0]) < 3):
        return None  # a network of two layers, perhaps: the library's products are better there
    attention = Attention(
        tuple(nodes), node, product.args[0]["v"], product.args[1]["v"], value, True, product.output.spec.shape,
        start, end, tuple(n.name for n in graph.nodes if n.name in chain), graph.specs[end].shape, softmax, None,
        "1.0f",
    )  # fmt: skip
    attention = with_small_nodes(graph, attention)
    return with_constants(graph, with_scale(graph, without_hidden_keys(graph, attention)))


def _is_softmax(graph: Graph, node: Node) -> bool:
    rank = len(node.output.spec.shape)
    return base_name(node) == "_softmax" and rank > 1 and node.args[1] in (-1, rank - 1)


def _passes(graph: Graph, node: Node) -> bool:
    """Does a node leave the elements in their order, or copy?"""
    if base_name(node) not in PASSING:
        return False
    before, after = graph.specs[node.uses[0]], node.output.spec
    if base_name(node) == "permute":
        moved = [d for d in node.args[1] if before.shape[d] != 1]
        return moved == sorted(moved)
    return before.numel == after.numel


def _through(graph: Graph, value: str, nodes: list[str]) -> str:
    """Back over nodes that pass a value on, to one with the same last two dimensions; they are added to `nodes`."""
    ends = graph.specs[value].shape[-2:]
    current, walked = value, []
    while (node := graph.producer.get(value)) is not None and _passes(graph, node):
        walked.append(node.name)
        value = node.uses[0]
        if len(graph.specs[value].shape) > 1 and graph.specs[value].shape[-2:] == ends:
            current = value
            nodes += walked
            walked = []
    return current


def _through_cast(graph: Graph, value: str, nodes: list[str]) -> str:
    """Back over the cast of a softmax's weights to the type of the values: they are rounded once either way."""
    node = graph.producer.get(value)
    if node is None or base_name(node) != "_to_copy" or node.output.spec.dtype not in FLOATS:
        return value
    passed: list[str] = []
    end = _through(graph, node.uses[0], passed)
    soft = graph.producer.get(end)
    if soft is None or not _is_softmax(graph, soft) or soft.output.spec.dtype != "float32":
        return value
    nodes += [node.name, *passed]
    return end


def _chain(graph: Graph, end: str, nodes: list[str]) -> tuple[str, Node, set[str]] | None:
    """Back from the scores to the product that makes them: (its value in the chain, the product, the nodes)."""
    spec = graph.specs[end]
    chain: set[str] = set()
    start, product = "", None
    todo, visited = [end], {end}
    while todo:
        value = todo.pop()
        passed: list[str] = []
        maker = graph.producer.get(_through(graph, value, passed))
        node = graph.producer.get(value)
        if maker is not None and base_name(maker) in PRODUCTS and graph.specs[value].shape == spec.shape:
            if product is not None:
                return None
            start, product = value, maker
            nodes += [*passed, maker.name]
        elif node is not None and maps_scores(node, spec.shape) and len(chain) < MAX_STEPS:
            chain.add(node.name)
            todo += [v for v in node.uses if v not in visited]
            visited |= set(node.uses)
    if product is None:
        return None
    nodes += chain
    return start, product, chain


def _products_behind(graph: Graph, node: Node) -> Iterable[Node]:
    """Products that what a node makes reaches over maps, softmax and views."""
    todo, visited = [node.output.name], {node.name}
    while todo:
        for user in graph.users[todo.pop()]:
            if user.name in visited or len(visited) > 2 * MAX_STEPS:
                continue
            visited.add(user.name)
            if base_name(user) in PRODUCTS:
                yield user
            elif _is_softmax(graph, user) or _passes(graph, user) or pointwise(user.op) is not None:
                todo.append(user.output.name)
