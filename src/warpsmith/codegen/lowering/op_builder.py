"""What the tables of ops share: the builder that they write into, literals, and readers of a node's arguments.

In: a node's arguments as the graph holds them. Out: text of C++ expressions, numbers and options. Kinds of values
in registers: "f" float32, "m" a mask, "l" int64 (any integer type in memory), "i" an integer of 32 bits: an index that a
reduction found, a float cast to a narrow integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from ...records import Node
from ..program import Kind, Unsupported

HALF_TYPES = ("bfloat16", "float16")
FLOATS = ("float32", *HALF_TYPES)
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")  # in registers a float32 that has been rounded to the type's grid
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")  # widened to int64 in registers
STORED = (*FLOATS, *FLOAT8, *INTEGERS, "bool")  # types of operands


class Builder(Protocol):
    """What an op needs of the lowering: operands by argument, and a way to add steps."""

    def arg(self, value: Any, kind: Kind = "f") -> str: ...
    def kind(self, value: Any) -> Kind: ...
    def dtype(self, value: Any) -> str: ...
    def emit(self, text: str, *args: str, kind: Kind = "f", cost: int = 1) -> str: ...
    def constant(self, value: float) -> str: ...
    def integer(self, value: int) -> str: ...


Lower = Callable[[Builder, Node], str]


def literal(value: float) -> str:
    """A C++ float literal, exact to float32."""
    if math.isnan(value):
        return "ws::nan"
    if math.isinf(value):
        return "ws::infinity" if value > 0 else "-ws::infinity"
    text = f"{value:.9g}"
    return (text if "." in text or "e" in text else text + ".0") + "f"


def number(value: Any) -> float:
    """The Python number of a scalar argument. Raises Unsupported for a tensor or a symbol."""
    if isinstance(value, dict) and "f" in value:
        return float(value["f"])
    if isinstance(value, bool | int | float):
        return float(value)
    raise Unsupported(f"scalar argument expected, found {value!r}")


def whole_number(value: Any) -> int:
    """The integer of a scalar argument, exact beyond 2^53. Raises Unsupported for anything else."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise Unsupported(f"integer argument expected, found {value!r}")


def whole(value: int) -> str:
    """A C++ literal of 64 bits."""
    return f"INT64_C({value})" if value >= 0 else f"-INT64_C({-value})"


def convert(b: Builder, name: str, have: Kind, kind: Kind) -> str:
    """The step that holds a step of kind `have` as `kind`. Raises Unsupported for arithmetic on indices."""
    if have == kind:
        return name
    if kind == "i":
        raise Unsupported("arithmetic on indices")
    if have == "m":
        unit, zero = (b.integer(1), b.integer(0)) if kind == "l" else (b.constant(1.0), b.constant(0.0))
        return b.emit("ws::select({0}, {1}, {2})", name, unit, zero, kind=kind)
    if (have, kind) == ("f", "m"):
        return b.emit("{0} != 0.0f", name, kind="m")
    if kind == "l":
        return b.emit("ws::to_long({0})", name, kind="l")
    if kind == "f":
        return b.emit("ws::to_float({0})", name)
    return b.emit("ws::to_mask({0} != 0)", convert(b, name, have, "l"), kind="m")


def option(node: Node, position: int, name: str, default: Any) -> Any:
    """Argument by position or keyword."""
    if name in node.kwargs:
        return node.kwargs[name]
    return node.args[position] if len(node.args) > position else default


def kind_of(dtype: str) -> Kind:
    """Return the register type of a dtype's values."""
    if dtype == "bool":
        return "m"
    return "l" if dtype in INTEGERS else "f"


def unary(text: str, cost: int = 1) -> Lower:
    return lambda b, n: b.emit(text, b.arg(n.args[0]), cost=cost)


def binary(text: str, cost: int = 1) -> Lower:
    return lambda b, n: b.emit(text, b.arg(n.args[0]), b.arg(n.args[1]), cost=cost)
