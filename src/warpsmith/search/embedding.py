"""A source as a vector: hashed n-grams of its tokens, each counted by the logarithm of how often it occurs.

In: tokens. Out: a unit vector of `SIZE` floats; the cosine of two is near 1 where their sources differ in a few tokens. The hash is
CRC-32, so that a vector is the same in every process.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

SIZE = 1 << 13
LONGEST = 4  # tokens of an n-gram


def embed(tokens: Sequence[str]) -> npt.NDArray[np.float32]:
    """Shape (SIZE,), length 1; zeros for no tokens."""
    counts: Counter[int] = Counter()
    for n in range(1, LONGEST + 1):
        for start in range(len(tokens) - n + 1):
            counts[zlib.crc32(" ".join(tokens[start : start + n]).encode())] += 1
    vector = np.zeros(SIZE, dtype=np.float32)
    for code, count in counts.items():
        sign = 1.0 if code >> 31 else -1.0  # collisions cancel on average
        vector[code % SIZE] += sign * np.log1p(count)
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector
