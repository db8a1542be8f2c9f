"""Pointwise ATen ops as C++ expressions over `warpsmith_simd.h`.

`POINTWISE` maps an op to a function (builder, node) → name of the step that holds the result. The text of an
expression is the same for a vector and for a scalar, because the header overloads every function. Rounding
follows float32: half-precision inputs are widened, computed in float32 and rounded once on the way out.
"""

from __future__ import annotations

from ...records import Node
from ..program import Kind
from .integer_ops import SHIFTS, compare, integer_op
from .op_builder import (
    FLOATS,
    HALF_TYPES,
    INTEGERS,
    Builder,
    Lower,
    binary,
    kind_of,
    literal,
    number,
    option,
    unary,
)
from .special_ops import SPECIAL_OPS

__all__ = [
    "FLOATS",
    "INTEGERS",
    "Builder",
    "Lower",
    "integer_op",
    "kind_of",
    "literal",
    "number",
    "option",
    "pointwise",
]


def _logical(text: str) -> Lower:
    def lower(b: Builder, n: Node) -> str:
        return b.emit(text, *(b.arg(a, "m") for a in n.args), kind="m")

    return lower


def _add(sign: str) -> Lower:
    def lower(b: Builder, n: Node) -> str:
        alpha = number(option(n, 2, "alpha", 1))
        lhs, rhs = b.arg(n.args[0]), b.arg(n.args[1])
        if alpha == 1:
            return b.emit(f"{{0}} {sign} {{1}}", lhs, rhs)
        return b.emit(f"{{0}} {sign} {literal(alpha)} * {{1}}", lhs, rhs)

    return lower


def _rsub(b: Builder, n: Node) -> str:
    alpha = number(option(n, 2, "alpha", 1))
    scaled = "{1}" if alpha == 1 else f"{literal(alpha)} * {{1}}"
    return b.emit("{0} - " + scaled, b.arg(n.args[1]), b.arg(n.args[0]))


def _pow_scalar(b: Builder, n: Node) -> str:
    exponent, x = number(n.args[1]), b.arg(n.args[0])
    special = {0.5: "ws::sqrt({0})", -0.5: "ws::rsqrt({0})", 1.0: "{0}", 2.0: "{0} * {0}", -1.0: "1.0f / {0}"}
    if exponent in special:
        return b.emit(special[exponent], x, cost=2)
    if exponent == int(exponent) and 0 <= abs(exponent) <= 8:
        return b.emit(f"ws::powi<{int(exponent)}>({{0}})", x, cost=4)
    return b.emit("ws::pow({0}, {1})", x, b.constant(exponent), cost=80)


def _pow_base(b: Builder, n: Node) -> str:
    base = number(n.args[0])
    if base == 2:
        return b.emit("ws::exp2({0})", b.arg(n.args[1]), cost=12)
    return b.emit("ws::pow({0}, {1})", b.constant(base), b.arg(n.args[1]), cost=80)


def _clamp(b: Builder, n: Node) -> str:
    low, high = option(n, 1, "min", None), option(n, 2, "max", None)
    x = b.arg(n.args[0])
    if low is not None:
        x = b.emit("ws::max_nan({0}, {1})", x, b.arg(low), cost=2)
    if high is not None:
        x = b.emit("ws::min_nan({0}, {1})", x, b.arg(high), cost=2)
    return x


def _hardtanh(b: Builder, n: Node) -> str:
    low, high = number(option(n, 1, "min_val", -1.0)), number(option(n, 2, "max_val", 1.0))
    return b.emit(f"ws::clamp({{0}}, {literal(low)}, {literal(high)})", b.arg(n.args[0]), cost=2)


def _gelu(b: Builder, n: Node) -> str:
    x = b.arg(n.args[0])
    if option(n, 1, "approximate", "none") == "tanh":
        return b.emit("ws::gelu_tanh({0})", x, cost=20)
    half = n.output.spec.dtype in HALF_TYPES
    return b.emit("ws::gelu_half({0})" if half else "ws::gelu({0})", x, cost=20 if half else 32)


