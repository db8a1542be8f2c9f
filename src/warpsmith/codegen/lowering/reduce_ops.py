"""ATen reductions, softmax and layer norm in terms of a few kinds: sum, max, min, prod, argmax, and two
compounds.

Compounds have two states found in one pass: `moments` (mean, sum of squared deviations; Chan, Golub and
LeVeque 1979) and `softmax` (maximum, sum of exponentials; Milakov and Gimelshein 2018). With `single_pass`
off they are written as the passes that define them. `REDUCE_OPS` maps an op to a function (lowering, node) →
steps, one for each output of the node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from ...records import Node
from ..program import Unsupported
from .op_builder import Builder, literal, number, option


class ReduceBuilder(Builder, Protocol):
    single_pass: bool

    @property
    def count(self) -> str: ...

    def reduce(self, kind: str, source: str) -> str: ...
    def reduce_compound(self, kind: str, source: str) -> tuple[str, str]: ...


LowerReduction = Callable[[Any, Node], tuple[str, ...]]


def _sum(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    if b.kind(n.args[0]) == "m" and n.output.spec.dtype == "int64":  # how many are true
        return (b.reduce("count", b.arg(n.args[0])),)
    return (b.reduce("sum", b.arg(n.args[0])),)


def _mean(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    return (b.emit(f"{{0}} / {b.count}", b.reduce("sum", b.arg(n.args[0]))),)


def _simple(kind: str) -> LowerReduction:
    return lambda b, n: (b.reduce(kind, b.arg(n.args[0])),)


def _extremum(kind: str) -> LowerReduction:
    """max.default, and max.dim with its indices."""

    def lower(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
        x = b.arg(n.args[0])
        values = b.reduce(kind, x)
        if len(n.outputs) < 2 or n.outputs[1] is None:
            return (values,)
        return values, b.reduce("argmax", x if kind == "max" else b.emit("-{0}", x))

    return lower


def _argmin(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    return (b.reduce("argmax", b.emit("-{0}", b.arg(n.args[0]))),)


def _truth(kind: str) -> LowerReduction:
    """any and all: the maximum and the minimum of 0 and 1."""

    def lower(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
        mask = b.arg(n.args[0], "m")
        ones = b.emit("ws::select({0}, {1}, {2})", mask, b.constant(1.0), b.constant(0.0))
        return (b.emit("{0} != 0.0f", b.reduce(kind, ones), kind="m"),)

    return lower


def moments(b: ReduceBuilder, x: str) -> tuple[str, str]:
    """Mean, and sum of squared deviations."""
    if b.single_pass:
        return b.reduce_compound("moments", x)
    mean = b.emit(f"{{0}} / {b.count}", b.reduce("sum", x))
    centred = b.emit("{0} - {1}", x, mean)
    return mean, b.reduce("sum", b.emit("{0} * {0}", centred))


def soft_state(b: ReduceBuilder, x: str) -> tuple[str, str]:
    """Maximum, and the step x - maximum <= 0, of which 0 is exact: no multiply-add takes what made x. A NaN may miss the
    maximum, but it reaches every sum of exponentials.
    """
    top = b.reduce_compound("softmax", x)[0] if b.single_pass else b.reduce("fmax", x)
    return top, b.emit("ws::sub({0}, {1})", x, top)


def _exponentials(b: ReduceBuilder, x: str, top: str, shifted: str) -> tuple[str, str]:
    """exp(x - maximum), and its sum."""
    power = b.emit("ws::exp_nonpos({0})", shifted, cost=12)
    if not b.single_pass:
        return power, b.reduce("sum", power)
    # inf - inf is NaN in one element of the row, and so in its sum; the single pass shifts such rows by 0.
    total = b.reduce_compound("softmax", x)[1]
    return power, b.emit("ws::select({0} == ws::infinity, {1}, {2})", top, b.constant(math.nan), total)


def _softmax(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    x = b.arg(n.args[0])
    power, total = _exponentials(b, x, *soft_state(b, x))
    return (b.emit("{0} * {1}", power, b.emit("1.0f / {0}", total)),)


def _log_softmax(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    x = b.arg(n.args[0])
    top, shifted = soft_state(b, x)
    _, total = _exponentials(b, x, top, shifted)
    return (b.emit("{0} - {1}", shifted, b.emit("ws::log({0})", total)),)


def _logsumexp(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    """Lower it as softmax, but an infinite maximum counts as 0: log(0) and log(inf) are then the answer."""
    x = b.arg(n.args[0])
    finite = "ws::select(ws::abs({0}) == ws::infinity, {1}, {0})"
    if b.single_pass:
        raw, total = b.reduce_compound("softmax", x)
        top = b.emit(finite, raw, b.constant(0.0))
    else:
        top = b.emit(finite, b.reduce("fmax", x), b.constant(0.0))
        total = b.reduce("sum", b.emit("ws::exp(ws::sub({0}, {1}))", x, top, cost=12))
    return (b.emit("ws::log({0}) + {1}", total, top),)


def _layer_norm(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    x, (mean, squares) = b.arg(n.args[0]), moments(b, b.arg(n.args[0]))
    variance = b.emit(f"{{0}} / {b.count}", squares)
    rstd = b.emit(f"ws::rsqrt({{0}} + {literal(number(n.args[4]))})", variance)
    y = b.emit("({0} - {1}) * {2}", x, mean, rstd)
    if option(n, 2, "weight", None) is not None:
        y = b.emit("{0} * {1}", y, b.arg(n.args[2]))
    if option(n, 3, "bias", None) is not None:
        y = b.emit("{0} + {1}", y, b.arg(n.args[3]))
    return y, mean, rstd


def _group_norm(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    """Argument 7 is eps; the groups are in the iteration space already."""
    return _normalise(b, n, number(n.args[7]))[:3]


def _normalise(b: ReduceBuilder, n: Node, eps: float) -> tuple[str, str, str, str]:
    """Batch or group norm by the data's own statistics: result, mean, 1 / deviation, squared deviations."""
    x, (mean, squares) = b.arg(n.args[0]), moments(b, b.arg(n.args[0]))
    rstd = b.emit(f"ws::rsqrt({{0}} + {literal(eps)})", b.emit(f"{{0}} / {b.count}", squares))
    y = b.emit("({0} - {1}) * {2}", x, mean, rstd)
    if n.args[1] is not None:
        y = b.emit("{0} * {1}", y, b.arg(n.args[1]))
    if n.args[2] is not None:
        y = b.emit("{0} + {1}", y, b.arg(n.args[2]))
    return y, mean, rstd, squares


