"""Numbers of a graph that come from sizes: a sum divided by the number of rows, a smoothing term by the classes.

An exported graph holds them as plain numbers, true at its own shapes only. In: a number and the sizes it may come
from, with what the emitted code calls them. Out: the number in terms of a size, which is the same at the main
shapes and right at others; or nothing. A guess in doubt costs nothing where it is wrong: the number is exact at the
main shapes, and every other variant is verified before anything is claimed of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from .op_builder import literal

LEAST = 5  # smaller numbers are as likely constants of the formula


def in_terms_of_size(value: float, sizes: Sequence[tuple[int, str]], share: bool = False) -> str | None:
    """`value` as "(float)SIZE", or as a short decimal divided by a size; the first of `sizes` that fits.

    A number that somebody may have written down (0.0005) stays, unless `share` says that part of one (0.1) is
    spread over the first of the sizes: label smoothing over the classes.
    """
    for size, text in sizes:
        if size >= LEAST and value == size:
            return f"(float)({text})"
    if _short(value):
        if not share or not 0 < value * sizes[0][0] < 1:
            return None
        sizes = sizes[:1]
    for size, text in sizes:
        if size < LEAST:
            continue
        size_text = float(f"{value * size:.3g}")
        if size_text != 0 and size_text / size == value:
            return f"({literal(size_text)} / (float)({text}))"
    return None


def _short(value: float) -> bool:
    """Tell whether it is a number that somebody would write down."""
    return float(f"{value:.5g}") == value
