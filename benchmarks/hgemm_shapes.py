"""The grid of half-precision products: 1,000 shapes, the floor of each one's time, and classes by what bounds it.

The classes are those of an H200's rates on any GPU, so that a class holds the same shapes everywhere.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

SIDES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384)
FP16_BYTES = 2
TILE = 128  # of the output: fewer tiles than multiprocessors leave some idle
SM_COUNT = 132  # of an H100 and an H200 alike
TINY, SHORT, MEMORY, FEW_TILES, MEDIUM, LONG = CLASSES = (
    "below 2 µs", "2–8 µs", "memory-bound, 8 µs or more", "compute, fewer than 132 tiles of 128²", "compute, 8–60 µs",
    "compute, more than 60 µs",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def least_bytes(self) -> int:
        return FP16_BYTES * (self.m * self.k + self.k * self.n + self.m * self.n)

    @property
    def tiles(self) -> int:
        return -(-self.m // TILE) * -(-self.n // TILE)

    def __str__(self) -> str:
        return f"{self.m}×{self.n}×{self.k}"


@dataclass(frozen=True)
class Rates:
    """The rates that floors are computed from, and where they come from."""

    tflops: float
    tbps: float
    source: str

    def compute_us(self, shape: Shape) -> float:
        return shape.flops / self.tflops * 1e-6

    def memory_us(self, shape: Shape) -> float:
        return shape.least_bytes / self.tbps * 1e-6

    def floor_us(self, shape: Shape) -> float:
        return max(self.compute_us(shape), self.memory_us(shape))


H200_RATES = Rates(790.0, 4.3, "an 8192³ product and a device-to-device copy, both measured")
H100_RATES = Rates(
    790.0, 3.35, "an 8192³ product, measured; the nominal memory rate, of which a copy reaches 3.0"
)


def classify(shape: Shape) -> str:
    floor = H200_RATES.floor_us(shape)
    if floor < 2:
        return TINY
    if floor < 8:
        return SHORT
    if H200_RATES.memory_us(shape) >= H200_RATES.compute_us(shape):
        return MEMORY
    if shape.tiles < SM_COUNT:
        return FEW_TILES
    return MEDIUM if floor <= 60 else LONG


def list_grid() -> list[Shape]:
    return [Shape(*sides) for sides in itertools.product(SIDES, repeat=3)]


def interleave_classes(seed: int = 0) -> list[Shape]:
    """Order the grid so that the first shapes of any number hold each class in its proportion."""
    shapes, places = list_grid(), dict[Shape, float]()
    random.Random(seed).shuffle(shapes)
    for name in CLASSES:
        members = [s for s in shapes if classify(s) == name]
        places |= {s: (i + 0.5) / len(members) for i, s in enumerate(members)}
    return sorted(shapes, key=places.__getitem__)
