"""The lowering of a node by the type of its result, among them those narrower than their registers: integers of 8 to 32 bits, float8.

In: a node. Out: its lowering, whose step holds what the node's own type holds: an integer is cut to the type's bits after
every op that may leave its range, a float8 is a float32 rounded to the type's grid. A step that only rounds for the store
behind it is left out (`before_rounding`), for a store rounds by itself.
"""

from __future__ import annotations

from ...records import Node
from ..program import Expr, Unsupported
from .axis_relations import base_name
from .integer_ops import integer_op
from .op_builder import FLOAT8, INTEGERS, STORED, Builder, Lower
from .ops import pointwise

ROUNDED = {"float8_e4m3fn": "ws::round_e4m3({0})", "float8_e5m2": "ws::round_e5m2({0})"}
WRAPPED = {dtype: f"ws::wrapped<{dtype}_t>({{0}})" for dtype in INTEGERS if dtype != "int64"}
RANGES = {
    "bool": (0, 1), "uint8": (0, (1 << 8) - 1), "int8": (-(1 << 7), (1 << 7) - 1), "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1),
}  # fmt: skip
COPIES = ("_to_copy", "clone", "alias")
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
