"""Parts of a tensor, read or written into: slices, single elements of a dimension, splits, assignments.

In: a mapping, a node and the index of an element of what it makes. Out: the step that holds that element; what must
hold at every variant goes to the mapping.
"""

from __future__ import annotations

from ....codegen.lowering.op_builder import kind_of, option
from ....codegen.lowering.result_types import ROUNDED, WRAPPED
from ....codegen.program import Unsupported
from ....records import Node
from .index_symbols import At, Sym, align_index, fix_index, replace_dim, sym
from .pull import Mapping, Moves


def _dim(m: Mapping, node: Node, position: int, name: str = "dim") -> int:
    rank = len(m.graph.specs[node.uses[0]].shape)
    if rank == 0:
        raise Unsupported("a scalar")
    return int(option(node, position, name, 0)) % rank


def _start(m: Mapping, node: Node, value: str, dim: int, first: int) -> tuple[Sym, int]:
    """Return the start of a slice, and its step."""
    size = m.size(node.uses[0])[dim]
    step = int(option(node, first + 2, "step", 1))
    start, end = option(node, first, "start", None), option(node, first + 1, "end", None)
    begin = m.sizes.bound(start or 0, size) or (sym(0) if not start else size)
    length = m.size(value)[dim] if value else None
    tail = end is None or end >= size.value
    if length is not None and begin.value > 0 and start > 0 and step == 1 and tail:
        return size - length, step
    return begin, step


def _within(m: Mapping, start: Sym, length: Sym, step: int, size: Sym) -> None:
    """The last element that a slice reads exists at every variant."""
    end = start + length if step == 1 else start + (length - sym(1)) * sym(step) + sym(1)
    if end.text != size.text and not (start.zero and length.text == size.text):
        m.requires.append(f"{start.text} >= 0 && {end.text} <= {size.text}")


def _slice(m: Mapping, node: Node, value: str, index: At) -> str:
    dim = _dim(m, node, 1)
    start, step = _start(m, node, value, dim, 2)
    _within(m, start, m.size(value)[dim], step, m.size(node.uses[0])[dim])
    return m.pull(node.uses[0], replace_dim(index, dim, index[dim].times(sym(step)).shift(start)))


def _select(m: Mapping, node: Node, value: str, index: At) -> str:
    dim, at = _dim(m, node, 1), int(option(node, 2, "index", 0))
    size = m.size(node.uses[0])[dim]
    selection = (
        size + sym(at)
        if at < 0
        else sym(at)
        if at < size.value - 1 or at < 4
        else size - sym(size.value - at)
    )
    return m.pull(node.uses[0], (*index[:dim], fix_index(selection), *index[dim:]))


def _split(m: Mapping, node: Node, value: str, index: At) -> str:
    dim = _dim(m, node, 2)
    names = [None if v is None else v.name for v in node.outputs]
    position = names.index(value)
    start = sym(0)
    size = m.size(node.uses[0])[dim]
    for name, part in zip(names[:position], node.args[1], strict=False):
        start = start + (m.size(name)[dim] if name is not None else sym(part))
    _within(m, start, m.size(value)[dim], 1, size)
    return m.pull(node.uses[0], replace_dim(index, dim, index[dim].shift(start)))


def _slice_scatter(m: Mapping, node: Node, value: str, index: At) -> str:
    source, part = node.args[0]["v"], node.args[1]["v"]
    dim = _dim(m, node, 2)
    as_slice = node.model_copy(update={"args": (node.args[0], *node.args[2:])})
    start, step = _start(m, as_slice, "", dim, 2)
    if step != 1:
        raise Unsupported("an assignment to a slice with a step")
    length = m.size(part)[dim]
    _within(m, start, length, 1, m.size(source)[dim])
    outside = m.pull(source, index)
    inside = m.pull(part, replace_dim(index, dim, index[dim].shift(start * sym(-1))))
    return m.choose(index[dim], [start, start + length], [outside, inside, outside])


def _select_scatter(m: Mapping, node: Node, value: str, index: At) -> str:
    source, part = node.args[0]["v"], node.args[1]["v"]
    dim, at = _dim(m, node, 2), int(option(node, 3, "index", 0))
    start = m.size(source)[dim] + sym(at) if at < 0 else sym(at)
    outside = m.pull(source, index)
    inside = m.pull(part, (*index[:dim], *index[dim + 1 :]))
    return m.choose(index[dim], [start, start + sym(1)], [outside, inside, outside])


def _copy(m: Mapping, node: Node, value: str, index: At) -> str:
    """copy(self, source): what an assignment stores, broadcast."""
    source = node.args[1]["v"]
    shape, out = m.graph.specs[source].shape, m.graph.specs[value].shape
    pulled = m.pull(source, align_index(shape, out, index))
    types = m.graph.specs[source].dtype, m.graph.specs[value].dtype
    if kind_of(types[0]) != kind_of(types[1]) or (types[0] != types[1] and types[1] in (*ROUNDED, *WRAPPED)):
        raise Unsupported("an assignment that converts")
    return pulled


SLICES: Moves = {
    "slice": _slice, "select": _select, "split_with_sizes": _split, "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter, "copy": _copy,
}  # fmt: skip
