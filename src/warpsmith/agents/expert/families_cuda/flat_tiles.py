"""Which tiles a convolution over cells in a row is cut into, and what that should take.

In: a convolution's numbers and its result's shape at the main variant. Out: the technique `flat` (see `emit_cuda.flat`) with
its tunables, best guess first. What things take decides what is tried first, never what is right.
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
    (1, 2, 1), (2, 2, 1), (2, 1, 1), (1, 1, 1), (4, 1, 1), (2, 2, 2), (1, 2, 2), (1, 3, 3), (1, 4, 4), (1, 4, 2), (4, 2, 2),
)  # products of 64 cells of a warpgroup, warpgroups, teams of them  # fmt: skip
PATCHES = (2, 3, 4, 6)
MOST_PATCH, MOST_RING, MOST_SLICE = 1 << 14, 40, 9  # octets of a patch; slices of the weights; steps of one
REGISTERS, OWN = 65536, 32  # of a multiprocessor; of a thread besides its sums
START_US = 14.0  # of five kernels
WHY = "the image once as halves, in which every tap is a shift: tensor cores read it as bulk copies bring it"


@dataclass(frozen=True)
class Whole:
    """What follows wants all `channels` of a place in one block, and goes over them `walks` times, the first one not counted."""

    channels: int = 0
    walks: int = 0


EACH = Whole()  # nothing does


@dataclass(frozen=True)
class Rates:
    """Of an H200 with tiles of `flat`, fitted to its looks: `python lab/flat_tiles.py fit`."""

    a_slice: float = 62.0  # cycles of a slice of the weights, besides its products
    a_patch: float = 1250.0  # of a patch
    a_pass: float = 13.0  # of a part of the results on its way to memory
    a_result: float = 31.0  # of each result of a thread in it
    a_walk: float = 110.0  # of each of them, for each further walk over a place's channels
    fetched: float = 66.0  # bytes a cycle of a multiprocessor
    stored: float = 10.8
    tensor: float = 0.76  # of the tensor cores' peak
    together: float = 3.0  # a power: what takes about as long as the longest part slows that down


RATES = Rates()


@dataclass(frozen=True)
class Load:
    """What a tile makes a multiprocessor do."""

    products: float  # cycles at the peak, of one of the warpgroups that share the tile
    crew: int  # such warpgroups
    slices: int
    patches: float
    passes: int
    results: float  # of a thread, in each pass
    walks: int
    fetched: float  # bytes
    stored: int
    at_once: int  # tiles of a multiprocessor
    tiles: int  # of all

    def us(self, rates: Rates = RATES) -> float:
        own = self.passes * (rates.a_pass + (rates.a_result + rates.a_walk * self.walks) * self.results)
        own += self.products / rates.tensor + self.slices * rates.a_slice + self.patches * rates.a_patch
        parts = (
            self.products * self.crew / rates.tensor,
            self.fetched / rates.fetched + self.stored / rates.stored,
            own / self.at_once,
        )
        cycles = sum(part**rates.together for part in parts) ** (1 / rates.together)
        rounds = self.tiles / (UNITS * self.at_once)
        return (ceil(rounds) if rounds < 4 else rounds) * self.at_once * cycles / CLOCK


@dataclass(frozen=True)
class Flat:
    """`tall`: products of 64 cells of a warpgroup; `teams`: of warpgroups; see `emit_cuda.flat_kernels`."""

    tall: int
    groups: int
    teams: int
    width: int
    chunk: int
    band: int
    slice: int
    stages: int
    patches: int
    load: Load
    us: float


@dataclass(frozen=True)
class Patch:
    """What one tap after the other reads: `octets` of it, `steps` of products of a list (an inner phase), `count` of them."""

    octets: int
    steps: int
    count: float


def flat_technique(
    kind: Kind,
    given: tuple[int, ...],
    shape: tuple[int, ...],
    moved: int,
    stream: Tunable,
    whole: Whole = EACH,
) -> Technique | None:
    """`given`, `shape`: of the convolution's input and result; `moved`: bytes of all operands. None where no tile fits."""
    if kind.channels < FEWEST_INS:
        return None
    found = sorted(flats(kind, given, shape, whole), key=lambda f: f.us)
    if not found:
        return None
    apart = 1 if kind.transposed else kind.stride[-1]  # neighbours of a cell, which read all of it
    halved = 4.0 * prod(given) * (0.5 + apart) / BANDWIDTH
    us = max(found[0].us, moved / BANDWIDTH) + halved + START_US
    return Technique("flat", WHY, "compute", (*_tunables(found), stream), us=us)


