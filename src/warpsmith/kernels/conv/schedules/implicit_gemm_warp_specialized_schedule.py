"""The schedule of the warp-specialised persistent implicit GEMM on a packed fp16 image (`implicit_gemm_warp_specialized`), and the one that should
take the least time.

In: a convolution's numbers and its result's shape at the main variant. Out: the technique `implicit-gemm-warp-specialized`. The prediction decides what is
tried first, never what is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import ceil, prod

from ....hardware import H200, Hardware
from ....records import Tunable
from ...family import Technique
from ...schedule import Schedule, tunes
from ..convolution_kinds import ConvolutionKind, side_by_side, taps_of, up
from .implicit_gemm_tiles import parts_of

FEWEST_INS = 8  # channels of a group, below which vectors of 8 channels are mostly zeros
WIDTHS = (128, 64, 96, 48, 32, 24, 16, 8)  # channels of a block
CHUNKS = (64, 32, 16, 8, 48)  # input channels
CONSUMER_LAYOUTS = (
    (1, 2, 1), (2, 2, 1), (2, 1, 1), (1, 1, 1), (4, 1, 1), (2, 2, 2), (1, 2, 2), (1, 3, 3), (1, 4, 4), (1, 4, 2), (4, 2, 2),
)  # products of 64 cells of a warpgroup, warpgroups, consumer groups  # fmt: skip
IMAGE_STAGES = (2, 3, 4, 6)
MOST_PATCH, MOST_RING, MOST_SLICE = (
    1 << 14,
    40,
    9,
)  # channel vectors of a patch; slices of the weights; steps of one
REGISTERS = 32  # of a thread besides its sums
DRAM_SHARE = 0.9
LAUNCHES = 14 / 3  # of five kernels, in starts of one
WHY = "the image packed once as fp16, in which every tap is a shift: tensor cores read it as bulk copies bring it"


@dataclass(frozen=True)
class FullChannels:
    """What follows wants all `channels` of a place in one block, and goes over them `walks` times, the first one not counted."""

    channels: int = 0
    walks: int = 0


EACH = FullChannels()  # nothing does


@dataclass(frozen=True)
class Rates:
    """The rates of an H200 with tiles of `implicit-gemm-warp-specialized`, fitted to its looks: `python lab/flat_tiles.py fit`."""

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
    warpgroups: int  # such warpgroups
    slices: int
    patches: float
    passes: int
    results: float  # of a thread, in each pass
    walks: int
    fetched: float  # bytes
    stored: int
    tiles_per_sm: int  # tiles of a multiprocessor
    tiles: int  # of all

    def us(self, rates: Rates = RATES, hardware: Hardware = H200) -> float:
        consumer_cycles = self.passes * (
            rates.a_pass + (rates.a_result + rates.a_walk * self.walks) * self.results
        )
        consumer_cycles += (
            self.products / rates.tensor + self.slices * rates.a_slice + self.patches * rates.a_patch
        )
        parts = (
            self.products * self.warpgroups / rates.tensor,
            self.fetched / rates.fetched + self.stored / rates.stored,
            consumer_cycles / self.tiles_per_sm,
        )
        cycles = sum(part**rates.together for part in parts) ** (1 / rates.together)
        rounds = self.tiles / (hardware.sm_count * self.tiles_per_sm)
        return (ceil(rounds) if rounds < 4 else rounds) * self.tiles_per_sm * cycles / hardware.sm_clock_mhz


@dataclass(frozen=True)
class Patch:
    """What one tap after the other reads: `channel_vectors` of it, `steps` of products of a list (an inner phase), `count` of them."""

    channel_vectors: int
    steps: int
    count: float


@dataclass(frozen=True)
class ImplicitGemmWarpSpecializedSchedule(Schedule):
    """`mma_tiles_m`: products of 64 cells of a warpgroup; `consumer_groups`: of warpgroups; see `implicit_gemm_warp_specialized.emit_warp_specialized_kernels`."""

    mma_tiles_m: int = tunes("MMA_TILES_M", 1)
    groups: int = tunes("WARPGROUPS", 1)
    consumer_groups: int = tunes("CONSUMER_GROUPS", 1)
    width: int = tunes("CHANNELS", 64)
    chunk: int = tunes("CHUNK", 64)
    band: int = tunes("BAND", 0)
    slice: int = tunes("K_STEPS_PER_STAGE", 1)
    stages: int = tunes("STAGES", 2)
    patches: int = tunes("IMAGE_STAGES", 2)
    sm_count: int = tunes("SM_COUNT", 0)

    @property
    def rows(self) -> int:
        """Cells of a tile."""
        return 64 * self.mma_tiles_m * self.groups // self.consumer_groups

    @property
    def threads(self) -> int:
        """A producer warp of each consumer group asks for copies."""
        return 128 * self.groups + 32 * self.consumer_groups

    def sums(self, kind: ConvolutionKind) -> int:
        """Accumulators of a thread."""
        return side_by_side(kind) * self.mma_tiles_m * self.width // 2

    def slices(self, kind: ConvolutionKind, patch: Patch) -> int:
        """Slices of the weights that a tile goes through."""
        return slices_of(kind, patch, self.slice)

    def abreast(self, full_channels: FullChannels) -> int:
        """Channels of a warpgroup's results that are on their way together."""
        return (
            self.width if full_channels.channels else next(n for n in (32, 24, 16, 8) if self.width % n == 0)
        )

    def smem_bytes(self, kind: ConvolutionKind, patch: Patch, full_channels: FullChannels) -> int:
        """About as many as the kernel asks for: without barriers and what it rounds up."""
        ring = min(self.stages, self.slices(kind, patch)) * self.slice * 32 * self.width
        staged = self.groups * 4 * self.abreast(full_channels) * (64 * side_by_side(kind) + 4)
        return 1024 + ring + self.consumer_groups * self.patches * patch.channel_vectors * 16 + staged

    def blocks_per_sm(
        self, hardware: Hardware, kind: ConvolutionKind, patch: Patch, full_channels: FullChannels
    ) -> int:
        """0 where not even one fits."""
        sums, used = (
            self.sums(kind),
            self.smem_bytes(kind, patch, full_channels) + hardware.smem_bytes_reserved,
        )
        blocks = (4 - self.groups if self.groups < 3 else 1) if sums <= 64 else (1 if self.groups > 1 else 2)
        resident = min(blocks, hardware.smem_bytes_per_block // used)
        fits = self.threads * resident * (sums + REGISTERS) <= hardware.registers_per_sm
        return resident if fits else 0


@dataclass(frozen=True)
class Timed:
    """A schedule, what it makes a multiprocessor do, and the microseconds that should take."""

    schedule: ImplicitGemmWarpSpecializedSchedule
    load: Load
    us: float


def slices_of(kind: ConvolutionKind, patch: Patch, size: int) -> int:
    """`size`: steps of a slice."""
    return ceil(ceil(patch.steps / size) * side_by_side(kind) * patch.count)


def build_warp_specialized_technique(
    hardware: Hardware,
    kind: ConvolutionKind,
    image_shape: tuple[int, ...],
    shape: tuple[int, ...],
    moved: int,
    stream: Tunable,
    full_channels: FullChannels = EACH,
) -> Technique | None:
    """`image_shape`, `shape`: of the convolution's input and result; `moved`: bytes of all operands. None where no tile fits."""
    if kind.channels < FEWEST_INS:
        return None
    timed = sorted(
        rank_warp_specialized_schedules(kind, image_shape, shape, full_channels, hardware), key=lambda t: t.us
    )
    if not timed:
        return None
    stride = 1 if kind.transposed else kind.stride[-1]  # neighbours of a cell, which read all of it
    packing = hardware.dram_us(4.0 * prod(image_shape) * (0.5 + stride), DRAM_SHARE)
    us = (
        max(timed[0].us, hardware.dram_us(moved, DRAM_SHARE)) + packing + LAUNCHES * hardware.kernel_launch_us
    )
    return Technique("implicit-gemm-warp-specialized", WHY, "compute", (*_tunables(timed), stream), us=us)


def _tunables(timed: list[Timed]) -> tuple[Tunable, ...]:
    """List the best tile's values first, then those of others that take up to half as long again."""
    best, schedules = timed[0].schedule, [t.schedule for t in timed if t.us <= 1.5 * timed[0].us]
    return best.tunables(**{
        field: list(dict.fromkeys(getattr(s, field) for s in schedules))[:6] for field in best.names()
    })  # fmt: skip


def _cells(
    kind: ConvolutionKind, image_shape: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[list[int], list[int]]:
    """Return for each dimension the cells of a row, and by how many the last tap's shift is larger than the first one's."""
    counts, shifts = [], []
    for d, stride in enumerate(kind.stride):
        reach = kind.dilation[d] * (kind.kernel[d] - 1)
        further = (reach + stride - 1) // stride if kind.transposed else reach // stride
        outputs = -(-shape[2 + d] // stride) if kind.transposed else shape[2 + d]
        zeros = kind.padding[d] // stride if not kind.transposed else 0
        cells = max(outputs, outputs + further - zeros)
        ends = (
            -(-(image_shape[2 + d] + kind.padding[d]) // stride)
            if not kind.transposed
            else image_shape[2 + d]
        )
        counts.append(min(max(cells, ends), outputs + further))
        shifts.append(further)
    return counts, shifts


def _patch(
    kind: ConvolutionKind, counts: list[int], apart: list[int], chunk: int, band: int, rows: int
) -> Patch:
    """Return the patch that a tile of `rows` cells reads."""
    inside = range(len(counts) - band - 1, len(counts))  # dimensions inside of which taps share a patch
    outside = [d for d in range(len(counts)) if d not in inside]
    spread = sum(apart[d] * prod(counts[d + 1 :]) for d in inside)
    strides = kind.stride if kind.transposed else (1,) * len(counts)
    paces = (1,) * len(counts) if kind.transposed else kind.stride
    bands = max(1.0, prod(kind.kernel[d] / strides[d] for d in outside))  # of a phase
    outer = prod(strides) // side_by_side(kind)
    steps = sum(taps_of(kind)) / outer * chunk / 16
    channel_vectors = chunk // 8 * prod(paces[d] for d in inside) * (rows + spread)
    return Patch(
        channel_vectors, ceil(steps / bands / side_by_side(kind)), bands * -(-kind.channels // chunk)
    )


@cache
def rank_warp_specialized_schedules(
    kind: ConvolutionKind,
    image_shape: tuple[int, ...],
    shape: tuple[int, ...],
    full_channels: FullChannels = EACH,
    hardware: Hardware = H200,
) -> tuple[Timed, ...]:
    """All that fit a multiprocessor."""
    counts, shifts = _cells(kind, image_shape, shape)
    inner, total = side_by_side(kind), image_shape[0] * prod(counts)
    outer = (prod(kind.stride) if kind.transposed else 1) // inner
    timed: list[Timed] = []
    for layout, width, chunk, band in product(CONSUMER_LAYOUTS, WIDTHS, CHUNKS, range(len(counts))):
        if (chunk > up(kind.channels, 8) and chunk != 8) or not full_channels.channels <= width < 2 * up(
            kind.made, 8
        ):
            continue
        tile = ImplicitGemmWarpSpecializedSchedule(*layout, width, chunk, band, sm_count=hardware.sm_count)
        patch = _patch(kind, counts, shifts, chunk, band, tile.rows)
        if 2 * tile.sums(kind) > 256 or patch.channel_vectors > MOST_PATCH:
            continue
        tiles = ceil(total / tile.rows) * outer * -(-kind.made // width) * kind.groups
        for schedule in _list_stagings(kind, tile, patch):
            resident = schedule.blocks_per_sm(hardware, kind, patch, full_channels)
            if resident > 0:
                load = _load(kind, schedule, patch, full_channels, tiles, resident)
                timed.append(Timed(schedule, load, load.us(hardware=hardware)))
    return tuple(timed)


def _list_stagings(
    kind: ConvolutionKind, tile: ImplicitGemmWarpSpecializedSchedule, patch: Patch
) -> Iterator[ImplicitGemmWarpSpecializedSchedule]:
    """Yield schedules by K steps a stage, stages of the weights, and stages of the image."""
    for size in sorted({ceil(patch.steps / n) for n in (1, 2, 3, 4)}):
        slices = slices_of(kind, patch, size)
        for stages in sorted({2, 3, 4, slices}):
            if stages <= MOST_RING and size <= MOST_SLICE and (tile.consumer_groups == 1 or stages >= slices):
                for patches in IMAGE_STAGES:
                    yield replace(tile, slice=size, stages=stages, patches=patches)


def _load(
    kind: ConvolutionKind,
    schedule: ImplicitGemmWarpSpecializedSchedule,
    patch: Patch,
    full_channels: FullChannels,
    tiles: int,
    resident: int,
) -> Load:
    """`tiles`: of all; `resident`: blocks of a multiprocessor."""
    inner, mma_tiles_m, width = side_by_side(kind), schedule.mma_tiles_m, schedule.width
    steps, slices = patch.steps * inner * patch.count, schedule.slices(kind, patch)
    abreast = schedule.abreast(full_channels)
    fetched = patch.count * patch.channel_vectors * 16 + (
        0 if schedule.stages >= slices else steps * 32 * width
    )
    return Load(
        products=steps * mma_tiles_m * _step_cycles(width),
        warpgroups=schedule.groups // schedule.consumer_groups, slices=slices, patches=patch.count, passes=mma_tiles_m * width // abreast,
        results=inner * abreast / 2, walks=full_channels.walks, fetched=fetched,
        stored=schedule.rows * inner * min(width, kind.made) * 4, tiles_per_sm=resident * schedule.consumer_groups, tiles=tiles,
    )  # fmt: skip


@cache
def _step_cycles(width: int) -> float:
    """Return the cycles of a step of 64 cells at the tensor cores' peak."""
    return sum(max(part / 2, 16 + part / 4) for part in parts_of(width))
