"""The schedule of the implicit GEMM in TF32 by `mma.sync` (`implicit_gemm_tf32`), and the one that should take the least time.

In: a convolution's numbers and its result's shape at the main variant. Out: the technique `implicit-gemm-tf32`. Rates are those of an H200;
they decide what is tried first, never what is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod

from ....hardware import H200, Hardware
from ....records import Tunable
from ...cuda_unit import smem_kib
from ...family import Technique
from ...schedule import Schedule, tunes
from ..convolution_kinds import NO_LIMITS, ConvolutionKind, Limits, reach, side_by_side, taps_of, up

DRAM_SHARE, TENSOR_SHARE = 0.875, 0.25
LAUNCHES = 7 / 3  # of two kernels, in starts of one
WIDTHS = (128, 96, 64, 48, 32, 24, 16, 8)  # channels of a block
MOST_SUMS, MOST_SLICE = (
    16384,
    512,
)  # of a block, so that two fit a multiprocessor; steps of a slice by channels
MOST_SMEM_BYTES = 160 << 10  # so that it fits a block of sm_80, too
WHY = "every tap reads one patch of the input in shared memory, shifted: no matrix of windows, TF32 tensor cores"


@dataclass(frozen=True)
class ImplicitGemmTf32Schedule(Schedule):
    channels: int = tunes("CHANNELS", 64)  # output channels of a block
    pixels: int = tunes("TILE_PIXELS", 128)
    wide: int = tunes("PIXELS_W", 32)  # pixels of a row
    deep: int = tunes("PIXELS_D", 1)
    chunk: int = tunes("CHUNK", 8)  # input channels of a patch
    fragments: int = tunes("MMA_TILES_PER_WARP", 1)  # of 16 pixels, a warp's
    stages: int = tunes("STAGES", 3)
    slice: int = tunes("K_STEPS_PER_STAGE", 4)  # steps of a slice of the weights

    def sides(self, space: int) -> tuple[int, ...]:
        """Pixels of a block in each dimension."""
        return (self.deep, self.pixels // self.wide // self.deep, self.wide)[3 - space :]

    def patch(self, kind: ConvolutionKind) -> int:
        """Pixels of the input that a block reads."""
        return prod(reach(kind, i, side) for i, side in enumerate(self.sides(len(kind.kernel))))

    def smem_bytes(self, kind: ConvolutionKind) -> int:
        """About as many as the kernel asks for, with room for what keeps lanes in different banks."""
        patch = self.patch(kind)
        rings = 2 * self.chunk * (patch + 32) + self.stages * self.slice * 8 * self.channels + patch
        return 4 * max(rings, self.channels * (self.pixels * side_by_side(kind) + 20))

    def terms(self, kind: ConvolutionKind) -> int:
        """Products of all phases, with idle ones."""
        steps = sum(-(-taps * self.chunk // 8) for taps in taps_of(kind))
        return 8 * -(-kind.channels // self.chunk) * steps

    def waits(self, kind: ConvolutionKind) -> float:
        """Barriers, and steps in slices that are not full, which run one after the other."""
        steps = [-(-taps * self.chunk // 8) for taps in taps_of(kind)]
        return -(-kind.channels // self.chunk) * sum(
            -(-n // self.slice) + 0.5 * (n % self.slice) for n in steps
        )

    def tiles(self, kind: ConvolutionKind, shape: tuple[int, ...]) -> int:
        """Tiles of an image."""
        grid = _grid(kind, shape)
        return prod(-(-n // t) for n, t in zip(grid, self.sides(len(grid)), strict=True))

    def use(self, kind: ConvolutionKind, shape: tuple[int, ...]) -> float:
        """The share of the products that are wanted."""
        used = prod(_grid(kind, shape)) / (self.tiles(kind, shape) * self.pixels)
        return used * prod(kind.kernel) * kind.channels / self.terms(kind)

    def cost(self, hardware: Hardware, kind: ConvolutionKind, shape: tuple[int, ...]) -> float:
        """Estimate the convolution's time in 32nds of a clock: fragments and products; copies of the weights, of the patch; barriers."""
        outer, tiles = _outer(kind), self.tiles(kind, shape)
        blocks = tiles * (shape[0] * kind.groups * -(-kind.made // self.channels) * outer)
        products = self.terms(kind) * (self.pixels * (1 + self.channels / 20) + 2 * self.channels)
        products += 2000 * self.waits(kind)
        products += 4 * outer * self.patch(kind) * up(kind.channels, self.chunk)
        alone = self.smem_bytes(kind) > 512 * smem_kib(hardware)[-1]  # two blocks have no room
        idle = max(1.0, 2 * hardware.sm_count_rounded / blocks) * (1.3 if alone else 1.0)
        return tiles * products * idle

    def us(
        self, hardware: Hardware, kind: ConvolutionKind, shape: tuple[int, ...], moved: int, flops: int
    ) -> float:
        """`moved`: bytes of all operands."""
        use = self.use(kind, shape) * kind.made / up(kind.made, self.channels)
        narrow = min(1.0, 0.3 + self.channels / 90.0)  # fragments of the image serve few channels
        rate = TENSOR_SHARE * hardware.tensor_tf32_flops_per_s * use * narrow
        moving = hardware.dram_us(moved, DRAM_SHARE)
        return max(moving, flops / rate * 1e6) + LAUNCHES * hardware.kernel_launch_us


def build_tf32_technique(
    hardware: Hardware, kind: ConvolutionKind, shape: tuple[int, ...], moved: int, flops: int, stream: Tunable, limits: Limits
) -> Technique | None:  # fmt: skip
    """`shape`: of the convolution's result; `moved`: bytes of all operands. None where no patch fits the shared memory."""
    best = choose_tf32_schedule(kind, shape, limits, hardware)
    if best is None:
        return None
    us = best.us(hardware, kind, shape, moved, flops)
    return Technique("implicit-gemm-tf32", WHY, "compute", (*_tunables(kind, best, limits), stream), us=us)


def _tunables(kind: ConvolutionKind, best: ImplicitGemmTf32Schedule, limits: Limits) -> tuple[Tunable, ...]:
    def fits(pixels: int = best.pixels, wide: int = best.wide, deep: int = best.deep) -> bool:
        return limits.tile(pixels, wide, deep, side_by_side(kind))

    width = best.channels
    widths = [w for w in WIDTHS if w != width and w >= max(width // 2, limits.channels) and w < 2 * width]
    return best.tunables(
        channels=widths[:3],
        pixels=[p for p in (best.pixels // 2, best.pixels * 2) if 64 <= p <= 256 and fits(pixels=p)],
        wide=[w for w in (best.wide * 2, best.wide // 2) if w >= 8 and fits(wide=w)],
        deep=[d for d in ((1, 2, 4) if len(kind.kernel) > 2 else ()) if fits(deep=d)],
        chunk=[c for c in (4, 8, 16) if c < 2 * kind.channels],
        fragments=[f for f in (2, 4, 1) if 16 * f < best.pixels],
        stages=(2, 4),
        slice=(2, 4, 8),
    )


@cache
def choose_tf32_schedule(
    kind: ConvolutionKind, shape: tuple[int, ...], limits: Limits = NO_LIMITS, hardware: Hardware = H200
) -> ImplicitGemmTf32Schedule | None:
    """The one that promises most at the main shapes, `shape` the output's; None where no patch fits the shared memory."""
    width, inner = _width(kind, limits), side_by_side(kind)
    if width < limits.channels:
        return None
    fitting = []
    for (pixels, wide, deep), (chunk, size) in product(_tiles(len(kind.stride)), list(_depths(kind, width))):
        fragments = _fragments(kind, pixels, width)
        schedule = ImplicitGemmTf32Schedule(width, pixels, wide, deep, chunk, fragments, slice=size)
        fits = schedule.smem_bytes(kind) <= MOST_SMEM_BYTES and pixels * width * inner <= MOST_SUMS
        if limits.tile(pixels, wide, deep, inner) and fits:
            fitting.append(schedule)
    return min(fitting, key=lambda s: s.cost(hardware, kind, shape), default=None)


def _grid(kind: ConvolutionKind, shape: tuple[int, ...]) -> list[int]:
    """Places of one phase in each dimension."""
    phases = kind.stride if kind.transposed else (1,) * len(kind.stride)
    return [-(-n // s) for n, s in zip(shape[2:], phases, strict=True)]


def _outer(kind: ConvolutionKind) -> int:
    """Phases that blocks of their own make."""
    return (prod(kind.stride) if kind.transposed else 1) // side_by_side(kind)


def _width(kind: ConvolutionKind, limits: Limits) -> int:
    """Output channels of a block: few idle ones, wide ones rather than narrow ones, not too many sums a thread."""
    widest = 64 if side_by_side(kind) > 1 and limits.channels <= 64 else 128
    widths = [w for w in WIDTHS if limits.channels <= w <= widest]
    return min(widths, key=lambda w: up(kind.made, w) * (1 / w + 1 / 20), default=WIDTHS[0])


def _depths(kind: ConvolutionKind, width: int) -> Iterator[tuple[int, int]]:
    """Each number of channels of a patch with the steps of a slice that promise most: few barriers, few steps in slices that
    are not full."""
    for chunk in (8, 16, 4):
        sizes = [s for s in (4, 3, 5, 6, 7, 8, 2) if s * width <= MOST_SLICE]
        yield chunk, min(sizes, key=lambda s: ImplicitGemmTf32Schedule(chunk=chunk, slice=s).waits(kind))


def _fragments(kind: ConvolutionKind, pixels: int, width: int) -> int:
    """Choose a warp's MMA tiles of 16 pixels: the more, the fewer words from shared memory a product needs. At least four warps, and not
    more sums than half of a thread's registers."""
    sums = width * side_by_side(kind)
    warps = 2 if sums > 64 and width % 16 == 0 else 1
    return max((f for f in (1, 2, 4) if pixels * warps >= 64 * f and f * sums // warps <= 256), default=1)


def _tiles(space: int) -> Iterator[tuple[int, int, int]]:
    """Pixels, those of a row, planes."""
    for pixels in (128, 256, 64):
        for wide in (32, 16, 64, 8, 128, 256):
            if wide > pixels or (space == 1 and wide != pixels):
                continue
            for deep in (1, 2, 4) if space > 2 else (1,):
                if wide * deep <= pixels:
                    yield pixels, wide, deep
