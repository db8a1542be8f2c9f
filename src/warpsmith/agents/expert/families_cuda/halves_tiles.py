"""Which tiles a convolution by warpgroup is cut into, and what that should take.

In: a convolution's numbers and its result's shape at the main variant. Out: the techniques `halves` and `halves-exact`
(see `emit_cuda.halves`) with their tunables, best guess first. Rates are those of an H200; they decide what is tried
first, never what is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import ceil, prod

from ....records import Tunable
from ..families.base import Technique, tunable
from .convolution_kinds import NO_LIMITS, Kind, Limits, side_by_side, up
from .halves_cuts import Cut, Sum, parts_of, patch_of, sums_of, tiles_of

EXACT = "halves-exact"  # float32's precision
UNITS, CLOCK = 132, 1755.0  # multiprocessors, and their cycles a microsecond
BANDWIDTH = 3.6e6  # bytes a microsecond
STORED, FETCHED = (
    17.0,
    26.0,
)  # bytes a cycle of a multiprocessor, to memory and from the L2 cache
TENSOR = 0.8  # of the tensor cores' peak
SHARED, STAGES, MOST_STAGES = 227 << 10, (3, 2), 64
MOST_RESULTS = 16384  # of a block
START_US = 9.0  # of three kernels
LONGER = 1.7  # times as long as computed here, in the median of looks on an H200; three products as long
WIDTHS = (128, 96, 64, 48, 32, 24, 16, 8)  # channels of a block
SLICES = (6, 5, 4, 8, 7, 9, 3, 2)  # steps of a slice of the weights
SLICES_EXACT = (4, 3, 2)  # 64 terms at the most


@dataclass(frozen=True)
class Tile:
    """`slice`: steps of a slice of the weights; `stages`: slices in shared memory."""

    cut: Cut
    sum: Sum
    slice: int
    stages: int
    us: float


def halves_technique(
    kind: Kind,
    shape: tuple[int, ...],
    terms: int,
    moved: int,
    stream: Tunable,
    limits: Limits = NO_LIMITS,
) -> Technique | None:
    """`shape`: of the convolution's result; `moved`: bytes of all operands. None where no tile fits."""
    tile = halves_tile(kind, shape, terms, limits)
    if tile is None:
        return None
    why = "the patch that a tile reads as scaled halves in shared memory, where every tap of it feeds tensor cores by warpgroup"
    name = EXACT if terms == 3 else "halves"
    us = max(tile.us * (LONGER if terms == 1 else 1.0), moved / BANDWIDTH) + START_US
    return Technique(name, why, "compute", (*_tunables(kind, tile, terms, limits), stream), us=us)


