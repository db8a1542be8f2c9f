"""Tensors put together, or turned round an edge: each element comes from one of several places, by the range that its
index lies in.

In: a mapping, a node and the index of an element of what it makes. Out: a choice of the mapping.
"""

from __future__ import annotations

from typing import Any

from ....codegen.lowering.axis_relations import base_name
from ....codegen.lowering.op_builder import kind_of, number, option
from ....codegen.program import Unsupported
from ....records import Node
from .index_symbols import At, Index, Sym, fix_index, replace_dim, sym
from .pull import Mapping, Moves
from .size_relations import pad_amounts


def _cat(m: Mapping, node: Node, value: str, index: At) -> str:
    values = [a["v"] for a in node.args[0]]
    ranks = {len(m.graph.specs[v].shape) for v in values}
    if len(ranks) != 1:
        raise Unsupported("a concatenation with an empty tensor of another rank")
    dim = int(option(node, 1, "dim", 0)) % ranks.pop()
    start, starts = sym(0), []
    for name in values:
        starts.append(start)
        start = start + m.size(name)[dim]
    cases = [
        m.pull(name, replace_dim(index, dim, index[dim].shift(begin * sym(-1))))
        for name, begin in zip(values, starts, strict=True)
    ]
    return m.choose(index[dim], starts[1:], cases)


def _stack(m: Mapping, node: Node, value: str, index: At) -> str:
    values = [a["v"] for a in node.args[0]]
    dim = int(option(node, 1, "dim", 0)) % len(index)
    cases = [m.pull(name, (*index[:dim], *index[dim + 1 :])) for name in values]
    return m.choose(index[dim], [sym(i) for i in range(1, len(values))], cases)


def _pad(m: Mapping, node: Node, value: str, index: At) -> str:
    """Constant, reflecting or replicating, one dimension after the other, the last first."""
    kind = base_name(node).split("_")[0]
    fill = number(option(node, 2, "value", 0) or 0) if kind == "constant" else 0.0
    filled = m.constant(fill, kind_of(m.graph.specs[value].dtype)) if kind == "constant" else ""
    pads = pad_amounts(m.graph, node)

    def along(d: int, inner: At) -> str:
        if d < 0:
            return m.pull(node.uses[0], inner)
        before, after = pads[d]
        size = m.size(node.uses[0])[d]
        shifted = inner[d].shift(sym(-before))
        cases, bounds = [], []
        if before > 0:
            cases.append(filled or along(d - 1, replace_dim(inner, d, _outside(kind, shifted, size, False))))
            bounds.append(sym(before))
        cases.append(along(d - 1, replace_dim(inner, d, shifted)))
        if after > 0:
            bounds.append(sym(before) + size)
            cases.append(filled or along(d - 1, replace_dim(inner, d, _outside(kind, shifted, size, True))))
        return m.choose(inner[d], bounds, cases) if len(cases) > 1 else cases[0]

    for d, (before, after) in enumerate(pads):
        if kind == "reflection" and max(before, after) > 0:
            m.requires.append(f"{m.size(node.uses[0])[d].text} > {max(before, after)}")
    return along(len(index) - 1, index)


def _outside(kind: str, own: Index, size: Sym, above: bool) -> Index:
    """Map an index before the first or past the last element into the value."""
    if kind == "replication":
        return fix_index(size - sym(1) if above else sym(0))
    turned = own.times(sym(-1))
    return turned.shift(size * sym(2) - sym(2)) if above else turned


def _roll(m: Mapping, node: Node, value: str, index: At) -> str:
    shifts, dims = _list_integers(node.args[1]), _list_integers(option(node, 2, "dims", []))
    if len(shifts) != len(dims):
        raise Unsupported("a roll of the flattened tensor")

    def along(i: int, inner: At) -> str:
        if i == len(dims):
            return m.pull(node.uses[0], inner)
        d = int(dims[i]) % len(index)
        size = m.size(value)[d]
        back = shifts[i] < 0  # kept as written, so that it holds at other sizes
        by = sym(abs(shifts[i]))
        if by.value > size.value:
            raise Unsupported("a roll by more than the size")
        m.requires.append(f"{by.text} <= {size.text}")
        edge = size - by if back else by
        low = inner[d].shift(by if back else size - by)
        high = inner[d].shift(by - size if back else by * sym(-1))
        cases = [along(i + 1, replace_dim(inner, d, low)), along(i + 1, replace_dim(inner, d, high))]
        return m.choose(inner[d], [edge], cases)

    return along(0, index)


def _list_integers(value: Any) -> list[int]:
    return [int(v) for v in (value if isinstance(value, list | tuple) else [value])]


def _triangle(m: Mapping, node: Node, value: str, index: At) -> str:
    """Pull a triangle: the value where column - row <= diagonal (tril), or >= (triu), else 0."""
    lower = base_name(node) == "tril"
    diagonal = int(option(node, 1, "diagonal", 0))
    inside = m.pull(node.uses[0], index)
    zero = m.constant(0.0, m.steps[inside].kind)
    away = index[-1].plus(index[-2].times(sym(-1)))
    bound = sym(diagonal + 1 if lower else diagonal)
    return m.choose(away, [bound], [inside, zero] if lower else [zero, inside])


JOINS: Moves = {
    "cat": _cat, "stack": _stack, "constant_pad_nd": _pad, "roll": _roll, "tril": _triangle, "triu": _triangle,
    **{f"{kind}_pad{n}d": _pad for kind in ("reflection", "replication") for n in (1, 2, 3)},
}  # fmt: skip
