"""The lowering of a node by the type of its result, among them those narrower than their registers: integers of 8 to 32 bits, float8.

In: a node. Out: its lowering, whose step holds what the node's own type holds: an integer is cut to the type's bits after
every op that may leave its range, a float8 is a float32 rounded to the type's grid. A step that only rounds for the store
behind it is left out (`before_rounding`), for a store rounds by itself. What such a cast depends on is rounded to halves
wherever the graph has halves (`find_stepped`): a step of the result is too coarse for a value that is nearly torch's.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...records import Graph, Node
from ..program import Expr, Unsupported
from .axis_relations import base_name
from .integer_ops import integer_op
from .op_builder import FLOAT8, FLOATS, INTEGERS, STORED, Builder, Lower
from .ops import pointwise

ROUNDED = {"float8_e4m3fn": "ws::round_e4m3({0})", "float8_e5m2": "ws::round_e5m2({0})"}
HALVES = {"bfloat16": "ws::round_bf16({0})", "float16": "ws::round_f16({0})"}
WRAPPED = {dtype: f"ws::wrapped<{dtype}_t>({{0}})" for dtype in INTEGERS if dtype != "int64"}
RANGES = {
    "bool": (0, 1), "uint8": (0, (1 << 8) - 1), "int8": (-(1 << 7), (1 << 7) - 1), "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1),
}  # fmt: skip
COPIES = ("_to_copy", "clone", "alias")
# Ops that make halves of halves without rounding.
EXACT = frozenset({
    "abs", "neg", "amax", "amin", "max", "min", "maximum", "minimum", "relu", "where", "clone", "alias", "sign", "round", "floor",
    "ceil", "trunc",
})  # fmt: skip
# Ops that stay in the range of their arguments; and those whose lowest bits depend on the arguments' lowest bits alone.
IN_RANGE = frozenset({
    *COPIES, "where", "masked_fill", "maximum", "minimum", "clamp", "clamp_min", "clamp_max", "bitwise_and", "bitwise_or",
    "bitwise_xor", "__and__", "__or__", "__xor__", "__rshift__", "bitwise_right_shift", "remainder",
    "full", "full_like", "scalar_tensor", "fill",
})  # fmt: skip
BY_LOW_BITS = frozenset({
    *COPIES, "where", "masked_fill", "add", "sub", "rsub", "mul", "neg", "square", "bitwise_and", "bitwise_or",
    "bitwise_xor", "bitwise_not", "__and__", "__or__", "__xor__",
})  # fmt: skip


def fits(source: str, dtype: str) -> bool:
    """Tell whether every value of one integer type (or bool) is one of the other."""
    if source not in RANGES:
        return False
    (low, high), (type_low, type_high) = RANGES[source], RANGES[dtype]
    return type_low <= low and high <= type_high


def lowering_of(node: Node) -> Lower:
    """Return the lowering of a pointwise node. Raises Unsupported."""
    name, dtype = base_name(node), node.output.spec.dtype
    if dtype not in STORED:
        raise Unsupported(f"{node.name} makes {dtype}")
    lower: Lower | None
    if dtype in FLOAT8:
        lower = _round if name in COPIES else None
    else:
        lower = integer_op(name) if dtype in INTEGERS else pointwise(node.op)
    if lower is None:
        raise Unsupported(f"{node.op} is not known")
    return _cut(name, lower) if dtype in WRAPPED else lower


def find_stepped(graph: Graph, nodes: Iterable[Node]) -> frozenset[str]:
    """The values in half precision that casts of floats to narrow integers or float8 depend on, and that these nodes make or read."""
    members = list(nodes)
    producer = {v.name: n for n in members for v in n.outputs if v is not None}
    todo = [n.uses[0] for n in members if _steps(graph, n)]
    reached: set[str] = set()
    while todo:
        value = todo.pop()
        if value not in reached:
            reached.add(value)
            todo += producer[value].uses if value in producer else ()
    return frozenset(v for v in reached if graph.specs[v].dtype in HALVES)


def _steps(graph: Graph, node: Node) -> bool:
    dtypes = {v.spec.dtype for v in node.outputs if v is not None}
    narrow = bool(dtypes & {*WRAPPED, *ROUNDED}) and base_name(node) in COPIES
    return narrow and graph.specs[node.uses[0]].dtype in FLOATS


def round_half(b: Builder, n: Node, step: str, dtype: str) -> str:
    """A step of a node whose result is in half precision, rounded as the result is."""
    return step if base_name(n) in EXACT else b.emit(HALVES[dtype], step, cost=3)


def _round(b: Builder, n: Node) -> str:
    dtype, x = n.output.spec.dtype, b.arg(n.args[0])
    return x if b.dtype(n.args[0]) == dtype else b.emit(ROUNDED[dtype], x, cost=8)


def _cut(name: str, lower: Lower) -> Lower:
    """The op in 64 bits, then the bits that its type has. A float is cast to 32 bits first, as torch does."""

    def lower_cut(b: Builder, n: Node) -> str:
        dtype = n.output.spec.dtype
        if name in COPIES and b.kind(n.args[0]) == "f":
            step = b.emit("ws::to_int({0})", b.arg(n.args[0]), kind="i", cost=2)
            return step if dtype == "int32" else b.emit(WRAPPED[dtype], step, kind="i", cost=2)
        within = _takes_own_type(b, n, dtype)
        if not within and name not in BY_LOW_BITS:
            raise Unsupported(f"{n.name} makes {dtype} of arguments beyond its range")
        step = lower(b, n)
        return step if within and name in IN_RANGE else b.emit(WRAPPED[dtype], step, kind="l", cost=2)

    return lower_cut


def _takes_own_type(b: Builder, n: Node, dtype: str) -> bool:
    """Tell whether all arguments, numbers too, are values of this type."""
    low, high = RANGES[dtype]
    numbers = (a for a in n.args if isinstance(a, int))
    return all(fits(b.dtype({"v": value}), dtype) for value in n.uses) and all(
        low <= a <= high for a in numbers
    )


def before_rounding(steps: dict[str, Expr], name: str, dtype: str) -> str:
    """The step that a store of this type may take instead: what `name` rounds or cuts, where it does just that."""
    step = steps[name]
    if step.text not in (ROUNDED.get(dtype), WRAPPED.get(dtype)):
        return name
    source = steps[step.args[0]]
    return source.name if (source.full, source.beyond) == (step.full, step.beyond) else name
