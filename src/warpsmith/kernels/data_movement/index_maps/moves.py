"""How each op that moves data turns the index of an output element into that of what it comes from.

`MOVES`: name of an ATen op → function (mapping, node, value, index) → step; here those that take every element from
one place, by arithmetic on its index. Semantics are those of
https://docs.pytorch.org/docs/stable/torch.compiler_ir.html; arguments that cannot be written raise Unsupported.
"""

from __future__ import annotations

from ....codegen.lowering.axis_relations import base_name, order_of
from ....records import Graph, Node, Region
from .index_symbols import At, Index, align_index, fix_index, product, replace_dim, sym
from .joins import JOINS
from .lookups import LOOKUPS
from .pull import Mapping, Moves, pull_mapping
from .size_relations import view_groups
from .slices import SLICES


def _permute(m: Mapping, node: Node, value: str, index: At) -> str:
    inner = [Index()] * len(index)
    for i, d in enumerate(order_of(m.graph, node)):
        inner[d] = index[i]
    return m.pull(node.uses[0], inner)


def _view(m: Mapping, node: Node, value: str, index: At) -> str:
    source = node.uses[0]
    before, after = m.size(source), m.size(value)
    inner: list[Index] = [fix_index(sym(0))] * len(before)
    for source_dims, result_dims in view_groups([s.value for s in before], [s.value for s in after]):
        if not source_dims or not result_dims:
            continue
        flat = Index()
        for position, d in enumerate(result_dims):
            flat = flat.plus(index[d].times(product([after[e] for e in result_dims[position + 1 :]])))
        for d, digit in zip(source_dims, m.digits(flat, [before[d] for d in source_dims]), strict=True):
            inner[d] = digit
    return m.pull(source, inner)


def _expand(m: Mapping, node: Node, value: str, index: At) -> str:
    source = node.uses[0]
    return m.pull(source, align_index(m.graph.specs[source].shape, m.graph.specs[value].shape, index))


def _flip(m: Mapping, node: Node, value: str, index: At) -> str:
    rank = len(index)
    dims = node.args[1] if isinstance(node.args[1], list | tuple) else [node.args[1]]
    inner = list(index)
    for d in (int(d) % rank for d in dims):
        inner[d] = index[d].times(sym(-1)).shift(m.size(value)[d] - sym(1))
    return m.pull(node.uses[0], inner)


def _repeat(m: Mapping, node: Node, value: str, index: At) -> str:
    source = node.uses[0]
    offset = len(index) - len(m.graph.specs[source].shape)
    inner = []
    for d, size in enumerate(m.size(source)):
        times = node.args[1][d + offset]
        dim_index = index[d + offset]
        if times != 1:
            copies = m.size(value)[d + offset] // size
            m.requires.append(f"({copies.text}) * ({size.text}) == {m.size(value)[d + offset].text}")
            dim_index = m.digits(dim_index, [copies, size])[1]
        inner.append(dim_index)
    return m.pull(source, inner)


def _pixels(m: Mapping, node: Node, value: str, index: At) -> str:
    source, r = node.uses[0], int(node.args[1])
    *lead, channel, y, x = index
    size = m.size(source)
    if base_name(node) == "pixel_shuffle":
        (y, dy), (x, dx) = (m.digits(i, [s, sym(r)]) for i, s in ((y, size[-2]), (x, size[-1])))
        deep = channel.times(sym(r * r)).plus(dy.times(sym(r))).plus(dx)
        return m.pull(source, (*lead, deep, y, x))
    channel, dy, dx = m.digits(channel, [size[-3], sym(r), sym(r)])
    return m.pull(source, (*lead, channel, y.times(sym(r)).plus(dy), x.times(sym(r)).plus(dx)))


def _channels(m: Mapping, node: Node, value: str, index: At) -> str:
    groups = sym(int(node.args[1]))
    channels_per_group = m.size(value)[1] // groups
    inner, group = m.digits(index[1], [channels_per_group, groups])
    return m.pull(node.uses[0], replace_dim(index, 1, group.times(channels_per_group).plus(inner)))


MOVES: Moves = {
    "permute": _permute, "transpose": _permute, "t": _permute, "view": _view, "reshape": _view, "_unsafe_view": _view,
    "unsqueeze": _view, "squeeze": _view, "expand": _expand, "flip": _flip, "repeat": _repeat, "pixel_shuffle": _pixels,
    "pixel_unshuffle": _pixels, "channel_shuffle": _channels, **SLICES, **JOINS, **LOOKUPS,
}  # fmt: skip


def mapping_of(graph: Graph, region: Region) -> Mapping:
    """Raises Unsupported."""
    return pull_mapping(graph, region, MOVES)