def _leaky_relu(b: Builder, n: Node) -> str:
    slope = number(option(n, 1, "negative_slope", 0.01))
    return b.emit(f"ws::select({{0}} > 0.0f, {{0}}, {{0}} * {literal(slope)})", b.arg(n.args[0]), cost=3)


def _elu(b: Builder, n: Node) -> str:
    alpha, scale, inner = (
        number(option(n, i, k, 1.0)) for i, k in ((1, "alpha"), (2, "scale"), (3, "input_scale"))
    )
    below = f"ws::expm1({{0}} * {literal(inner)}) * {literal(alpha * scale)}"
    return b.emit(f"ws::select({{0}} > 0.0f, {{0}} * {literal(scale)}, {below})", b.arg(n.args[0]), cost=18)


def _softplus(b: Builder, n: Node) -> str:
    beta, threshold = number(option(n, 1, "beta", 1.0)), number(option(n, 2, "threshold", 20.0))
    return b.emit(f"ws::softplus({{0}}, {literal(beta)}, {literal(threshold)})", b.arg(n.args[0]), cost=40)


def _where(b: Builder, n: Node) -> str:
    mask = b.arg(n.args[0], "m")
    return b.emit("ws::select({0}, {1}, {2})", mask, b.arg(n.args[1]), b.arg(n.args[2]))


def _lower_masked_fill(b: Builder, n: Node) -> str:
    return b.emit("ws::select({0}, {1}, {2})", b.arg(n.args[1], "m"), b.arg(n.args[2]), b.arg(n.args[0]))


def _cast(b: Builder, n: Node) -> str:
    kind: Kind = "m" if n.output.spec.dtype == "bool" else "f"
    return b.arg(n.args[0], kind)


def _fill(position: int) -> Lower:
    return lambda b, n: b.constant(number(n.args[position]))


def _addc(symbol: str) -> Lower:
    def lower(b: Builder, n: Node) -> str:
        value = number(option(n, 3, "value", 1))
        args = [b.arg(a) for a in n.args[:3]]
        return b.emit(f"{{0}} + {literal(value)} * {{1}} {symbol} {{2}}", *args, cost=3)

    return lower


def _sign(b: Builder, n: Node) -> str:
    sign_text = "ws::select({0} > {1}, {2}, ws::select({0} < {1}, {3}, {0} - {0}))"
    return b.emit(sign_text, b.arg(n.args[0]), b.constant(0.0), b.constant(1.0), b.constant(-1.0), cost=4)


def _batch_norm_inference(b: Builder, n: Node) -> str:
    """(x - mean) / sqrt(variance + eps) * weight + bias with the running statistics, per channel."""
    x, mean, variance = b.arg(n.args[0]), b.arg(n.args[3]), b.arg(n.args[4])
    scale = b.emit(f"ws::rsqrt({{0}} + {literal(number(n.args[6]))})", variance, cost=14)
    if n.args[1] is not None:
        scale = b.emit("{0} * {1}", scale, b.arg(n.args[1]))
    y = b.emit("({0} - {1}) * {2}", x, mean, scale)
    return y if n.args[2] is None else b.emit("{0} + {1}", y, b.arg(n.args[2]))


_LOGICAL_NOT = "({0} == 0)"

