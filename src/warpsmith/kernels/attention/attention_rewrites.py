"""An attention as it was found, and what makes it cheaper to compute without changing it.

In: a graph and an `Attention`. Out: an `Attention` that takes in small maps of masks and constants nothing else
reads, that has a diagonal in place of a mask which the graph spells out, or a scale in place of a
multiplication of the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...codegen.lowering.axis_relations import VIEWS, base_name
from ...codegen.lowering.op_builder import FLOATS, literal, option
from ...codegen.lowering.ops import pointwise
from ...records import Graph, Node
from .mask_band import Band, affine_of, band_of

PASSING = {"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "expand", "clone", "alias", "permute"}


@dataclass(frozen=True)
class Attention:
    """softmax(map(query · key) ) · value, over the last two dimensions of each."""

    nodes: tuple[str, ...]  # all of them
    final: Node
    query: str
    key: str
    value: str
    transposed: bool  # the keys come as (…, features, keys)
    raw: tuple[int, ...]  # shape of the product of queries and keys
    start: str  # the scores as the chain reads them; "" for the library's node
    end: str  # the scores as the softmax reads them
    chain: tuple[str, ...]  # pointwise nodes from start to end
    shape: tuple[int, ...]  # of the scores in the chain
    softmax: bool
    limit: int | None  # keys beyond query + limit have no weight
    scale: str  # of the scores: a C++ expression
    mask: str = ""  # of the library's node
    grouped: bool = False  # several heads of queries share a head of keys
    library: bool = False
    floor: int | None = None  # keys before query + floor have no weight


def maps_scores(node: Node, shape: tuple[int, ...]) -> bool:
    spec = node.output.spec
    return (
        pointwise(node.op) is not None and base_name(node) not in VIEWS
        and spec.shape == shape and spec.dtype in (*FLOATS, "bool")
    )  # fmt: skip


def with_small_nodes(graph: Graph, attention: Attention) -> Attention:
    """Maps of a mask that nothing else reads are computed on the way, too."""
    chain, order = set(attention.chain), {n.name: i for i, n in enumerate(graph.nodes)}
    sources = [v for n in chain for v in graph.by_name[n].uses]
    while sources:
        value = sources.pop()
        node = graph.producer.get(value)
        if value == attention.start or node is None or node.name in chain or value in graph.returned:
            continue
        private = {u.name for u in graph.users[value]} <= chain
        if (
            private
            and maps_scores(node, node.output.spec.shape)
            and node.uses
            and band_of(graph, value) is None
        ):
            chain.add(node.name)
            sources += node.uses
    added = sorted(chain - set(attention.chain), key=lambda n: order[n])
    return replace(
        attention, chain=tuple(sorted(chain, key=lambda n: order[n])), nodes=(*attention.nodes, *added)
    )


def without_hidden_keys(graph: Graph, attention: Attention) -> Attention:
    """Without a last node that puts -inf right of a diagonal: those keys need not be looked at."""
    last = graph.producer.get(attention.end)
    if not attention.softmax or last is None or last.name not in attention.chain:
        return attention
    masking = _match_mask(graph, last, base_name(last))
    if masking is None:
        return replace(attention, limit=_find_hidden_by_bias(graph, attention, last))
    end, limit = masking
    chain = tuple(n for n in attention.chain if n != last.name)
    if graph.specs[end].shape != attention.shape or not (end == attention.start or _makes(graph, end, chain)):
        return attention
    return replace(attention, end=end, limit=limit, chain=chain)


def _find_hidden_by_bias(graph: Graph, attention: Attention, last: Node) -> int | None:
    """The diagonal right of which what is added to the scores is -inf, and otherwise is computed on the way."""
    if base_name(last) != "add" or option(last, 2, "alpha", 1) != 1:
        return None
    for bias in last.uses:
        maker = graph.producer.get(bias)
        if (
            maker is None
            or maker.name not in attention.chain
            or graph.specs[bias].shape[-2:] != attention.shape[-2:]
        ):
            continue
        masking = (
            _match_mask(graph, maker, base_name(maker))
            if base_name(maker) in ("where", "masked_fill")
            else None
        )
        if masking is not None:
            return masking[1]
    return None


def _makes(graph: Graph, value: str, nodes: Iterable[str]) -> bool:
    maker = graph.producer.get(value)
    return maker is not None and maker.name in nodes


def _match_mask(graph: Graph, node: Node, name: str) -> tuple[str, int] | None:
    """(what is kept left of the diagonal, the diagonal)."""
    shape, minus = node.output.spec.shape, float("-inf")
    if name == "add" and option(node, 2, "alpha", 1) == 1:
        for scores, bias in (node.args[:2], node.args[1::-1]):
            band = diagonal_of(graph, bias, shape)
            if band is not None and (band.inside, band.outside) == (0.0, minus):
                return _read_kept_band(scores, band)
    if name in ("where", "masked_fill"):
        mask, a, b = node.args if name == "where" else (node.args[1], node.args[2], node.args[0])
        band = diagonal_of(graph, mask, shape)
        if band is None or bool(band.inside) == bool(band.outside):
            return None
        inside, outside = (a, b) if band.inside else (b, a)
        fill = band_of(graph, outside)
        if fill is not None and fill.constant and fill.inside == minus and band_of(graph, inside) is None:
            return _read_kept_band(inside, band)
    return None


def _read_kept_band(value: Any, band: Band) -> tuple[str, int] | None:
    assert band.limit is not None
    return (value["v"], band.limit) if isinstance(value, dict) and "v" in value else None


def diagonal_of(graph: Graph, value: Any, shape: tuple[int, ...]) -> Band | None:
    """A mask with a diagonal over the rows and columns of the scores."""
    band = band_of(graph, value)
    if band is None or band.constant or graph.specs[value["v"]].shape[-2:] != shape[-2:]:
        return None
    return band


def with_scale(graph: Graph, attention: Attention) -> Attention:
    """A chain that is one multiplication by a constant becomes their scale."""
    if len(attention.chain) != 1:
        return attention
    node = graph.by_name[attention.chain[0]]
    if base_name(node) not in ("mul", "div") or node.kwargs.get("rounding_mode") is not None:
        return attention
    factor = band_of(graph, node.args[1])
    scaled = node.args[0]
    if (
        factor is None
        or not factor.constant
        or not (isinstance(scaled, dict) and scaled.get("v") == attention.start)
    ):
        return attention
    text = literal(factor.inside) if base_name(node) == "mul" else f"1.0f / {literal(factor.inside)}"
    return replace(attention, chain=(), end=attention.start, scale=text)


def with_constants(graph: Graph, attention: Attention) -> Attention:
    """Add the nodes that compute its constant masks, where nothing else reads them."""
    nodes = _add_private(graph, attention.nodes, lambda n: _is_constant(graph, n))
    return replace(attention, nodes=nodes)


def _add_private(graph: Graph, nodes: Iterable[str], fits: Callable[[Node], bool]) -> tuple[str, ...]:
    """Nodes and those before them that fit and that nothing else reads, in the graph's order."""
    inside = set(nodes)
    for node in reversed(graph.nodes):
        if node.name in inside or len(node.outputs) != 1 or node.output.name in graph.returned:
            continue
        users = {u.name for u in graph.users[node.output.name]}
        if users and users <= inside and fits(node):
            inside.add(node.name)
    return tuple(n.name for n in graph.nodes if n.name in inside)