def _tunables(found: list[Flat]) -> Iterator[Tunable]:
    """What the best tile has first, then what others have that take up to half as long again."""
    near = [f for f in found if f.us <= 1.5 * found[0].us]

    def values(name: str) -> list[int]:
        return list(dict.fromkeys(getattr(f, name) for f in near))[:6]

    yield tunable("TALL", *values("tall"))
    yield tunable("WARPGROUPS", *values("groups"))
    yield tunable("TEAMS", *values("teams"))
    yield tunable("CHANNELS", *values("width"))
    yield tunable("CHUNK", *values("chunk"))
    yield tunable("BAND", *values("band"))
    yield tunable("SLICE", *values("slice"))
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


def _patch(kind: Kind, counts: list[int], apart: list[int], chunk: int, band: int, rows: int) -> Patch:
    """Of a tile of `rows` cells."""
    inside = range(len(counts) - band - 1, len(counts))  # dimensions inside of which taps share a patch
    outside = [d for d in range(len(counts)) if d not in inside]
    spread = sum(apart[d] * prod(counts[d + 1 :]) for d in inside)
    strides = kind.stride if kind.transposed else (1,) * len(counts)
    paces = (1,) * len(counts) if kind.transposed else kind.stride
    bands = max(1.0, prod(kind.kernel[d] / strides[d] for d in outside))  # of a phase
    outer = prod(strides) // side_by_side(kind)
    steps = sum(taps_of(kind)) / outer * chunk / 16
    octets = chunk // 8 * prod(paces[d] for d in inside) * (rows + spread)
    return Patch(octets, ceil(steps / bands / side_by_side(kind)), bands * -(-kind.channels // chunk))


@cache
def flats(
    kind: Kind, given: tuple[int, ...], shape: tuple[int, ...], whole: Whole = EACH
) -> tuple[Flat, ...]:
    counts, apart = _cells(kind, given, shape)
    inner, total = side_by_side(kind), given[0] * prod(counts)
    outer = (prod(kind.stride) if kind.transposed else 1) // inner
    found: list[Flat] = []
    for crew, width, chunk, band in product(CREWS, WIDTHS, CHUNKS, range(len(counts))):
        tall, groups, teams = crew
        if (chunk > up(kind.channels, 8) and chunk != 8) or not whole.channels <= width < 2 * up(
            kind.made, 8
        ):
            continue
        rows = 64 * tall * groups // teams
        patch = _patch(kind, counts, apart, chunk, band, rows)
        if inner * tall * width > 256 or patch.octets > MOST_PATCH:
            continue
        tiles = ceil(total / rows) * outer * -(-kind.made // width) * kind.groups
        for size, stages, patches, load in _fitting(kind, crew, width, patch, tiles, whole):
            found.append(Flat(*crew, width, chunk, band, size, stages, patches, load, load.us()))
    return tuple(found)


def _fitting(
    kind: Kind, crew: tuple[int, int, int], width: int, patch: Patch, tiles: int, whole: Whole
) -> Iterator[tuple[int, int, int, Load]]:
    """Steps of a slice, slices held, patches held: what fits a multiprocessor."""
    tall, groups, teams = crew
    inner = side_by_side(kind)
    sums, rows = inner * tall * width // 2, 64 * tall * groups // teams
    abreast = width if whole.channels else next(n for n in (32, 24, 16, 8) if width % n == 0)
    staged = groups * 4 * abreast * (64 * inner + 4)
    steps = patch.steps * inner * patch.count
    products = steps * tall * sum(max(part / 2, 16 + part / 4) for part in parts_of(width))
    wanted = (4 - groups if groups < 3 else 1) if sums <= 64 else (1 if groups > 1 else 2)
    for size in sorted({ceil(patch.steps / n) for n in (1, 2, 3, 4)}):
        slices = ceil(ceil(patch.steps / size) * inner * patch.count)
        for stages, patches in product(sorted({2, 3, 4, slices}), PATCHES):
            kept = stages >= slices
            if stages > MOST_RING or size > MOST_SLICE or (teams > 1 and not kept):
                continue
            ring = (slices if kept else stages) * size * 32 * width
            used = 1024 + ring + teams * patches * patch.octets * 16 + staged
            resident = min(wanted, SHARED // (used + 1024))
            if resident < 1 or (128 * groups + 32 * teams) * resident * (sums + OWN) > REGISTERS:
                continue
            fetched = patch.count * patch.octets * 16 + (0 if kept else steps * 32 * width)
            stored = rows * inner * min(width, kind.made) * 4
            passes, results = tall * width // abreast, inner * abreast / 2
            load = Load(products, groups // teams, slices, patch.count, passes, results, whole.walks,
                        fetched, stored, resident * teams, tiles)  # fmt: skip
            yield size, stages, patches, load