def _tunables(kind: Kind, tile: Tile, terms: int, limits: Limits) -> Iterator[Tunable]:
    cut = tile.cut

    def fits(pixels: int = cut.pixels, wide: int = cut.wide, deep: int = cut.deep) -> bool:
        """Do `halves_kernels` cut a tile with these sides?"""
        deep = min(deep, pixels // 64)
        area = pixels // deep
        wide = min(wide, area)
        wide = wide if wide >= 64 or area // wide >= 8 else area // 8
        return limits.tile(pixels, wide, deep, side_by_side(kind))

    yield tunable(
        "PIXELS",
        cut.pixels,
        *(p for p in (128, 256, 64) if p != cut.pixels and fits(pixels=p)),
    )
    near = [w for w in WIDTHS if w != cut.width and cut.width // 2 <= w <= 2 * cut.width]
    yield tunable("CHANNELS", cut.width, *[w for w in near if w >= limits.channels][:3])
    yield tunable("WARPGROUPS", cut.groups, *(g for g in (2, 1, 4) if 64 * g <= cut.pixels))
    yield tunable("CHUNK", tile.sum.chunk, *(c for c in (32, 16, 64) if c < 2 * kind.channels))
    yield tunable(
        "WIDE",
        cut.wide,
        *(w for w in (cut.wide * 2, cut.wide // 2) if w >= 8 and fits(wide=w)),
    )
    deeper = (1, 2, 4) if len(kind.kernel) > 2 else ()
    yield tunable("DEEP", cut.deep, *(d for d in deeper if fits(deep=d)))
    yield tunable("SLICE", tile.slice, *((4, 2) if terms == 3 else (4, 6, 9)))
    yield tunable("STAGES", tile.stages, *STAGES)
    yield tunable("UNITS", UNITS)


@cache
def halves_tile(kind: Kind, shape: tuple[int, ...], terms: int, limits: Limits = NO_LIMITS) -> Tile | None:
    phases = kind.stride if kind.transposed else (1,) * len(kind.stride)
    grid = [-(-n // s) for n, s in zip(shape[2:], phases, strict=True)]
    found: list[Tile] = []
    for (pixels, wide, deep), width in product(tiles_of(len(grid)), _widths(kind, limits)):
        if not limits.tile(pixels, wide, deep, side_by_side(kind)):
            continue
        sides = (deep, pixels // wide // deep, wide)[3 - len(grid) :]
        tiles = prod(-(-n // t) for n, t in zip(grid, sides, strict=True))
        outer = prod(phases) // side_by_side(kind)
        blocks = shape[0] * kind.groups * -(-kind.made // width) * outer * tiles
        patch = list(patch_of(kind, sides))
        for some, groups in product(sums_of(kind), sorted({pixels // 64, max(1, pixels // 128)})):
            if pixels * width <= MOST_RESULTS and (some.chunk <= 32 or pixels > 64 * groups):
                found += _timed(kind, Cut(pixels, wide, deep, width, groups), some, patch, blocks, terms)
    return min(found, key=lambda t: t.us, default=None)


def _timed(kind: Kind, cut: Cut, some: Sum, patch: list[int], blocks: int, terms: int) -> Iterator[Tile]:
    """With all weights of a block in shared memory, or slices that go round there; what fits. `blocks`: tiles of all."""
    inner, threads, parts = side_by_side(kind), 128 * cut.groups, 2 if terms == 3 else 1
    places, row = prod(patch), 4 * patch[-1]
    items, phases = (
        some.planes * places,
        [some.steps[i : i + inner] for i in range(0, len(some.steps), inner)],
    )
    sums = (inner + (terms == 3)) * (cut.pixels // 64 // cut.groups) * cut.width // 2
    if sums > 128:
        return
    size = min(
        SLICES_EXACT if terms == 3 else SLICES,
        key=lambda s: sum(ceil(n / s) * (s + 4) for n in some.steps),
    )
    slices = [some.chunks * sum(ceil(n / size) for n in steps) for steps in phases]
    mean, step = sum(slices) / len(slices), parts * 32 * cut.width
    # Cycles of a block: tensor cores (a product of 64 rows reads these from shared memory, however narrow it is), halves
    # made of floats, what comes from the L2 cache, results; what it waits for, most of all for what it does not hold.
    each = sum(max(part / 4, 16) for part in parts_of(cut.width))
    tensor = some.chunks * sum(some.steps) / len(phases) * cut.pixels / 64 * terms * each / TENSOR
    late = max(0, ceil(items / threads) - (4 if sums <= 32 else 3))
    halves = some.chunks * items * 8 * (8 if terms == 1 else 14) / 128
    stored = cut.pixels * inner * cut.width * 4 / STORED
    waits = 2000 + some.chunks * (2500 + 500 * late) + mean * (150 + (2 * sums if terms == 3 else 0))
    for stages in (max(slices), *STAGES):
        ring, kept = stages * size * step, stages >= max(slices)
        shared = 2048 + 4 * places + ring + max(parts * items * 16, 4 * cut.width * (cut.pixels * inner + 20))
        resident = min(max(1, (512 if sums <= 64 else 256) // threads), SHARED // shared)
        if resident < 1 or stages > MOST_STAGES:
            continue
        fetched = (
            some.chunks * items * 32 * (row + 28) / row + (0 if kept else mean * size * step)
        ) / FETCHED
        # As measured: small tiles wait more, short rows are stored in parts of a cache line, and 128 outputs a warpgroup pay
        # where sums are long.
        small = {64: 1.6, 128: 1.3}.get(cut.pixels, 1.0) if prod(kind.kernel) > 1 else 1.0 + cut.pixels / 1000
        small *= {8: 1.6, 16: 1.1}.get(cut.wide * inner, 1.0)
        small *= 1.15 if cut.width < min(64, kind.made) else 1.0
        if cut.pixels > 64 * cut.groups:
            long = some.chunks * sum(some.steps) / len(phases)
            small *= 0.9 if long > 60 else 1.1 if long > 30 else 1.4
        own = small * max(tensor, fetched, stored, (tensor + 1.5 * (halves + stored) + waits) / resident)
        waves = ceil(blocks / (UNITS * resident)) * resident
        yield Tile(cut, some, size, stages, waves * own / CLOCK)


def _widths(kind: Kind, limits: Limits) -> list[int]:
    """Channels of a block: those that leave few idle."""
    return sorted(
        (w for w in WIDTHS if w >= limits.channels),
        key=lambda w: up(kind.made, w) * (1 / w + 1 / 20),
    )[:3]