def _batch_norm(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    """Training mode: the running statistics move by `momentum`, argument 6; argument 7 is eps."""
    if n.args[5] is not True:
        raise Unsupported("batch norm outside training in its functional form")
    y, mean, rstd, squares = _normalise(b, n, number(n.args[7]))
    unbiased = b.emit("{0} / (float)(REDUCE - 1)", squares)
    running = f"{literal(1.0 - number(n.args[6]))} * {{0}} + {literal(number(n.args[6]))} * {{1}}"
    return y, mean, rstd, b.emit(running, b.arg(n.args[3]), mean), b.emit(running, b.arg(n.args[4]), unbiased)


def _batch_norm_no_stats(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    """Lower the op that instance norm becomes (arguments: x, weight, bias, training, momentum, eps)."""
    if not n.op.endswith(".no_stats") or n.args[3] is not True:
        raise Unsupported("batch norm that updates its statistics in place")
    return _normalise(b, n, number(n.args[5]))[:3]


def _correction(n: Node) -> int:
    if n.op.endswith(".correction"):
        value = n.kwargs.get("correction", 1)
        value = 1 if value is None else value
    else:
        value = 1 if option(n, 2 if n.op.endswith(".dim") else 1, "unbiased", True) else 0
    if number(value) != int(number(value)):
        raise Unsupported("a fractional correction")
    return int(number(value))


def _variance(b: ReduceBuilder, n: Node) -> tuple[str, str]:
    mean, squares = moments(b, b.arg(n.args[0]))
    correction = _correction(n)
    return b.emit(f"{{0}} / (float)(REDUCE > {correction} ? REDUCE - {correction} : 0)", squares), mean


def _var(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    return _variance(b, n)[:1]


def _std(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    return (b.emit("ws::sqrt({0})", _variance(b, n)[0]),)


def _norm(b: ReduceBuilder, n: Node) -> tuple[str, ...]:
    order, x = number(option(n, 1, "ord", 2)), b.arg(n.args[0])
    if order == 2:
        return (b.emit("ws::sqrt({0})", b.reduce("sum", b.emit("{0} * {0}", x))),)
    magnitude = b.emit("ws::abs({0})", x)
    if order == 1:
        return (b.reduce("sum", magnitude),)
    if math.isinf(order):
        return (b.reduce("max" if order > 0 else "min", magnitude),)
    if order == 0:
        raise Unsupported("a norm of order 0")
    total = b.reduce("sum", b.emit("ws::pow({0}, {1})", magnitude, b.constant(order), cost=80))
    return (b.emit("ws::pow({0}, {1})", total, b.constant(1.0 / order)),)


REDUCE_OPS: dict[str, LowerReduction] = {
    "sum": _sum, "mean": _mean, "amax": _simple("max"), "amin": _simple("min"), "max": _extremum("max"),
    "min": _extremum("min"), "prod": _simple("prod"), "argmax": _simple("argmax"), "argmin": _argmin,
    "any": _truth("max"),
    "all": _truth("min"), "logsumexp": _logsumexp, "var": _var, "std": _std, "var_mean": _variance,
    "linalg_vector_norm": _norm, "_softmax": _softmax, "_log_softmax": _log_softmax,
    "native_layer_norm": _layer_norm, "native_group_norm": _group_norm,
    "_native_batch_norm_legit_functional": _batch_norm, "_native_batch_norm_legit": _batch_norm_no_stats,
}  # fmt: skip
