"""Ops on integers: comparisons that must not pass through float32, shifts, and arithmetic.

Integers of any width are int64 in registers (`ws::vl`), so every value is exact. `narrow_types` cuts results of other
integer types than int64 to their bits.
"""

from __future__ import annotations

from ...records import Node
from ..program import Unsupported
from .op_builder import Builder, Lower, option, whole_number

REGISTER_BITS = 64


def compare(symbol: str) -> Lower:
    """A comparison, in int64 where neither side is floating, else in float32 as torch promotes them."""

    def lower(b: Builder, n: Node) -> str:
        kinds = {b.kind(a) for a in n.args[:2]}
        if kinds & {"l", "i"} and "f" not in kinds:
            lhs, rhs = b.arg(n.args[0], "l"), b.arg(n.args[1], "l")
            return b.emit(f"ws::to_mask({{0}} {symbol} {{1}})", lhs, rhs, kind="m")
        return b.emit(f"{{0}} {symbol} {{1}}", b.arg(n.args[0]), b.arg(n.args[1]), kind="m")

    return lower


def _calls(text: str, cost: int = 2) -> Lower:
    """An expression of the first one or two arguments."""

    def lower(b: Builder, n: Node) -> str:
        count = 2 if "{1}" in text else 1
        return b.emit(text, *(b.arg(a, "l") for a in n.args[:count]), kind="l", cost=cost)

    return lower


def _add(sign: str, swap: bool = False) -> Lower:
    def lower(b: Builder, n: Node) -> str:
        lhs, rhs = (b.arg(a, "l") for a in (n.args[1::-1] if swap else n.args[:2]))
        alpha = whole_number(option(n, 2, "alpha", 1))
        if alpha == 1:
            return b.emit(f"{{0}} {sign} {{1}}", lhs, rhs, kind="l")
        scaled = b.emit("{0} * {1}", rhs, b.integer(alpha), kind="l")
        return b.emit(f"{{0}} {sign} {{1}}", lhs, scaled, kind="l")

    return lower


def _div(b: Builder, n: Node) -> str:
    modes = {"floor": "ws::floor_div({0}, {1})", "trunc": "ws::trunc_div({0}, {1})"}
    text = modes.get(n.kwargs.get("rounding_mode") or "")
    if text is None:
        raise Unsupported("a quotient of integers without a rounding mode")
    return _calls(text, 40)(b, n)


def _where(b: Builder, n: Node) -> str:
    mask, if_true, if_false = b.arg(n.args[0], "m"), b.arg(n.args[1], "l"), b.arg(n.args[2], "l")
    return b.emit("ws::select({0}, {1}, {2})", mask, if_true, if_false, kind="l")


def _lower_masked_fill(b: Builder, n: Node) -> str:
    mask, if_true, if_false = b.arg(n.args[1], "m"), b.arg(n.args[2], "l"), b.arg(n.args[0], "l")
    return b.emit("ws::select({0}, {1}, {2})", mask, if_true, if_false, kind="l")


def _clamp(b: Builder, n: Node) -> str:
    x = b.arg(n.args[0], "l")
    for position, name, text in ((1, "min", "ws::greater({0}, {1})"), (2, "max", "ws::lesser({0}, {1})")):
        limit = option(n, position, name, None)
        if limit is not None:
            x = b.emit(text, x, b.arg(limit, "l"), kind="l", cost=2)
    return x


def _fill(position: int) -> Lower:
    return lambda b, n: b.integer(whole_number(n.args[position]))


def _copy(b: Builder, n: Node) -> str:
    return b.arg(n.args[0], "l")


def _shift(symbol: str, function: str) -> Lower:
    """A shift, by a number of the graph in one instruction."""

    def lower(b: Builder, n: Node) -> str:
        x, by = b.arg(n.args[0], "l"), n.args[1]
        if isinstance(by, int) and 0 <= by < REGISTER_BITS:
            return b.emit(f"{{0}} {symbol} {by}", x, kind="l")
        return b.emit(f"{function}({{0}}, {{1}})", x, b.arg(by, "l"), kind="l", cost=4)

    return lower


_SHIFTS = {
    **dict.fromkeys(("__rshift__", "bitwise_right_shift"), _shift(">>", "ws::shift_right")),
    **dict.fromkeys(("__lshift__", "bitwise_left_shift"), _shift("<<", "ws::shift_left")),
}  # fmt: skip
_INTEGER_OPS: dict[str, Lower] = {
    **_SHIFTS,
    "add": _add("+"), "sub": _add("-"), "rsub": _add("-", swap=True), "mul": _calls("{0} * {1}"),
    "neg": _calls("-{0}"), "abs": _calls("ws::greater({0}, -{0})"), "square": _calls("{0} * {0}"),
    "maximum": _calls("ws::greater({0}, {1})"), "minimum": _calls("ws::lesser({0}, {1})"),
    "clamp": _clamp, "clamp_min": _calls("ws::greater({0}, {1})"), "clamp_max": _calls("ws::lesser({0}, {1})"),
    "bitwise_and": _calls("{0} & {1}"), "bitwise_or": _calls("{0} | {1}"), "bitwise_xor": _calls("{0} ^ {1}"),
    "__and__": _calls("{0} & {1}"), "__or__": _calls("{0} | {1}"), "__xor__": _calls("{0} ^ {1}"),
    "bitwise_not": _calls("~{0}"), "remainder": _calls("ws::floor_mod({0}, {1})", 40),
    "floor_divide": _calls("ws::floor_div({0}, {1})", 40), "div": _div,
    "where": _where, "masked_fill": _lower_masked_fill, "_to_copy": _copy, "clone": _copy, "alias": _copy,
    "full": _fill(1), "full_like": _fill(1), "scalar_tensor": _fill(0), "fill": _fill(1),
}  # fmt: skip


SHIFTS = frozenset(_SHIFTS)


def integer_op(name: str) -> Lower | None:
    """Return the lowering of an op whose result is int64, None when it is not known."""
    return _INTEGER_OPS.get(name)
