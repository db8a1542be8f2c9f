"""The schedule of the implicit GEMM by warpgroup on scaled fp16 (`implicit_gemm_fp16`), and the one that should take the least time.

In: a convolution's numbers and its result's shape at the main variant. Out: the techniques `implicit-gemm-fp16` and `implicit-gemm-3xfp16`. Rates are
those of an H200; they decide what is tried first, never what is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import ceil, prod

from ....hardware import Hardware
from ....records import Tunable
from ...family import Technique
from ...schedule import Schedule, tunes
from ..convolution_kinds import NO_LIMITS, ConvolutionKind, Limits, side_by_side, up
from .implicit_gemm_tiles import Sum, parts_of, patch_of, sums_of, tiles_of

EXACT = "implicit-gemm-3xfp16"  # float32's precision
DRAM_SHARE = 0.9
STORED_BYTES_PER_CYCLE, FETCHED_BYTES_PER_CYCLE = (
    17.0,
    26.0,
)  # of a multiprocessor: to memory, from the L2 cache
TENSOR_SHARE = 0.8  # of the tensor cores' peak
LAUNCHES = 3
STAGES, MOST_STAGES = (3, 2), 64
MOST_RESULTS, MOST_SUMS = 16384, 128  # of a block; of a thread
LONGER = 1.7  # times as long as computed here, in the median of looks on an H200; three products as long
WIDTHS = (128, 96, 64, 48, 32, 24, 16, 8)  # channels of a block
SLICES = (6, 5, 4, 8, 7, 9, 3, 2)  # steps of a slice of the weights
SLICES_EXACT = (4, 3, 2)  # 64 terms at the most
WHY = "the patch that a tile reads as scaled fp16 in shared memory, where every tap of it feeds tensor cores by warpgroup"


@dataclass(frozen=True)
class Work:
    """The part of a convolution that a schedule's blocks have to do. `terms`: products for one of floats; `patch`: its sides."""

    kind: ConvolutionKind
    terms: int
    sum: Sum
    patch: tuple[int, ...]
    blocks: int  # tiles of all

    @property
    def items(self) -> int:
        """Octets of a patch."""
        return self.sum.planes * prod(self.patch)

    @property
    def phases(self) -> list[tuple[int, ...]]:
        """Steps of a chunk, by phases that a block makes together."""
        inner, steps = side_by_side(self.kind), self.sum.steps
        return [steps[i : i + inner] for i in range(0, len(steps), inner)]


