"""How each op that moves data turns the index of an output element into that of what it comes from.

`MOVES`: name of an ATen op → function (mapping, node, value, index) → step. Semantics are those of
https://docs.pytorch.org/docs/stable/torch.compiler_ir.html; arguments that cannot be written raise Unsupported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....records import Graph, Node, Region
from ..axes import base_name
from ..ops import kind_of, number, option
from ..program import Unsupported
from .pull import Mapping, Moves, pulled
from .relations import order_of, pad_amounts, view_groups
from .symbols import Index, Sym, fixed, product, sym

At = tuple[Index, ...]


def _dim(m: Mapping, node: Node, position: int, name: str = "dim") -> int:
    rank = len(m.graph.specs[node.uses[0]].shape)
    if rank == 0:
        raise Unsupported("a scalar")
    return int(option(node, position, name, 0)) % rank


def _with(index: Sequence[Index], dim: int, own: Index) -> At:
    return (*index[:dim], own, *index[dim + 1 :])


def _permute(m: Mapping, node: Node, value: str, index: At) -> str:
    inner = [Index()] * len(index)
    for i, d in enumerate(order_of(m.graph, node)):
        inner[d] = index[i]
    return m.pull(node.uses[0], inner)


def _view(m: Mapping, node: Node, value: str, index: At) -> str:
    source = node.uses[0]
    before, after = m.size(source), m.size(value)
    inner: list[Index] = [fixed(sym(0))] * len(before)
    for mine, made in view_groups([s.value for s in before], [s.value for s in after]):
        if not mine or not made:
            continue
        flat = Index()
        for position, d in enumerate(made):
            flat = flat.plus(index[d].times(product([after[e] for e in made[position + 1 :]])))
        for d, digit in zip(mine, m.digits(flat, [before[d] for d in mine]), strict=True):
            inner[d] = digit
    return m.pull(source, inner)


def _expand(m: Mapping, node: Node, value: str, index: At) -> str:
    source = node.uses[0]
    shape, out = m.graph.specs[source].shape, m.graph.specs[value].shape
    offset = len(out) - len(shape)
    inner = [index[d + offset] if n == out[d + offset] else fixed(sym(0)) for d, n in enumerate(shape)]
    return m.pull(source, inner)


def _start(m: Mapping, node: Node, value: str, dim: int, first: int) -> tuple[Sym, int]:
    """Where a slice begins, and its step."""
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
    return m.pull(node.uses[0], _with(index, dim, index[dim].times(sym(step)).shift(start)))


def _select(m: Mapping, node: Node, value: str, index: At) -> str:
    dim, at = _dim(m, node, 1), int(option(node, 2, "index", 0))
    size = m.size(node.uses[0])[dim]
    own = (
        size + sym(at)
        if at < 0
        else sym(at)
        if at < size.value - 1 or at < 4
        else size - sym(size.value - at)
    )
    return m.pull(node.uses[0], (*index[:dim], fixed(own), *index[dim:]))


def _split(m: Mapping, node: Node, value: str, index: At) -> str:
    dim = _dim(m, node, 2)
    names = [None if v is None else v.name for v in node.outputs]
    place = names.index(value)
    start = sym(0)
    size = m.size(node.uses[0])[dim]
    for name, part in zip(names[:place], node.args[1], strict=False):
        start = start + (m.size(name)[dim] if name is not None else sym(part))
    _within(m, start, m.size(value)[dim], 1, size)
    return m.pull(node.uses[0], _with(index, dim, index[dim].shift(start)))


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
        m.pull(name, _with(index, dim, index[dim].shift(begin * sym(-1))))
        for name, begin in zip(values, starts, strict=True)
    ]
    return m.choose(index[dim], starts[1:], _same_kind(m, cases))


def _stack(m: Mapping, node: Node, value: str, index: At) -> str:
    values = [a["v"] for a in node.args[0]]
    dim = int(option(node, 1, "dim", 0)) % len(index)
    cases = [m.pull(name, (*index[:dim], *index[dim + 1 :])) for name in values]
    return m.choose(index[dim], [sym(i) for i in range(1, len(values))], _same_kind(m, cases))


def _same_kind(m: Mapping, cases: list[str]) -> list[str]:
    if len({m.steps[c].kind for c in cases}) != 1:
        raise Unsupported("masks and numbers in one tensor")
    return cases


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
        own = inner[d].shift(sym(-before))
        cases, bounds = [], []
        if before > 0:
            cases.append(filled or along(d - 1, _with(inner, d, _outside(kind, own, size, False))))
            bounds.append(sym(before))
        cases.append(along(d - 1, _with(inner, d, own)))
        if after > 0:
            bounds.append(sym(before) + size)
            cases.append(filled or along(d - 1, _with(inner, d, _outside(kind, own, size, True))))
        return m.choose(inner[d], bounds, cases) if len(cases) > 1 else cases[0]

    for d, (before, after) in enumerate(pads):
        if kind == "reflection" and max(before, after) > 0:
            m.requires.append(f"{m.size(node.uses[0])[d].text} > {max(before, after)}")
    return along(len(index) - 1, index)


def _outside(kind: str, own: Index, size: Sym, above: bool) -> Index:
    """Where an index before the first or past the last element leads."""
    if kind == "replication":
        return fixed(size - sym(1) if above else sym(0))
    turned = own.times(sym(-1))
    return turned.shift(size * sym(2) - sym(2)) if above else turned


def _copy(m: Mapping, node: Node, value: str, index: At) -> str:
    """copy(self, source): what an assignment stores, broadcast."""
    source = node.args[1]["v"]
    shape, out = m.graph.specs[source].shape, m.graph.specs[value].shape
    found = m.pull(source, _aligned(shape, out, index))
    if m.steps[found].kind != kind_of(m.graph.specs[value].dtype):
        raise Unsupported("an assignment that converts")
    return found


def _flip(m: Mapping, node: Node, value: str, index: At) -> str:
    rank = len(index)
    dims = node.args[1] if isinstance(node.args[1], list | tuple) else [node.args[1]]
    inner = list(index)
    for d in (int(d) % rank for d in dims):
        inner[d] = index[d].times(sym(-1)).shift(m.size(value)[d] - sym(1))
    return m.pull(node.uses[0], inner)


def _roll(m: Mapping, node: Node, value: str, index: At) -> str:
    shifts, dims = _listed(node.args[1]), _listed(option(node, 2, "dims", []))
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
        cases = [along(i + 1, _with(inner, d, low)), along(i + 1, _with(inner, d, high))]
        return m.choose(inner[d], [edge], cases)

    return along(0, index)


def _listed(value: Any) -> list[int]:
    return [int(v) for v in (value if isinstance(value, list | tuple) else [value])]


def _repeat(m: Mapping, node: Node, value: str, index: At) -> str:
    source = node.uses[0]
    offset = len(index) - len(m.graph.specs[source].shape)
    inner = []
    for d, size in enumerate(m.size(source)):
        times = node.args[1][d + offset]
        own = index[d + offset]
        if times != 1:
            copies = m.size(value)[d + offset] // size
            m.requires.append(f"({copies.text}) * ({size.text}) == {m.size(value)[d + offset].text}")
            own = m.digits(own, [copies, size])[1]
        inner.append(own)
    return m.pull(source, inner)


def _index_select(m: Mapping, node: Node, value: str, index: At) -> str:
    source, table = node.args[0]["v"], node.args[2]["v"]
    dim = node.args[1] % len(index)
    at = [index[dim]] if m.graph.specs[table].shape else []
    return m.pull(source, _with(index, dim, _entry(m.table(table, at, None))))


def _gather(m: Mapping, node: Node, value: str, index: At) -> str:
    source, table = node.args[0]["v"], node.args[2]["v"]
    dim = node.args[1] % len(index)
    return m.pull(source, _with(index, dim, _entry(m.table(table, index, None))))


def _embedding(m: Mapping, node: Node, value: str, index: At) -> str:
    weight, table = node.args[0]["v"], node.args[1]["v"]
    return m.pull(weight, (_entry(m.table(table, index[:-1], None)), index[-1]))


def _entry(table: str) -> Index:
    return Index(looked_up=((table, sym(1)),))


def _index(m: Mapping, node: Node, value: str, index: At) -> str:
    """x[:, i, j]: neighbouring integer tensors, broadcast together; negative entries count from the end."""
    source = node.args[0]["v"]
    given = node.args[1]
    places = [d for d, a in enumerate(given) if a is not None]
    names = [given[d]["v"] for d in places]
    if any(m.graph.specs[n].dtype == "bool" for n in names):
        raise Unsupported("an index by a mask")
    together = places == list(range(places[0], places[0] + len(places)))
    rank = max(len(m.graph.specs[n].shape) for n in names)
    first = places[0] if together else 0
    own, rest = index[first : first + rank], [*index[:first], *index[first + rank :]]
    out = m.graph.specs[value].shape[first : first + rank]
    sizes = m.size(source)
    inner: list[Index] = []
    for d in range(len(sizes)):
        if d in places:
            name = given[d]["v"]
            inner.append(_entry(m.table(name, _aligned(m.graph.specs[name].shape, out, own), sizes[d])))
        else:
            inner.append(rest.pop(0))
    return m.pull(source, inner)


def _aligned(shape: tuple[int, ...], out: tuple[int, ...], own: Sequence[Index]) -> At:
    offset = len(out) - len(shape)
    return tuple(own[d + offset] if n == out[d + offset] else fixed(sym(0)) for d, n in enumerate(shape))


def _triangle(m: Mapping, node: Node, value: str, index: At) -> str:
    """Where column - row <= diagonal (tril), or >= (triu), the value, else 0."""
    lower = base_name(node) == "tril"
    diagonal = int(option(node, 1, "diagonal", 0))
    inside = m.pull(node.uses[0], index)
    zero = m.constant(0.0, m.steps[inside].kind)
    away = index[-1].plus(index[-2].times(sym(-1)))
    bound = sym(diagonal + 1 if lower else diagonal)
    return m.choose(away, [bound], [inside, zero] if lower else [zero, inside])


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
    each = m.size(value)[1] // groups
    inner, group = m.digits(index[1], [each, groups])
    return m.pull(node.uses[0], _with(index, 1, group.times(each).plus(inner)))


def _slice_scatter(m: Mapping, node: Node, value: str, index: At) -> str:
    source, part = node.args[0]["v"], node.args[1]["v"]
    dim = _dim(m, node, 2)
    as_slice = replace_args(node, (node.args[0], *node.args[2:]))
    start, step = _start(m, as_slice, "", dim, 2)
    if step != 1:
        raise Unsupported("an assignment to a slice with a step")
    length = m.size(part)[dim]
    _within(m, start, length, 1, m.size(source)[dim])
    outside = m.pull(source, index)
    inside = m.pull(part, _with(index, dim, index[dim].shift(start * sym(-1))))
    return m.choose(index[dim], [start, start + length], [outside, inside, outside])


def _select_scatter(m: Mapping, node: Node, value: str, index: At) -> str:
    source, part = node.args[0]["v"], node.args[1]["v"]
    dim, at = _dim(m, node, 2), int(option(node, 3, "index", 0))
    start = m.size(source)[dim] + sym(at) if at < 0 else sym(at)
    outside = m.pull(source, index)
    inside = m.pull(part, (*index[:dim], *index[dim + 1 :]))
    return m.choose(index[dim], [start, start + sym(1)], [outside, inside, outside])


def replace_args(node: Node, args: tuple[Any, ...]) -> Node:
    return node.model_copy(update={"args": args})


MOVES: Moves = {
    "permute": _permute, "transpose": _permute, "t": _permute, "view": _view, "reshape": _view, "_unsafe_view": _view,
    "unsqueeze": _view, "squeeze": _view, "expand": _expand, "slice": _slice, "select": _select,
    "split_with_sizes": _split, "cat": _cat, "stack": _stack, "constant_pad_nd": _pad, "flip": _flip, "roll": _roll,
    "repeat": _repeat, "index_select": _index_select, "gather": _gather, "embedding": _embedding, "index": _index, "copy": _copy,
    "tril": _triangle, "triu": _triangle, "pixel_shuffle": _pixels, "pixel_unshuffle": _pixels,
    "channel_shuffle": _channels, "slice_scatter": _slice_scatter, "select_scatter": _select_scatter,
    **{f"{kind}_pad{n}d": _pad for kind in ("reflection", "replication") for n in (1, 2, 3)},
}  # fmt: skip


def mapping_of(graph: Graph, region: Region) -> Mapping:
    """Raises Unsupported."""
    return pulled(graph, region, MOVES)
