"""What each op says about the sizes of what it reads and makes: equal dimensions, sums, products.

In: a graph and a node. Out: pairs of dimensions of the same size, and equations. The readers of shape arguments that
moves need as well (`view_groups`, `pad_amounts`) are here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ....codegen.lowering.axis_relations import base_name, order_of
from ....codegen.lowering.op_builder import option
from ....codegen.lowering.ops import pointwise
from ....codegen.program import Unsupported
from ....records import Graph, Node
from .index_symbols import Sym, sym

Dim = tuple[str, int]  # value, dimension


@dataclass(frozen=True)
class Equation:
    """sum(left) + const == right[0], or product(left) * factor == product(right)."""

    left: tuple[Dim, ...]
    right: tuple[Dim, ...]
    const: Sym | None = None  # of a sum; None: a product
    factor: int = 1


Relation = tuple[Dim, Dim] | Equation


def relations(graph: Graph, node: Node) -> Iterator[Relation]:
    """Yield the relations of sizes that a node implies: dimensions that are the same, sums and products."""
    name = base_name(node)
    if name in _RELATIONS:
        yield from _RELATIONS[name](graph, node)
    elif pointwise(node.op) is not None:
        yield from _broadcast(graph, node)


def _rank(graph: Graph, value: str) -> int:
    return len(graph.specs[value].shape)


def _same(graph: Graph, node: Node, source: str, apart: Sequence[int] = ()) -> Iterator[Relation]:
    """Equal ranks, equal sizes but for the dimensions `apart`."""
    for out in (v for v in node.outputs if v is not None):
        yield from (((source, d), (out.name, d)) for d in range(_rank(graph, source)) if d not in apart)


def _broadcast(graph: Graph, node: Node) -> Iterator[Relation]:
    out = node.output
    for i, value in enumerate(node.uses):
        shape = graph.specs[value].shape
        offset = len(out.spec.shape) - len(shape)
        for d, size in enumerate(shape):
            if d + offset >= 0 and size == out.spec.shape[d + offset] and (size != 1 or i == 0):
                yield (out.name, d + offset), (value, d)


def _permute(graph: Graph, node: Node) -> Iterator[Relation]:
    source = node.uses[0]
    yield from (((source, d), (node.output.name, i)) for i, d in enumerate(order_of(graph, node)))


def _view(graph: Graph, node: Node) -> Iterator[Relation]:
    source, out = node.uses[0], node.output
    for source_dims, result_dims in view_groups(graph.specs[source].shape, out.spec.shape):
        if len(source_dims) == len(result_dims) == 1:
            yield (source, source_dims[0]), (out.name, result_dims[0])
        elif source_dims and result_dims:
            yield Equation(tuple((source, d) for d in source_dims), tuple((out.name, d) for d in result_dims))


def view_groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Runs of dimensions with equal products, in order; what is left over at the end has size 1."""
    groups: list[tuple[list[int], list[int]]] = []
    i = o = 0
    while i < len(before) and o < len(after):
        source_dims, result_dims = [i], [o]
        source_size, result_size = before[i], after[o]
        i, o = i + 1, o + 1
        while source_size != result_size:
            if source_size < result_size and i < len(before):
                source_dims, source_size, i = [*source_dims, i], source_size * before[i], i + 1
            elif source_size > result_size and o < len(after):
                result_dims, result_size, o = [*result_dims, o], result_size * after[o], o + 1
            else:
                raise Unsupported("a view that does not keep its elements")
        groups.append((source_dims, result_dims))
    if i < len(before):
        groups.append((list(range(i, len(before))), []))
    if o < len(after):
        groups.append(([], list(range(o, len(after)))))
    return groups


def _one_dim(position: int, default: int = 0) -> Callable[[Graph, Node], Iterator[Relation]]:
    """All dimensions but the one named at `position` stay."""

    def found(graph: Graph, node: Node) -> Iterator[Relation]:
        source = node.uses[0]
        dim = option(node, position, "dim", default) % max(1, _rank(graph, source))
        yield from _same(graph, node, source, (dim,))

    return found


def _cat(graph: Graph, node: Node) -> Iterator[Relation]:
    values = [a["v"] for a in node.args[0]]
    dim = option(node, 1, "dim", 0) % max(1, _rank(graph, values[0]))
    for value in values:
        yield from _same(graph, node, value, (dim,))
    yield Equation(tuple((v, dim) for v in values), ((node.output.name, dim),), sym(0))


def _stack(graph: Graph, node: Node) -> Iterator[Relation]:
    values = [a["v"] for a in node.args[0]]
    dim = option(node, 1, "dim", 0) % (_rank(graph, values[0]) + 1)
    for value in values:
        for d in range(_rank(graph, value)):
            yield (value, d), (node.output.name, d + (d >= dim))


def _relate_select(graph: Graph, node: Node) -> Iterator[Relation]:
    """select: one dimension less."""
    source = node.uses[0]
    dim = option(node, 1, "dim", 0) % max(1, _rank(graph, source))
    yield from (
        ((source, d), (node.output.name, d - (d > dim))) for d in range(_rank(graph, source)) if d != dim
    )


def _expand(graph: Graph, node: Node) -> Iterator[Relation]:
    source, out = node.uses[0], node.output
    offset = _rank(graph, out.name) - _rank(graph, source)
    for d, size in enumerate(graph.specs[source].shape):
        if size == out.spec.shape[d + offset]:
            yield (source, d), (out.name, d + offset)


