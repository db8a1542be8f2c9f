"""What the steps of a program are called in the emitted code: after the graph's values, and what they do.

In: hints and steps. Out: C++ identifiers that are free.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ..program import Expr

# Names that the emitted code uses for itself, and C++ keywords a graph's value may be called.
RESERVED = {
    "row", "col", "j", "n", "u", "b", "c", "end", "begin", "unit", "workspace", "stream", "stash", "part",
    "ws", "full",
    "and", "or", "not", "xor", "int", "float", "double", "bool", "new", "delete", "class", "this",
    "template", "auto", "vectors",
    "read", "write", "keep", "best", "task", "bitand", "bitor", "compl", "default", "case", "switch", "for",
    "if", "else", "return",
    "true", "false", "union", "struct", "enum", "const", "static", "using", "namespace", "operator",
    "public", "private",
    "signed", "unsigned", "short", "long", "char", "void", "while", "do", "goto", "break", "continue",
    "try", "throw",
    "index", "step", "round", "read_bool", "write_bool", "last", "first", "extent", "total", "typename",
    "register", "at", "length", "acc", "to",
    "batch", "many", "runs", "high", "low", "slot", "slots", "size", "totals", "shares", "inside", "tiles", "blocks", "across", "grain", "tip", "gap", "take",
    "asm", "section", "alias", "symver", "weakref",  # a source may not have these words
    *(f"{prefix}{i}" for prefix in ("r", "row") for i in range(8)),
}  # fmt: skip


def identifier(hint: str, taken: Collection[str]) -> str:
    """A name like the hint that is neither reserved nor in `taken`."""
    base = hint if hint.isidentifier() and hint.isascii() and hint not in RESERVED else f"{hint}_"
    base = "".join(c if c.isalnum() and c.isascii() else "_" for c in base).strip("_") or "v"
    base = base if not base[0].isdigit() and base not in RESERVED else f"v_{base}"
    name, count = base, 1
    while name in taken:
        name, count = f"{base}_s{count}", count + 1
    return name


def verb(step: Expr) -> str:
    """Name what a step does in a word: "max", "exp", "sub"."""
    if step.reduction:
        parts = {
            ("moments", 0): "mean",
            ("moments", 1): "squares",
            ("softmax", 0): "max",
            ("softmax", 1): "sum",
            ("fmax", 0): "max",
        }
        return parts.get((step.reduction, step.part), step.reduction)
    call = re.match(r"ws::(\w+)\(", step.text)
    if call:
        return call[1].removesuffix("_nonpos").removesuffix("_nan")
    symbols = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
    return next((word for symbol, word in symbols.items() if f" {symbol} " in step.text), "v")
