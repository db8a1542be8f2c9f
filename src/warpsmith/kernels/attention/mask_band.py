"""Masks whose contents the graph itself spells out: one value on and left of a diagonal, another right of it.

In: a graph and a value of it. Out: a `Band`, or None where the value depends on an input or is of another shape.
What tril, triu, comparisons of two aranges and constants make, and what comparisons, negations, fills and casts
make of that, is evaluated here as a pair of numbers; a constant is a band without a diagonal. No tensor's data is
ever looked into.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import number, option
from ...codegen.program import Unsupported
from ...records import Graph, Node

MAX_DEPTH = 12
FULL = {"full": 1, "full_like": 1, "scalar_tensor": 0}
VIEWED = {"alias", "clone", "unsqueeze", "squeeze", "view", "reshape", "_unsafe_view", "expand", "slice"}
COMPARED: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
BINARY: dict[str, Callable[[float, float], float]] = {
    **COMPARED, "add": operator.add, "sub": operator.sub, "rsub": lambda a, b: b - a, "mul": operator.mul,
    "logical_and": lambda a, b: bool(a) and bool(b), "logical_or": lambda a, b: bool(a) or bool(b),
}  # fmt: skip


@dataclass(frozen=True)
class Band:
    """`inside` where column - row <= limit, else `outside`; `limit` None: `inside` everywhere. Truth is 1."""

    limit: int | None
    inside: float
    outside: float

    @property
    def constant(self) -> bool:
        return self.limit is None


@dataclass(frozen=True)
class Affine:
    """An integer: `rows` times the row, `columns` times the column, and a constant."""

    rows: int
    columns: int
    constant: int

    def plus(self, other: Affine, times: int = 1) -> Affine:
        return Affine(
            self.rows + times * other.rows,
            self.columns + times * other.columns,
            self.constant + times * other.constant,
        )


def band_of(graph: Graph, value: Any, depth: int = 0) -> Band | None:
    """The value (a name, or an argument of a node) as a band over its last two dimensions."""
    name = value["v"] if isinstance(value, dict) and "v" in value else value
    if not isinstance(name, str):
        return _scalar(value)
    node = graph.producer.get(name)
    if node is None or depth > MAX_DEPTH:
        return None
    try:
        return _evaluate(graph, node, depth + 1)
    except Unsupported:
        return None


def _scalar(value: Any) -> Band | None:
    try:
        scalar = float(number(value))
    except Unsupported:
        return None
    return Band(None, scalar, scalar)


def _evaluate(graph: Graph, node: Node, depth: int) -> Band | None:
    name = base_name(node)
    arguments = [a for a in node.args if isinstance(a, dict) or not isinstance(a, list | tuple)]
    if name in FULL:
        return _scalar(node.args[FULL[name]])
    if name in ("tril", "triu"):
        return _triangle(band_of(graph, node.args[0], depth), name, int(option(node, 1, "diagonal", 0)))
    if name in VIEWED:
        source = band_of(graph, node.args[0], depth)
        return source if source is not None and _keeps(graph, node, source) else None
    if name in COMPARED and (band := _read_comparison(graph, node, name)) is not None:
        return band
    if name == "_to_copy":
        return _apply(_cast(node.output.spec.dtype), band_of(graph, node.args[0], depth))
    if name == "logical_not" or (name == "bitwise_not" and node.output.spec.dtype == "bool"):
        return _apply(lambda x: not x, band_of(graph, node.args[0], depth))
    if name == "neg":
        return _apply(operator.neg, band_of(graph, node.args[0], depth))
    if name in BINARY and option(node, 2, "alpha", 1) == 1:
        return _apply(BINARY[name], *(band_of(graph, a, depth) for a in arguments[:2]))
    if name == "where" and len(node.args) == 3:
        return _apply(lambda m, x, y: x if m else y, *(band_of(graph, a, depth) for a in arguments))
    if name == "masked_fill":
        return _apply(lambda x, m, y: y if m else x, *(band_of(graph, a, depth) for a in arguments))
    return None


def _cast(dtype: str) -> Callable[[float], float]:
    if dtype == "bool":
        return lambda x: float(x != 0)
    if dtype.startswith("float") or dtype == "bfloat16":
        return float
    return lambda x: float(int(x)) if abs(x) < 2**31 else math.nan


def _triangle(source: Band | None, name: str, diagonal: int) -> Band | None:
    if source is None or not source.constant:
        return None
    if name == "tril":
        return Band(diagonal, source.inside, 0.0)
    return Band(diagonal - 1, 0.0, source.inside)


def _apply(function: Callable[..., float], *bands: Band | None) -> Band | None:
    known_bands = [b for b in bands if b is not None]
    limits = {b.limit for b in known_bands if not b.constant}
    if len(known_bands) < len(bands) or len(limits) > 1:
        return None
    inside = float(function(*(b.inside for b in known_bands)))
    return Band(next(iter(limits), None), inside, float(function(*(b.outside for b in known_bands))))


def _keeps(graph: Graph, node: Node, source: Band) -> bool:
    """Do rows and columns stay where they are?"""
    if source.constant:
        return True
    before, after = graph.specs[node.uses[0]].shape, node.output.spec.shape
    if base_name(node) == "slice":
        return option(node, 4, "step", 1) == 1 and option(node, 2, "start", 0) in (0, None)
    return before[-2:] == after[-2:] and min(before[-2:]) > 1


def _read_comparison(graph: Graph, node: Node, name: str) -> Band | None:
    """Read a comparison of positions, such as row numbers with column numbers, as a band."""
    lhs, rhs = (affine_of(graph, a) for a in node.args[:2])
    if lhs is None or rhs is None or name in ("eq", "ne"):
        return None
    difference = lhs.plus(rhs, -1)
    if (difference.rows, difference.columns) == (1, -1):
        difference, name = (
            Affine(-1, 1, -difference.constant),
            {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[name],
        )
    if (difference.rows, difference.columns) != (-1, 1):
        return None
    distance = -difference.constant  # column - row, compared with this
    if name in ("lt", "le"):
        return Band(distance - (name == "lt"), 1.0, 0.0)
    return Band(distance - (name == "ge"), 0.0, 1.0)


def affine_of(graph: Graph, value: Any, depth: int = 0) -> Affine | None:
    """The value (a name, or an argument of a node) as an integer that row and column determine: positions and distances."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Affine(0, 0, value)
    name = value["v"] if isinstance(value, dict) and "v" in value else value
    node = graph.producer.get(name) if isinstance(name, str) else None
    if node is None or depth > MAX_DEPTH:
        return None
    name = base_name(node)
    if name == "arange":
        numbers = [a for a in node.args if isinstance(a, int)]
        if len(numbers) != len(node.args) or (len(numbers) > 2 and numbers[2] != 1):
            return None
        return Affine(0, 1, numbers[0] if len(numbers) > 1 else 0)
    if name in VIEWED and name not in ("slice", "expand"):
        return _view_affine(graph, node, affine_of(graph, node.args[0], depth + 1))
    if name in ("add", "sub") and len(node.args) == 2 and option(node, 2, "alpha", 1) == 1:
        lhs, rhs = (affine_of(graph, a, depth + 1) for a in node.args)
        return None if lhs is None or rhs is None else lhs.plus(rhs, 1 if name == "add" else -1)
    if name == "neg":
        source = affine_of(graph, node.args[0], depth + 1)
        return None if source is None else Affine(0, 0, 0).plus(source, -1)
    return None


def _view_affine(graph: Graph, node: Node, source: Affine | None) -> Affine | None:
    """Positions along one dimension may become those along another one; distances stay where they are."""
    before, after = graph.specs[node.uses[0]].shape, node.output.spec.shape
    if source is None or (len(before) > 1 and before[-2:] == after[-2:]):
        return source
    long = [d - len(after) for d, n in enumerate(after) if n != 1]
    if (source.rows and source.columns) or long not in ([-1], [-2]):
        return None
    step = source.rows + source.columns
    return Affine(step, 0, source.constant) if long == [-2] else Affine(0, step, source.constant)
