"""Many bytes, by several threads: one alone copies a tenth of what memory allows, and less where each page is touched for the
first time. NumPy lets go of the interpreter while it works, so plain threads do. What is small is done here and now.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint16]

PIECE = 1 << 23  # bytes of a thread's turn
WORDS = 1 << 17  # that are compared at a time, so that they stay in a cache
MOST_THREADS = 8


def copy(to: Bytes, source: Bytes) -> None:
    _each(lambda part: np.copyto(to[part], source[part]), to.size, PIECE)


def copied(source: Bytes) -> Bytes:
    made = np.empty_like(source)
    copy(made, source)
    return made


def fill(words: Words, word: int) -> None:
    _each(lambda part: words[part].fill(word), words.size, PIECE // words.itemsize)


def same(one: Bytes, two: Bytes) -> bool:
    """By words, and some at a time, which is forty times as fast as `np.array_equal` on many bytes."""
    if one.size != two.size:
        return False
    whole = one.size // 8 * 8
    a, b = one[:whole].view(np.uint64), two[:whole].view(np.uint64)
    return _each(lambda part: _same_words(a[part], b[part]), a.size, PIECE // 8) and np.array_equal(
        one[whole:], two[whole:]
    )


def _same_words(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> bool:
    parts = (slice(start, start + WORDS) for start in range(0, a.size, WORDS))
    return all(np.array_equal(a[p], b[p]) for p in parts)


def _each(work: Callable[[slice], bool | None], size: int, piece: int) -> bool:
    """Do it to every part of `piece` items; whether none said no."""
    parts: Iterator[slice] = (slice(start, min(start + piece, size)) for start in range(0, size, piece))
    if size <= 2 * piece:
        return all(work(p) is not False for p in parts)
    with ThreadPoolExecutor(min(MOST_THREADS, len(os.sched_getaffinity(0)))) as pool:
        return all(done is not False for done in pool.map(work, parts))