_OPS: dict[str, Lower] = {
    "add": _add("+"),
    "sub": _add("-"),
    "rsub": _rsub,
    "mul": binary("{0} * {1}"),
    "neg": unary("-{0}"),
    "abs": unary("ws::abs({0})"),
    "exp": unary("ws::exp({0})", 12),
    "exp2": unary("ws::exp2({0})", 12),
    "expm1": unary("ws::expm1({0})", 16),
    "log": unary("ws::log({0})", 20),
    "log2": unary("ws::log2({0})", 24),
    "log10": unary("ws::log10({0})", 21),
    "log1p": unary("ws::log1p({0})", 22),
    "sqrt": unary("ws::sqrt({0})", 8),
    "rsqrt": unary("ws::rsqrt({0})", 14),
    "reciprocal": unary("1.0f / {0}", 6),
    "square": unary("{0} * {0}"),
    "sigmoid": unary("ws::sigmoid({0})", 20),
    "tanh": unary("ws::tanh({0})", 26),
    "erf": unary("ws::erf({0})", 26),
    "sin": unary("ws::sin({0})", 20),
    "cos": unary("ws::cos({0})", 20),
    "floor": unary("ws::floor({0})", 5),
    "ceil": unary("ws::ceil({0})", 6),
    "trunc": unary("ws::trunc({0})", 6),
    "round": unary("ws::round_even({0})", 3),
    "relu": unary("ws::relu({0})"),
    "silu": unary("ws::silu({0})", 20),
    "mish": unary("ws::mish({0})", 24),
    "hardswish": unary("{0} * ws::clamp({0} + 3.0f, 0.0f, 6.0f) / 6.0f", 8),
    "hardsigmoid": unary("ws::clamp({0} + 3.0f, 0.0f, 6.0f) / 6.0f", 8),
    "sign": _sign,
    "sgn": _sign,
    "maximum": binary("ws::max_nan({0}, {1})", 2),
    "minimum": binary("ws::min_nan({0}, {1})", 2),
    "clamp": _clamp,
    "hardtanh": _hardtanh,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "gelu": _gelu,
    "softplus": _softplus,
    "where": _where,
    "masked_fill": _lower_masked_fill,
    "eq": compare("=="),
    "ne": compare("!="),
    "lt": compare("<"),
    "le": compare("<="),
    "gt": compare(">"),
    "ge": compare(">="),
    "logical_and": _logical("{0} & {1}"),
    "logical_or": _logical("{0} | {1}"),
    "logical_xor": _logical("{0} ^ {1}"),
    "logical_not": _logical(_LOGICAL_NOT),
    "__and__": _logical("{0} & {1}"),
    "__or__": _logical("{0} | {1}"),
    "bitwise_and": _logical("{0} & {1}"),
    "bitwise_or": _logical("{0} | {1}"),
    "bitwise_not": _logical(_LOGICAL_NOT),
    "bitwise_xor": _logical("{0} ^ {1}"),
    "_to_copy": _cast,
    "clone": _cast,
    "alias": _cast,
    "full": _fill(1),
    "full_like": _fill(1),
    "scalar_tensor": _fill(0),
    "fill": _fill(1),
    "empty_permuted": lambda b, n: b.constant(0.0),  # what nobody reads: ones_like and its like fill it
    "empty": lambda b, n: b.constant(0.0),
    "addcmul": _addc("*"),
    "addcdiv": _addc("/"),
}
_OPS |= SPECIAL_OPS
_OPS["isnan"] = lambda b, n: b.emit("{0} != {0}", b.arg(n.args[0]), kind="m")
_OPS["isinf"] = lambda b, n: b.emit("ws::abs({0}) == ws::infinity", b.arg(n.args[0]), kind="m")


_OPS |= {name: lower for name in SHIFTS if (lower := integer_op(name)) is not None}
_OPS["__xor__"] = _logical("{0} ^ {1}")
_OPS["_native_batch_norm_legit_no_training"] = _batch_norm_inference
_CLAMPS = {"clamp_min": "ws::max_nan({0}, {1})", "clamp_max": "ws::min_nan({0}, {1})"}
_OPS |= {name: binary(text, 2) for name, text in _CLAMPS.items()}


def pointwise(op: str) -> Lower | None:
    """Return the lowering of an op such as "aten.add.Tensor", or None when it is not pointwise or not known."""
    parts = op.split(".")
    if parts[0] != "aten" or len(parts) < 2 or (len(parts) > 2 and parts[2].endswith("out")):
        return None
    if parts[1] == "round" and op.endswith("decimals"):
        return None
    if parts[1] == "pow":
        return {
            "Tensor_Scalar": _pow_scalar,
            "Scalar": _pow_base,
            "Tensor_Tensor": binary("ws::pow({0}, {1})", 80),
        }.get(parts[2] if len(parts) > 2 else "")
    return _OPS.get(parts[1])
