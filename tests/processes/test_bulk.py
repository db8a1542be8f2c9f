"""Many bytes by several threads come out as few by one do."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.processes import bulk


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    """Some words at a time, and several threads for some hundred bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "WORDS_PER_COMPARISON", 3)
        patch.setattr(bulk, "PIECE_BYTES", 48)
        yield


@given(st.binary(max_size=400), st.integers(0, 9), st.integers(0, 420), st.integers(1, 255))
def test_same(data: bytes, start: int, place: int, change: int) -> None:
    """As `np.array_equal` says it, wherever the one byte is that differs."""
    one = np.frombuffer(b"x" * start + data, np.uint8)[start:]
    two = one.copy()
    assert bulk.is_same(one, two)
    assert not bulk.is_same(one, np.append(two, np.uint8(0)))
    if place < two.size:
        two[place] ^= change
        assert not bulk.is_same(one, two)


def test_what_is_large_is_for_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[int] = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, threads: int) -> None:
            pools.append(threads)
            super().__init__(threads)

    monkeypatch.setattr(bulk, "ThreadPoolExecutor", Pool)
    for size, wanted in ((96, 0), (960, 1)):
        room, source = np.zeros(size, np.uint8), np.arange(size).astype(np.uint8)
        bulk.copy(room, source)
        assert len(pools) == wanted
        assert bulk.is_same(room, source)
        assert len(pools) == 2 * wanted
        bulk.fill(room.view(np.uint16), 7)
        assert len(pools) == 3 * wanted


@given(st.binary(max_size=400), st.integers(0, 9))
def test_copy(data: bytes, start: int) -> None:
    source = np.frombuffer(data, np.uint8)
    room = np.zeros(start + source.size + 5, np.uint8)
    bulk.copy(room[start : start + source.size], source)
    assert bytes(room) == b"\0" * start + data + b"\0" * 5
    assert bytes(bulk.make_copy(source)) == data


@given(st.integers(0, 300), st.integers(0, 2**16 - 1))
def test_fill(count: int, word: int) -> None:
    room = np.full(count + 2, 7, np.uint16)
    bulk.fill(room[1 : count + 1], word)
    assert room.tolist() == [7, *[word] * count, 7]
