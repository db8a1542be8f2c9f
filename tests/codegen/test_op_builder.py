"""Conversions between the kinds of values in registers, as both builders write them."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.codegen.lowering.op_builder import convert, literal, whole
from warpsmith.codegen.program import Kind, Unsupported


class Texts:
    """A builder whose steps are their own texts."""

    def arg(self, value: Any, kind: Kind = "f") -> str:
        raise NotImplementedError

    def kind(self, value: Any) -> Kind:
        raise NotImplementedError

    def dtype(self, value: Any) -> str:
        raise NotImplementedError

    def emit(self, text: str, *args: str, kind: Kind = "f", cost: int = 1) -> str:
        return f"{kind}:{text.format(*args)}"

    def constant(self, value: float) -> str:
        return literal(value)

    def integer(self, value: int) -> str:
        return whole(value)


@pytest.mark.parametrize(
    ("have", "kind", "text"),
    [
        ("f", "f", "x"),
        ("f", "m", "m:x != 0.0f"),
        ("f", "l", "l:ws::to_long(x)"),
        ("m", "f", "f:ws::select(x, 1.0f, 0.0f)"),
        ("m", "l", "l:ws::select(x, INT64_C(1), INT64_C(0))"),
        ("l", "f", "f:ws::to_float(x)"),
        ("l", "m", "m:ws::to_mask(x != 0)"),
        ("i", "l", "l:ws::to_long(x)"),
        ("i", "f", "f:ws::to_float(x)"),
        ("i", "m", "m:ws::to_mask(l:ws::to_long(x) != 0)"),  # widened first
        ("i", "i", "x"),
    ],
)
def test_every_conversion(have: Kind, kind: Kind, text: str) -> None:
    assert convert(Texts(), "x", have, kind) == text


@pytest.mark.parametrize("have", ["f", "m", "l"])
def test_nothing_becomes_an_index(have: Kind) -> None:
    with pytest.raises(Unsupported, match="indices"):
        convert(Texts(), "x", have, "i")


def test_integers_are_written_whole() -> None:
    assert whole(2**53 + 1) == "INT64_C(9007199254740993)"
    assert whole(-7) == "-INT64_C(7)"
