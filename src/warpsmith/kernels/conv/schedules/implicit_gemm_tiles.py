"""The ways in which a convolution by warpgroup may be cut: outputs into tiles, the sum into chunks and steps.

In: a convolution's numbers. Out: cuts as `kernels/conv/cuda/implicit_gemm_split_fp16_tile.cuh` makes them of the tunables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from ..convolution_kinds import ConvolutionKind, reach, taps_of, up


@dataclass(frozen=True)
class Sum:
    """How the sum is cut. Channels of a chunk; chunks; planes of channel vectors in a patch; steps of each phase in a chunk."""

    chunk: int
    chunks: int
    planes: int
    steps: tuple[int, ...]


def sums_of(kind: ConvolutionKind) -> Iterator[Sum]:
    taps = taps_of(kind)
    if kind.channels <= 4 and not kind.transposed:  # vectors hold several taps of a row
        taps_per_vector = 8 // (1 << (kind.channels - 1).bit_length())
        row, rows = kind.kernel[-1], prod(kind.kernel[:-1])
        planes = (row >= taps_per_vector) + (row % taps_per_vector != 0)
        yield Sum(16, 1, planes, (-(-rows * -(-row // taps_per_vector) // 2),))
        return
    for chunk in (32, 16, 64, 48):
        if chunk <= max(16, up(kind.channels, 16)):
            depth = min(chunk, up(kind.channels, 8))
            steps = tuple(-(-n * depth // 16) for n in taps)
            yield Sum(chunk, -(-kind.channels // depth), depth // 8, steps)


def patch_of(kind: ConvolutionKind, sides: tuple[int, ...]) -> Iterator[int]:
    """Yield the patch's size in each dimension; columns come in whole strides."""
    for i, side in enumerate(sides):
        pace = 1 if kind.transposed or i < len(sides) - 1 else kind.stride[-1]
        yield up(reach(kind, i, side), pace)


def parts_of(width: int) -> Iterator[int]:
    """The products that one of so many columns is made of."""
    for part in (128, 64, 32, 16, 8):
        while width >= part:
            yield part
            width -= part


def tiles_of(space: int) -> Iterator[tuple[int, int, int]]:
    """Pixels, those of a row, planes: see `kernels/conv/cuda/implicit_gemm_split_fp16_tile.cuh`."""
    for pixels, deep in product((128, 256, 64), (1, 2, 4) if space > 2 else (1,)):
        for wide in (16, 32, 8, 64, 128, 256):
            high = pixels // deep // wide
            if high >= 1 and (high % 8 == 0 or wide >= 64) and (space > 1 or high == 1):
                yield pixels, wide, deep
