"""The largest magnitude that a reference can be judged at is found in few tries, with a margin."""

from __future__ import annotations

import pytest

from warpsmith.judge.correctness.magnitude import MARGIN_DECADES, find_largest_exponent


@pytest.mark.parametrize(
    ("limit", "expected"), [(30, 30), (35, 30), (18, 18 - MARGIN_DECADES), (1, 0), (0, 0), (-1, None)]
)
def test_the_exponent_has_a_margin_below_the_limit(limit: int, expected: int | None) -> None:
    tried: list[int] = []

    def usable(exponent: int) -> bool:
        tried.append(exponent)
        return exponent <= limit

    assert find_largest_exponent(usable, 30) == expected
    assert len(tried) <= 6