def pad_amounts(graph: Graph, node: Node) -> list[tuple[int, int]]:
    """(before, after) for each dimension."""
    rank = _rank(graph, node.uses[0])
    flat = list(node.args[1])
    pads = [(0, 0)] * rank
    for i in range(len(flat) // 2):
        pads[rank - 1 - i] = (flat[2 * i], flat[2 * i + 1])
    return pads


def _relate_pad(graph: Graph, node: Node) -> Iterator[Relation]:
    source = node.uses[0]
    for d, (before, after) in enumerate(pad_amounts(graph, node)):
        if before == after == 0:
            yield (source, d), (node.output.name, d)
        else:
            yield Equation(((source, d),), ((node.output.name, d),), sym(before + after))


def _repeat(graph: Graph, node: Node) -> Iterator[Relation]:
    source = node.uses[0]
    offset = len(node.args[1]) - _rank(graph, source)
    for d in range(_rank(graph, source)):
        if node.args[1][d + offset] == 1:  # other numbers of copies may differ from variant to variant
            yield (source, d), (node.output.name, d + offset)


def _relate_pixel_shuffle(graph: Graph, node: Node) -> Iterator[Relation]:
    """pixel_shuffle: (…, C·r·r, H, W) → (…, C, H·r, W·r); pixel_unshuffle: back."""
    source, out, r = node.uses[0], node.output.name, node.args[1]
    rank = _rank(graph, source)
    small, large = (source, out) if base_name(node) == "pixel_shuffle" else (out, source)
    yield from (((source, d), (out, d)) for d in range(rank - 3))
    yield Equation(((large, rank - 3),), ((small, rank - 3),), factor=r * r)
    yield from (Equation(((small, d),), ((large, d),), factor=r) for d in (rank - 2, rank - 1))


def _all(graph: Graph, node: Node) -> Iterator[Relation]:
    yield from _same(graph, node, node.uses[0])


def _relate_lookup(graph: Graph, node: Node) -> Iterator[Relation]:
    """index_select and gather: as the table or as the index."""
    source, index = node.args[0]["v"], node.args[2]["v"]
    dim = node.args[1] % max(1, _rank(graph, source))
    if base_name(node) == "gather":
        yield from _same(graph, node, index)
        return
    yield from _same(graph, node, source, (dim,))
    if _rank(graph, index):
        yield (index, 0), (node.output.name, dim)


def _relate_index(graph: Graph, node: Node) -> Iterator[Relation]:
    """index.Tensor: what is not indexed stays; the index tensors' own dimensions, broadcast, replace the rest."""
    source, out = node.args[0]["v"], node.output
    positions = [d for d, a in enumerate(node.args[1]) if a is not None]
    names = [node.args[1][d]["v"] for d in positions]
    rank = max(_rank(graph, n) for n in names)
    first = positions[0] if positions == list(range(positions[0], positions[0] + len(positions))) else 0
    for name in names:
        offset = first + rank - _rank(graph, name)
        for d, size in enumerate(graph.specs[name].shape):
            if size == out.spec.shape[d + offset] and (size != 1 or len(names) == 1):
                yield (out.name, d + offset), (name, d)
    remaining = [d for d in range(len(out.spec.shape)) if not first <= d < first + rank]
    source_dims = (d for d in range(_rank(graph, source)) if d not in positions)
    yield from (((source, d), (out.name, o)) for d, o in zip(source_dims, remaining, strict=True))


def _relate_copy(graph: Graph, node: Node) -> Iterator[Relation]:
    """copy: the second argument, broadcast to the first."""
    source, out = node.args[1]["v"], node.output
    yield from _same(graph, node, node.args[0]["v"])
    offset = len(out.spec.shape) - _rank(graph, source)
    for d, size in enumerate(graph.specs[source].shape):
        if size == out.spec.shape[d + offset]:
            yield (out.name, d + offset), (source, d)


def _embedding(graph: Graph, node: Node) -> Iterator[Relation]:
    weight, index = node.args[0]["v"], node.args[1]["v"]
    rank = _rank(graph, index)
    yield from (((index, d), (node.output.name, d)) for d in range(rank))
    yield (weight, 1), (node.output.name, rank)


def _scatter(graph: Graph, node: Node) -> Iterator[Relation]:
    """slice_scatter and select_scatter: as the value written into."""
    source, part = node.args[0]["v"], node.args[1]["v"]
    dim = option(node, 2, "dim", 0) % max(1, _rank(graph, source))
    yield from _same(graph, node, source)
    drops_dim = base_name(node) == "select_scatter"
    for d in range(_rank(graph, source)):
        if d != dim:
            yield (source, d), (part, d - (drops_dim and d > dim))


_RELATIONS: dict[str, Callable[[Graph, Node], Iterator[Relation]]] = {
    "permute": _permute, "transpose": _permute, "t": _permute, "view": _view, "reshape": _view, "_unsafe_view": _view,
    "unsqueeze": _view, "squeeze": _view, "expand": _expand, "slice": _one_dim(1), "split_with_sizes": _one_dim(2),
    "select": _relate_select, "cat": _cat, "stack": _stack, "constant_pad_nd": _relate_pad, "flip": _all, "roll": _all,
    "tril": _all, "triu": _all, "repeat": _repeat, "index_select": _relate_lookup, "gather": _relate_lookup,
    "embedding": _embedding, "index": _relate_index, "copy": _relate_copy, "slice_scatter": _scatter,
    "select_scatter": _scatter, "channel_shuffle": _all,
    "pixel_shuffle": _relate_pixel_shuffle, "pixel_unshuffle": _relate_pixel_shuffle,
    **{f"{kind}_pad{n}d": _relate_pad for kind in ("reflection", "replication") for n in (1, 2, 3)},
}  # fmt: skip
