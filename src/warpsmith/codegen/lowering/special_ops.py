"""Pointwise ops beyond arithmetic: inverse and hyperbolic functions, remainders, and the rarer activations.

Every entry is exact to float32 in the sense of `warpsmith_simd.h`; where torch defines an op by cases (NaN,
infinities, thresholds), the cases are written out as torch has them.
"""

from __future__ import annotations

import math

from ...records import Node
from ..program import Unsupported
from .op_builder import Builder, Lower, binary, literal, number, option, unary


def _log_sigmoid(b: Builder, n: Node) -> str:
    return b.emit("ws::log_sigmoid({0})", b.arg(n.args[0]), cost=36)


def _softshrink(b: Builder, n: Node) -> str:
    """x - l above l, x + l below -l, else 0; a NaN stays."""
    text = "ws::select(ws::abs({0}) <= {1}, {0} * 0.0f, {0} - ws::copysign({1}, {0}))"
    return b.emit(text, b.arg(n.args[0]), b.constant(number(option(n, 1, "lambd", 0.5))), cost=4)


def _hardshrink(b: Builder, n: Node) -> str:
    limit = b.constant(number(option(n, 1, "lambd", 0.5)))
    text = "ws::select(ws::abs({0}) <= {1}, {2}, {0})"
    return b.emit(text, b.arg(n.args[0]), limit, b.constant(0.0), cost=2)


def _lower_threshold(b: Builder, n: Node) -> str:
    limit, value = (b.constant(number(a)) for a in n.args[1:3])
    return b.emit("ws::select({0} <= {1}, {2}, {0})", b.arg(n.args[0]), limit, value)


def _lower_scaled_elu(alpha: float, scale: float) -> Lower:
    below = f"ws::expm1({{0}} * {literal(1.0 / alpha)}) * {literal(alpha)}"
    text = f"ws::select({{0}} > 0.0f, {{0}}, {below})"
    return unary(text if scale == 1.0 else f"{text} * {literal(scale)}", 18)


def _celu(b: Builder, n: Node) -> str:
    return _lower_scaled_elu(number(option(n, 1, "alpha", 1.0)), 1.0)(b, n)


def _prelu(b: Builder, n: Node) -> str:
    """The weight has been viewed to broadcast already (`_prelu_kernel`)."""
    return b.emit("ws::select({0} > 0.0f, {0}, {1} * {0})", b.arg(n.args[0]), b.arg(n.args[1]), cost=3)


def _nan_to_num(b: Builder, n: Node) -> str:
    if n.output.spec.dtype != "float32":
        raise Unsupported("the largest number of a half type")
    largest = 3.4028234663852886e38
    chosen = [option(n, i, k, None) for i, k in ((1, "nan"), (2, "posinf"), (3, "neginf"))]
    fill, top, bottom = (
        d if c is None else number(c) for c, d in zip(chosen, (0.0, largest, -largest), strict=True)
    )
    x = b.arg(n.args[0])
    x = b.emit("ws::select({0} == ws::infinity, {1}, {0})", x, b.constant(top), cost=2)
    x = b.emit("ws::select({0} == -ws::infinity, {1}, {0})", x, b.constant(bottom), cost=2)
    return b.emit("ws::select({0} != {0}, {1}, {0})", x, b.constant(fill), cost=2)


def _lerp(b: Builder, n: Node) -> str:
    """From the nearer end, as torch does, so that both ends are met exactly."""
    start, end, weight = (b.arg(a) for a in n.args[:3])
    span = b.emit("{0} - {1}", end, start)
    from_start = b.emit("{0} + {1} * {2}", start, weight, span)
    from_end = b.emit("{0} - {1} * (1.0f - {2})", end, span, weight)
    return b.emit("ws::select(ws::abs({0}) < 0.5f, {1}, {2})", weight, from_start, from_end, cost=3)


def _hypot(b: Builder, n: Node) -> str:
    """Scaled by the larger side, so that no square overflows; infinite where either side is, even beside a NaN."""
    x, y = (b.emit("ws::abs({0})", b.arg(a)) for a in n.args[:2])
    big, small = b.emit("ws::max_nan({0}, {1})", x, y), b.emit("ws::min_nan({0}, {1})", x, y)
    ratio = b.emit("ws::select({0} == 0.0f, {0}, {1} / {0})", big, small, cost=8)
    length = b.emit("{0} * ws::sqrt({1} * {1} + 1.0f)", big, ratio, cost=12)
    endless = b.emit("ws::max({0}, {1}) == {2}", x, y, b.constant(math.inf), kind="m")
    either = b.emit("ws::max({1}, {0}) == {2}", x, y, b.constant(math.inf), kind="m")
    mask = b.emit("{0} | {1}", endless, either, kind="m")
    return b.emit("ws::select({0}, {1}, {2})", mask, b.constant(math.inf), length)


def div(b: Builder, n: Node) -> str:
    mode = n.kwargs.get("rounding_mode")
    lhs, rhs = b.arg(n.args[0]), b.arg(n.args[1])
    if mode is None:
        return b.emit("{0} / {1}", lhs, rhs, cost=6)
    if mode == "trunc":
        return b.emit("ws::trunc({0} / {1})", lhs, rhs, cost=12)
    return b.emit("ws::floor_divide({0}, {1})", lhs, rhs, cost=40)


_FINITE = "ws::abs({0}) < ws::infinity"

SPECIAL_OPS: dict[str, Lower] = {
    "atan": unary("ws::atan({0})", 24), "asin": unary("ws::asin({0})", 24), "acos": unary("ws::acos({0})", 24),
    "atan2": binary("ws::atan2({0}, {1})", 36), "tan": unary("ws::tan({0})", 30),
    "sinh": unary("ws::sinh({0})", 28), "cosh": unary("ws::cosh({0})", 22),
    "asinh": unary("ws::asinh({0})", 60), "acosh": unary("ws::acosh({0})", 60), "atanh": unary("ws::atanh({0})", 32),
    "erfc": unary("ws::erfc({0})", 80), "frac": unary("{0} - ws::trunc({0})", 7),
    "fmod": binary("ws::fmod({0}, {1})", 24), "remainder": binary("ws::remainder({0}, {1})", 28),
    "floor_divide": binary("ws::floor_divide({0}, {1})", 40), "div": div, "hypot": _hypot,
    "copysign": binary("ws::copysign({0}, {1})", 3),
    # A NaN is no number to compare with: the other side.
    "fmax": binary("ws::select({1} != {1}, {0}, ws::max({0}, {1}))", 3),
    "fmin": binary("ws::select({1} != {1}, {0}, ws::min({0}, {1}))", 3),
    "log_sigmoid_forward": _log_sigmoid, "softshrink": _softshrink, "hardshrink": _hardshrink,
    "threshold": _lower_threshold, "celu": _celu, "selu": _lower_scaled_elu(1.6732632423543772, 1.0507009873554805),
    "_prelu_kernel": _prelu, "nan_to_num": _nan_to_num, "lerp": _lerp,
    "isfinite": lambda b, n: b.emit(_FINITE, b.arg(n.args[0]), kind="m"),
    "signbit": lambda b, n: b.emit("ws::as_int({0}) < 0", b.arg(n.args[0]), kind="m"),
    "heaviside": lambda b, n: b.emit(
        "ws::select({0} == 0.0f, {1}, ws::select({0} > 0.0f, {2}, {3}))",
        b.arg(n.args[0]), b.arg(n.args[1]), b.constant(1.0), b.constant(0.0), cost=4,
    ),
}  # fmt: skip
