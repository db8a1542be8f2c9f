"""The largest magnitude of inputs, as a power of ten, at which a reference can still be judged.

In: a test of one exponent. Out: an exponent, or None. Where the reference overflows at the largest magnitude (it squares, say),
a family of large values would be skipped and prove nothing; so it takes the largest that is left, with a margin, since
another order of the same operations may overflow a little earlier.
"""

from __future__ import annotations

from collections.abc import Callable

MARGIN_DECADES = 2


def find_largest_exponent(usable: Callable[[int], bool], top: int) -> int | None:
    """Bisect for the largest usable exponent in [0, top]; it is taken for granted that what is below a usable one is usable."""
    if usable(top):
        return top
    low, high = -1, top
    while high - low > 1:
        middle = (low + high) // 2
        if usable(middle):
            low = middle
        else:
            high = middle
    return max(low - MARGIN_DECADES, 0) if low >= 0 else None