def with_diagonals(graph: Graph, attention: Attention) -> Attention:
    """The diagonals among what a bool mask of the library's node is the conjunction of say where keys begin and end; the mask is what
    else it asks for.
    """
    if not attention.library or not attention.mask or graph.specs[attention.mask].dtype != "bool":
        return attention
    joined, terms = _list_conjuncts(graph, attention.mask)
    limit, floor, masking_terms = attention.limit, attention.floor, list[str]()
    for term in terms:
        band = diagonal_of(graph, {"v": term}, attention.shape)
        if band is None or band.limit is None or bool(band.inside) == bool(band.outside):
            masking_terms.append(term)
        elif band.inside:
            limit = band.limit if limit is None else min(limit, band.limit)
        else:
            floor = band.limit + 1 if floor is None else max(floor, band.limit + 1)
    if len(masking_terms) == len(terms):
        return attention
    mask = "" if not masking_terms else masking_terms[0] if len(masking_terms) == 1 else attention.mask
    banded = replace(attention, limit=limit, floor=floor, mask=mask)
    if mask == attention.mask:
        return banded
    nodes = _add_private(graph, attention.nodes, lambda n: n.name in joined)
    return with_constants(graph, replace(banded, nodes=nodes))


def _list_conjuncts(graph: Graph, mask: str) -> tuple[set[str], list[str]]:
    """Nodes that are conjunctions, and the values that they join."""
    joined, terms, todo = set[str](), list[str](), [mask]
    while todo:
        value = todo.pop()
        node = graph.producer.get(value)
        if (
            node is not None
            and base_name(node) in ("bitwise_and", "logical_and")
            and len(node.uses) == 2
            and {graph.specs[v].dtype for v in node.uses} == {"bool"}
        ):
            joined.add(node.name)
            todo += node.uses
        else:
            terms.append(value)
    return joined, terms


def with_positions(graph: Graph, attention: Attention) -> Attention:
    """Add the nodes that compute positions and distances, where nothing else reads them."""
    nodes = _add_private(
        graph,
        attention.nodes,
        lambda n: _is_constant(graph, n) or affine_of(graph, n.output.name) is not None,
    )
    return replace(attention, nodes=nodes)


def _is_constant(graph: Graph, node: Node) -> bool:
    return band_of(graph, node.output.name) is not None or base_name(node) == "arange" or (
        base_name(node) in PASSING and _is_computed_of_counts(graph, node))  # fmt: skip


def _is_computed_of_counts(graph: Graph, node: Node) -> bool:
    maker = graph.producer.get(node.uses[0])
    return maker is not None and (
        base_name(maker) == "arange" or (base_name(maker) in PASSING and _is_computed_of_counts(graph, maker))
    )
