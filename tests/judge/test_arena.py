"""Bytes are compared as `np.array_equal` compares them, whatever their number and place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.judge import arena
from warpsmith.judge.arena import same_bytes


@given(st.binary(max_size=100), st.integers(0, 9), st.integers(0, 120), st.integers(1, 255))
def test_same_bytes(data: bytes, start: int, place: int, change: int) -> None:
    """With a few words at a time, so that there is more than one part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arena, "WORDS", 3)
        one = np.frombuffer(b"x" * start + data, np.uint8)[start:]
        two = one.copy()
        assert same_bytes(one, two)
        assert not same_bytes(one, np.append(two, np.uint8(0)))
        if place < two.size:
            two[place] ^= change
            assert not same_bytes(one, two)
