"""The schedule of the 3xTF32 GEMM by `mma.sync` (`gemm_3xtf32`), and the one that should take the least time.

Rates are those of an H200; they decide what is tried first, never what is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ....hardware import Hardware
from ....records import Tunable
from ...family import Bottleneck, Technique
from ...schedule import Schedule, tunes
from ..matmul_pattern import Sizes

TENSOR_SHARE = 0.13  # of the TF32 rate: three products for one
DRAM_SHARE = 0.95
SPLITS = (1, 2, 3, 4, 6, 8, 11, 16, 22, 33, 44, 66, 132)
# Tiles, and the share of the rate that each reaches: small ones read each factor more often.
TILES: Mapping[tuple[int, int], float] = MappingProxyType({
    (128, 128): 1.0, (128, 64): 0.93, (64, 64): 0.8, (128, 32): 0.6,
})  # fmt: skip
WARP_N, PAD_ALONG, PAD_ACROSS = 32, 4, 8  # columns of a warp; floats between lines of a slice
WHY = "each factor as two TF32 numbers, three products of them on tensor cores: as exact as float32"


@dataclass(frozen=True)
class Gemm3xTf32Schedule(Schedule):
    tile_m: int = tunes("BM", 128)
    tile_n: int = tunes("BN", 128)
    tile_k: int = tunes("BK", 32)
    stages: int = tunes("STAGES", 3)
    warp_m: int = tunes("WM", 32)
    split_k: int = tunes("SPLIT", 1)

    @property
    def threads(self) -> int:
        return self.tile_m // self.warp_m * (self.tile_n // WARP_N) * 32

    def smem_bytes(self, left_across: bool, right_across: bool) -> int:
        """`left_across`, `right_across`: whether neighbours of the factor lie across the sum."""
        stage = sum(
            self.tile_k * (tile + PAD_ACROSS) if across else tile * (self.tile_k + PAD_ALONG)
            for tile, across in ((self.tile_m, left_across), (self.tile_n, right_across))
        )
        return 4 * max(self.stages * stage, self.tile_m * (self.tile_n + PAD_ACROSS))

    def us(self, hardware: Hardware, sizes: Sizes, moved: int, share: float) -> float:
        """The tiles in waves, or the memory's time where that is more; then the sums of parts, written and read."""
        down, over = -(-sizes.rows // self.tile_m), -(-sizes.columns // self.tile_n)
        blocks = max(1.0, share * sizes.batch * down * over * self.split_k)
        rate = TILES[self.tile_m, self.tile_n] * _flops_per_s(hardware) / hardware.sm_count
        tile_us = 2.0 * self.tile_m * self.tile_n * max(8.0, sizes.depth / self.split_k) / rate * 1e6
        # The busiest multiprocessor counts: its blocks share it.
        busy = tile_us * -(-blocks // hardware.sm_count)
        parts = 8.0 * self.split_k * sizes.outputs
        summing = hardware.dram_us(parts, DRAM_SHARE) + hardware.kernel_launch_us if self.split_k > 1 else 0.0
        return max(busy, hardware.dram_us(moved, 0.85 * DRAM_SHARE)) + summing + hardware.kernel_launch_us


def build_3xtf32_technique(
    hardware: Hardware, sizes: Sizes, moved: int, share: float, stream: Tunable
) -> Technique:
    """`moved`: bytes of all operands; `share`: of the result that is computed."""
    schedules = [
        Gemm3xTf32Schedule(*tile, split_k=s)
        for tile in TILES
        for s in SPLITS
        if s == 1 or s <= sizes.depth // 256
    ]
    best = min(schedules, key=lambda s: s.us(hardware, sizes, moved, share))
    splits = [s for s in (1, best.split_k // 2, 2 * best.split_k) if 1 <= s <= max(1, sizes.depth // 128)]
    tunables = best.tunables(
        tile_m=(128, 64), tile_n=(128, 64), tile_k=(16,), stages=(2, 4), warp_m=(64,), split_k=splits
    )
    computing = 2.0 * share * sizes.outputs * sizes.depth / _flops_per_s(hardware) * 1e6
    bound: Bottleneck = "compute" if computing > hardware.dram_us(moved, DRAM_SHARE) else "memory"
    us = best.us(hardware, sizes, moved, share)
    return Technique("gemm-3xtf32", WHY, bound, (*tunables, stream), us=us)


def _flops_per_s(hardware: Hardware) -> float:
    return TENSOR_SHARE * hardware.tensor_tf32_flops_per_s
