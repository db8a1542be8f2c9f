"""Which tiles a convolution over cells in a row is cut into, and what that should take.

In: a convolution's numbers and its result's shape at the main variant. Out: the technique `flat` (see `emit_cuda.flat`) with
its tunables, best guess first. Rates are those of an H200; they decide what is tried first, never what is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import ceil, prod

from ....records import Tunable
from ..families.base import Technique, tunable
from .convolution_kinds import Kind, side_by_side, taps_of, up
from .halves_cuts import parts_of
from .halves_tiles import BANDWIDTH, CLOCK, SHARED, UNITS

FEWEST_INS = 8  # channels of a group, below which octets are mostly zeros
WIDTHS = (128, 64, 96, 48, 32, 24, 16, 8)  # channels of a block
CHUNKS = (64, 32, 16, 8, 48)  # input channels
CREWS = (
    (1, 2, 1),
    (2, 2, 1),
    (2, 1, 1),
    (1, 1, 1),
    (4, 1, 1),
    (2, 2, 2),
    (1, 2, 2),
    (1, 3, 3),
    (1, 4, 4),
    (1, 4, 2),
    (4, 2, 2),
)  # products of 64 cells of a warpgroup, warpgroups, teams of them
FETCHED, STORED, TENSOR = 26.0, 17.0, 0.8  # bytes a cycle of a multiprocessor; of the tensor cores' peak
WAITS = 1500.0
START_US = 14.0  # of five kernels
MOST_PATCH, MOST_RING = 1 << 14, 40  # octets of a patch; slices of the weights
WHY = "the image once as halves, in which every tap is a shift: tensor cores read it as bulk copies bring it"


@dataclass(frozen=True)
class Flat:
    tall: int  # products of 64 cells of a warpgroup
    groups: int  # warpgroups
    teams: int  # of them
    width: int
    chunk: int
    band: int
    slice: int
    stages: int
    patches: int
    us: float

    @property
    def rows(self) -> int:
        return 64 * self.tall * self.groups


def flat_technique(
    kind: Kind, given: tuple[int, ...], shape: tuple[int, ...], moved: int, stream: Tunable, fewest: int = 0
) -> Technique | None:
    """`given`, `shape`: of the convolution's input and result; `moved`: bytes of all operands; `fewest`: channels that a
    block has to make, since what follows wants all of a place. None where no tile fits."""
    if kind.channels < FEWEST_INS:
        return None
    found = sorted(flats(kind, given, shape, fewest), key=lambda f: f.us)
    if not found:
        return None
    halved = 4.0 * prod(given) * 2.0 / BANDWIDTH  # read, written, read
    us = max(found[0].us, moved / BANDWIDTH) + halved + START_US
    return Technique("flat", WHY, "compute", (*_tunables(kind, found), stream), us=us)


def _tunables(kind: Kind, found: list[Flat]) -> Iterator[Tunable]:
    """What the best tile has first, then what others have that take up to twice as long."""
    best = found[0]
    near = [f for f in found if f.us <= 2 * best.us]

    def values(name: str, most: int = 4) -> list[int]:
        return list(dict.fromkeys(getattr(f, name) for f in near))[:most]

    yield tunable("TALL", *values("tall"))
    yield tunable("WARPGROUPS", *values("groups"))
    yield tunable("TEAMS", *values("teams"))
    yield tunable("CHANNELS", *values("width"))
    yield tunable("CHUNK", *values("chunk"))
    yield tunable("BAND", *values("band"))
    yield tunable("SLICE", best.slice, *(s for s in (2, 3, 4, 6) if s != best.slice))
    yield tunable("STAGES", *values("stages"))
    yield tunable("PATCHES", *values("patches"))
    yield tunable("UNITS", UNITS)


def _cells(kind: Kind, given: tuple[int, ...], shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Of each dimension: cells of a row, and by how many the last tap's shift is larger than the first one's."""
    counts, apart = [], []
    for d, stride in enumerate(kind.stride):
        reach = kind.dilation[d] * (kind.kernel[d] - 1)
        further = (reach + stride - 1) // stride if kind.transposed else reach // stride
        places = -(-shape[2 + d] // stride) if kind.transposed else shape[2 + d]
        zeros = kind.padding[d] // stride if not kind.transposed else 0
        least = max(places, places + further - zeros)
        ends = -(-(given[2 + d] + kind.padding[d]) // stride) if not kind.transposed else given[2 + d]
        counts.append(min(max(least, ends), places + further))
        apart.append(further)
    return counts, apart


@cache
def flats(kind: Kind, given: tuple[int, ...], shape: tuple[int, ...], fewest: int = 0) -> tuple[Flat, ...]:
    counts, apart = _cells(kind, given, shape)
    inner, total = side_by_side(kind), given[0] * prod(counts)
    outer = (prod(kind.stride) if kind.transposed else 1) // inner
    paces = (1,) * len(kind.stride) if kind.transposed else kind.stride
    steps = sum(taps_of(kind)) / outer / 2  # of an outer phase, times octets
    found: list[Flat] = []
    for (tall, groups, teams), width, chunk, band in product(CREWS, WIDTHS, CHUNKS, range(len(counts))):
        deep = up(kind.channels, 8)
        sums = inner * tall * width // 2
        if sums > 128 or (chunk > deep and chunk != 8) or width >= 2 * up(kind.made, 8) or width < fewest:
            continue
        if groups // teams > 1 and sums * groups > 256:
            continue
        own = range(len(counts) - band - 1, len(counts))  # dimensions inside of which taps share a patch
        spread = sum(apart[d] * prod(counts[d + 1 :]) for d in own)
        bands = prod(kind.kernel[d] for d in range(len(counts)) if d not in own)
        near = prod(paces[d] for d in own)
        rows = 64 * tall * groups // teams
        octets = chunk // 8 * near * (rows + spread)
        if octets > MOST_PATCH:
            continue
        chunks = -(-kind.channels // chunk)
        cycles = sum(max(p / 2, 16 + p / 4) for p in parts_of(width))
        lists = max(1, bands / outer) * inner  # of an outer phase and chunk
        of_list = ceil(steps * chunk / 8 / lists)
        tiles = ceil(total / rows)
        blocks = tiles * outer * -(-kind.made // width) * kind.groups
        for size in sorted({ceil(of_list / n) for n in (1, 2, 3, 4) if ceil(of_list / n) <= 9}):
            slices = ceil(ceil(of_list / size) * lists * chunks)
            for stages, patches in product(sorted({2, 3, 4, slices}), (2, 3)):
                kept = stages >= slices
                if stages > MOST_RING or (teams > 1 and not kept):
                    continue
                ring = (slices if kept else stages) * size * 32 * width
                staged = groups * 4 * (width if fewest else min(width, 32)) * (64 * inner + 4)
                used = 2048 + ring + teams * patches * octets * 16 + staged
                wanted = (4 - groups if groups < 3 else 1) if sums <= 64 else (1 if groups > 1 else 2)
                resident = min(wanted, SHARED // (used + 1024))
                if resident < 1 or 128 * groups * resident * (sums + 40) > 65536:
                    continue
                tensor = slices * size * tall * groups // teams * cycles / TENSOR
                fetched = chunks * max(1.0, bands / outer) * octets * 16 + (
                    0 if kept else slices * size * 32 * width
                )
                moved = fetched / FETCHED + rows * inner * width * 4 / STORED
                waits = WAITS + 16.0 * rows * width * inner / 128 / (
                    groups // teams
                )  # while its own products wait
                one = max(tensor, moved, (tensor + moved / 2 + waits) / (resident * teams))
                waves = ceil(blocks / (UNITS * resident * teams)) * resident * teams
                found.append(
                    Flat(tall, groups, teams, width, chunk, band, size, stages, patches, waves * one / CLOCK)
                )
    return tuple(found)