@dataclass(frozen=True)
class ImplicitGemmFp16Schedule(Schedule):
    pixels: int = tunes("TILE_PIXELS", 128)
    channels: int = tunes("CHANNELS", 64)  # output channels of a block
    warpgroups: int = tunes("WARPGROUPS", 1)
    chunk: int = tunes("CHUNK", 32)  # input channels of a patch
    wide: int = tunes("PIXELS_W", 16)  # pixels of a row
    deep: int = tunes("PIXELS_D", 1)
    slice: int = tunes("K_STEPS_PER_STAGE", 4)  # steps of a slice of the weights
    stages: int = tunes("STAGES", 3)  # slices in shared memory
    sm_count: int = tunes("SM_COUNT", 0)

    @property
    def threads(self) -> int:
        return 128 * self.warpgroups

    def sums(self, work: Work) -> int:
        """Accumulators of a thread."""
        sums = side_by_side(work.kind) + (work.terms == 3)
        return sums * (self.pixels // 64 // self.warpgroups) * self.channels // 2

    def step_bytes(self, work: Work) -> int:
        return (2 if work.terms == 3 else 1) * 32 * self.channels

    def slices(self, work: Work) -> list[int]:
        """Slices of the weights that a block goes through, by phases."""
        return [work.sum.chunks * sum(ceil(n / self.slice) for n in steps) for steps in work.phases]

    def smem_bytes(self, work: Work) -> int:
        """About as many as the kernel asks for: without what it rounds up."""
        ring = self.stages * self.slice * self.step_bytes(work)
        patch = (2 if work.terms == 3 else 1) * work.items * 16
        staging = 4 * self.channels * (self.pixels * side_by_side(work.kind) + 20)
        return 2048 + 4 * prod(work.patch) + ring + max(patch, staging)

    def blocks_per_sm(self, hardware: Hardware, work: Work) -> int:
        registers = 128 if self.sums(work) <= 64 else 256  # of a thread
        by_registers = hardware.registers_per_sm // registers // self.threads
        return min(max(1, by_registers), hardware.smem_bytes_per_block // self.smem_bytes(work))

    def us(self, hardware: Hardware, work: Work) -> float:
        """The busiest multiprocessor's time, from cycles of a block: tensor cores (a product of 64 rows reads these from shared
        memory, however narrow it is), casts to fp16, what comes from the L2 cache, results; what it waits for, most of
        all for what it does not hold."""
        kind, split, terms, sums = work.kind, work.sum, work.terms, self.sums(work)
        slices, resident = self.slices(work), self.blocks_per_sm(hardware, work)
        mean, long = sum(slices) / len(slices), split.chunks * sum(split.steps) / len(work.phases)
        step_cycles = sum(max(part / 4, 16) for part in parts_of(self.channels))
        tensor = long * self.pixels / 64 * terms * step_cycles / TENSOR_SHARE
        late = max(0, ceil(work.items / self.threads) - (4 if sums <= 32 else 3))
        cast_cycles = split.chunks * work.items * 8 * (8 if terms == 1 else 14) / 128
        stored = self.pixels * side_by_side(kind) * self.channels * 4 / STORED_BYTES_PER_CYCLE
        waits = 2000 + split.chunks * (2500 + 500 * late) + mean * (150 + (2 * sums if terms == 3 else 0))
        weights = 0 if self.stages >= max(slices) else mean * self.slice * self.step_bytes(work)
        row = 4 * work.patch[-1]
        fetched = (split.chunks * work.items * 32 * (row + 28) / row + weights) / FETCHED_BYTES_PER_CYCLE
        alone = (tensor + 1.5 * (cast_cycles + stored) + waits) / resident
        cycles = self._estimate_slowdown(kind, long) * max(tensor, fetched, stored, alone)
        waves = ceil(work.blocks / (hardware.sm_count * resident)) * resident
        return waves * cycles / hardware.sm_clock_mhz

    def _estimate_slowdown(self, kind: ConvolutionKind, long: float) -> float:
        """Return a factor that was fitted to measurements: small tiles wait more, short rows are stored in parts of a cache line, and 128 outputs a warpgroup pay
        where sums are long."""
        small = (
            {64: 1.6, 128: 1.3}.get(self.pixels, 1.0) if prod(kind.kernel) > 1 else 1.0 + self.pixels / 1000
        )
        small *= {8: 1.6, 16: 1.1}.get(self.wide * side_by_side(kind), 1.0)
        small *= 1.15 if self.channels < min(64, kind.made) else 1.0
        if self.pixels > 64 * self.warpgroups:
            small *= 0.9 if long > 60 else 1.1 if long > 30 else 1.4
        return small


def build_fp16_technique(
    hardware: Hardware,
    kind: ConvolutionKind,
    shape: tuple[int, ...],
    terms: int,
    moved: int,
    stream: Tunable,
    limits: Limits = NO_LIMITS,
) -> Technique | None:
    """`shape`: of the convolution's result; `moved`: bytes of all operands. None where no tile fits."""
    schedules = list_fp16_schedules(hardware, kind, shape, terms, limits)
    if not schedules:
        return None
    best, us = min(schedules, key=lambda s: s[1])
    us = max(us * (LONGER if terms == 1 else 1.0), hardware.dram_us(moved, DRAM_SHARE))
    us += LAUNCHES * hardware.kernel_launch_us
    tunables = (*_tunables(kind, best, terms, limits), stream)
    return Technique(EXACT if terms == 3 else "implicit-gemm-fp16", WHY, "compute", tunables, us=us)


def _tunables(
    kind: ConvolutionKind, best: ImplicitGemmFp16Schedule, terms: int, limits: Limits
) -> tuple[Tunable, ...]:
    def fits(pixels: int = best.pixels, wide: int = best.wide, deep: int = best.deep) -> bool:
        """Do `emit_fp16_kernels` cut a tile with these sides?"""
        deep = min(deep, pixels // 64)
        area = pixels // deep
        wide = min(wide, area)
        wide = wide if wide >= 64 or area // wide >= 8 else area // 8
        return limits.tile(pixels, wide, deep, side_by_side(kind))

    widths = [w for w in WIDTHS if w != best.channels and best.channels // 2 <= w <= 2 * best.channels]
    return best.tunables(
        pixels=[p for p in (128, 256, 64) if p != best.pixels and fits(pixels=p)],
        channels=[w for w in widths if w >= limits.channels][:3],
        warpgroups=[g for g in (2, 1, 4) if 64 * g <= best.pixels],
        chunk=[c for c in (32, 16, 64) if c < 2 * kind.channels],
        wide=[w for w in (best.wide * 2, best.wide // 2) if w >= 8 and fits(wide=w)],
        deep=[d for d in ((1, 2, 4) if len(kind.kernel) > 2 else ()) if fits(deep=d)],
        slice=(4, 2) if terms == 3 else (4, 6, 9),
        stages=STAGES,
    )


@cache
def list_fp16_schedules(
    hardware: Hardware, kind: ConvolutionKind, shape: tuple[int, ...], terms: int, limits: Limits = NO_LIMITS
) -> tuple[tuple[ImplicitGemmFp16Schedule, float], ...]:
    """All that fit a multiprocessor, each with what it should take in microseconds."""
    phases = kind.stride if kind.transposed else (1,) * len(kind.stride)
    grid = [-(-n // s) for n, s in zip(shape[2:], phases, strict=True)]
    timed: list[tuple[ImplicitGemmFp16Schedule, float]] = []
    for (pixels, wide, deep), width in product(tiles_of(len(grid)), _widths(kind, limits)):
        if not limits.tile(pixels, wide, deep, side_by_side(kind)):
            continue
        sides = (deep, pixels // wide // deep, wide)[3 - len(grid) :]
        tiles = prod(-(-n // t) for n, t in zip(grid, sides, strict=True))
        outer = prod(phases) // side_by_side(kind)
        blocks = shape[0] * kind.groups * -(-kind.made // width) * outer * tiles
        patch = tuple(patch_of(kind, sides))
        for split, groups in product(sums_of(kind), sorted({pixels // 64, max(1, pixels // 128)})):
            if pixels * width <= MOST_RESULTS and (split.chunk <= 32 or pixels > 64 * groups):
                tile = ImplicitGemmFp16Schedule(
                    pixels, width, groups, split.chunk, wide, deep, sm_count=hardware.sm_count
                )
                timed += _list_stagings(hardware, tile, Work(kind, terms, split, patch, blocks))
    return tuple(timed)


def _list_stagings(
    hardware: Hardware, tile: ImplicitGemmFp16Schedule, work: Work
) -> Iterator[tuple[ImplicitGemmFp16Schedule, float]]:
    """Yield schedules with all weights of a block in shared memory, or with a multistage buffer; those that fit."""
    if tile.sums(work) > MOST_SUMS:
        return
    sizes = SLICES_EXACT if work.terms == 3 else SLICES
    size = min(sizes, key=lambda s: sum(ceil(n / s) * (s + 4) for n in work.sum.steps))
    sliced = replace(tile, slice=size)
    for stages in (max(sliced.slices(work)), *STAGES):
        schedule = replace(sliced, stages=stages)
        if stages <= MOST_STAGES and schedule.blocks_per_sm(hardware, work) >= 1:
            yield schedule, schedule.us(hardware, work)


def _widths(kind: ConvolutionKind, limits: Limits) -> list[int]:
    """Channels of a block: those that leave few idle."""
    return sorted(
        (w for w in WIDTHS if w >= limits.channels),
        key=lambda w: up(kind.made, w) * (1 / w + 1 / 20),
    )[:3]
