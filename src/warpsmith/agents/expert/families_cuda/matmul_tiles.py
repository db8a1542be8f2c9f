"""Which tiles a matrix product is cut into on a GPU, and what that should take.

In: the sizes of a product at the main variant. Out: the techniques `tensor-cores` and `skinny` with their tunables, best
guess first. Rates are those of an H200; they decide what is tried first, never what is right.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....records import Tunable
from ..emit_cuda.product_skinny import MOST, Skinny
from ..families.base import Bottleneck, Technique, tunable
from ..families.matmul import Sizes
from .base import power

UNITS = 132  # multiprocessors
RATE, BANDWIDTH = 5.2e13, 3.8e12  # what three TF32 products by `mma.sync` come to, bytes per second
START_US = 3.0  # of a kernel
SPLITS = (1, 2, 3, 4, 6, 8, 11, 16, 22, 33, 44, 66, 132)


@dataclass(frozen=True)
class Tile:
    rows: int
    columns: int
    rate: float  # share of RATE: small tiles read each factor more often


TILES = (Tile(128, 128, 1.0), Tile(128, 64, 0.93), Tile(64, 64, 0.8), Tile(128, 32, 0.6))


def mma_technique(sizes: Sizes, moved: int, share: float, stream: Tunable) -> Technique:
    """`moved`: bytes of all operands; `share`: of the result that is computed."""
    choices = [(t, s) for t in TILES for s in SPLITS if s == 1 or s <= sizes.depth // 256]
    tile, split = min(choices, key=lambda c: _us(sizes, moved, share, *c))
    us = _us(sizes, moved, share, tile, split)
    others = [s for s in (1, split // 2, 2 * split) if 1 <= s <= max(1, sizes.depth // 128)]
    tunables = (
        tunable("BM", tile.rows, 128, 64), tunable("BN", tile.columns, 128, 64), tunable("BK", 32, 16),
        tunable("STAGES", 3, 2, 4), tunable("WM", 32, 64), tunable("SPLIT", split, *others), stream,
    )  # fmt: skip
    why = "each factor as two TF32 numbers, three products of them on tensor cores: as exact as float32"
    compute = 2.0 * share * sizes.outputs * sizes.depth / RATE > moved / BANDWIDTH
    bound: Bottleneck = "compute" if compute else "memory"
    return Technique("tensor-cores", why, bound, tunables, us=us)


def _us(sizes: Sizes, moved: int, share: float, tile: Tile, split: int) -> float:
    """The tiles in waves, or the memory's time where that is more; then the sums of parts, written and read."""
    down, over = -(-sizes.rows // tile.rows), -(-sizes.columns // tile.columns)
    blocks = max(1.0, share * sizes.batch * down * over * split)
    each = 2.0 * tile.rows * tile.columns * max(8.0, sizes.depth / split) / (tile.rate * RATE / UNITS) * 1e6
    # The busiest multiprocessor counts: its blocks share it.
    busy = each * -(-blocks // UNITS)
    parts = 8.0 * split * sizes.outputs / BANDWIDTH * 1e6 + START_US if split > 1 else 0.0
    return max(busy, moved / (0.85 * BANDWIDTH) * 1e6) + parts + START_US


def skinny_technique(sizes: Sizes, skinny: Skinny, moved: int, stream: Tunable) -> Technique:
    tall, few = (sizes.columns, sizes.rows) if skinny.right else (sizes.rows, sizes.columns)
    if skinny.along:
        group = min(256, max(32, power(sizes.depth / 32)))
        rows = 4 if few <= 4 else 2
        blocks = sizes.batch * -(-tall * group // (rows * max(128, group)))
        own = [
            tunable("GROUP", group, *(g for g in (group // 2, 2 * group) if 32 <= g <= 512)),
            tunable("TALL", rows, *(r for r in (1, 2, 8) if r * min(few, MOST) <= 32)),
        ]
        most = sizes.depth // (32 * group)
    else:
        blocks = sizes.batch * -(-tall // 128)
        own = [tunable("GROUP", 8, 4)]
        most = sizes.depth // 256
    split = max(1, min(most, power(4 * UNITS / max(1, blocks))))
    own.append(tunable("SPLIT", split, *(s for s in (split // 2, 2 * split) if 1 <= s <= max(1, most))))
    why = "few rows or columns: the big factor is read once, 16 bytes a load, each for all of them"
    us = moved / (0.85 * BANDWIDTH) * 1e6 + START_US * (1 + (split > 1))
    return Technique("skinny", why, "memory", (*own, stream), us=us)
