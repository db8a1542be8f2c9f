"""The schedule of the 3xfp16 GEMMs by warpgroup (`gemm_3xfp16`; `gemm_small_m` for few rows).

Persistent blocks, one a multiprocessor, with tiles of 128 x 128. Rates are those of an H200; they decide what is tried
first, never what is right.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....hardware import Hardware
from ....records import Tunable
from ...family import Bottleneck, Technique
from ...schedule import Schedule, tunes
from ..cuda.split_fp16 import DEPTH, SIDE, TILE_BYTES

TENSOR_SHARE = 0.3  # of the fp16 rate: three products for one
DRAM_SHARE = 0.95
LAUNCHES = 4 / 3  # of both kernels, in starts of one: the second one's start hides in part
SPLITS = (1, 2, 3, 4, 6, 8, 11, 16, 22, 33)
FEWEST, MOST = 9, SIDE  # rows of the small-M kernel
STAGING_BYTES = 8 * 16 * 40 * 4  # of the results of eight warps


@dataclass(frozen=True)
class Gemm3xFp16Schedule(Schedule):
    tile_k: int = tunes("BK", DEPTH)
    stages: int = tunes("STAGES", 3)
    group: int = tunes("GROUP", 8)  # tiles down that blocks take before they go over
    blocks: int = tunes("BLOCKS", 0)  # persistent ones; right with any number
    split_k: int = tunes("SPLIT", 1)

    @property
    def smem_bytes(self) -> int:
        return 1024 + self.stages * (2 * TILE_BYTES + 16) + STAGING_BYTES

    def blocks_per_sm(self, hardware: Hardware) -> int:
        """Registers leave room for one, whatever shared memory would."""
        return int(self.smem_bytes <= hardware.smem_bytes_per_block)

    def us(self, hardware: Hardware, tiles: float, slices: int, results: int) -> float:
        """The time of the products and of the sums of their parts."""
        waves = -(-tiles * self.split_k // self.blocks)
        # About a slice's time to begin and to store.
        flops = 2.0 * SIDE * SIDE * DEPTH * (-(-slices // self.split_k) + 1)
        parts = 8.0 * self.split_k * results
        summing = hardware.dram_us(parts, DRAM_SHARE) + _launches_us(hardware) if self.split_k > 1 else 0.0
        return waves * flops / (_flops_per_s(hardware) / self.blocks) * 1e6 + summing


def build_3xfp16_technique(
    hardware: Hardware, batch: int, rows: int, columns: int, depth: int, moved: int, share: float, stream: Tunable
) -> Technique | None:  # fmt: skip
    """`moved`: bytes of all operands; `share`: of the result that is computed. None for products that are small or thin
    in some direction: tiles would be mostly empty, or splitting the factors the greater work."""
    if min(rows, columns) < SIDE // 2 or depth < DEPTH // 2:
        return None
    tiles = max(1.0, share * batch * -(-rows // SIDE) * -(-columns // SIDE))
    slices, results = -(-depth // DEPTH), batch * rows * columns
    best = best_schedule(hardware, tiles, slices, results)
    through = max(best.us(hardware, tiles, slices, results), hardware.dram_us(moved, DRAM_SHARE))
    splitting = 2 * hardware.dram_us(4.0 * batch * depth * (rows + columns), DRAM_SHARE)
    why = "each factor as two scaled fp16 numbers, three products of them by warpgroup: as exact as float32"
    tunables = (*_tunables(best, slices, (16, 4)), stream)
    return Technique("gemm-3xfp16", why, "compute", tunables, us=through + splitting + _launches_us(hardware))


def build_small_m_technique(
    hardware: Hardware, batch: int, rows: int, columns: int, depth: int, moved: int, stream: Tunable
) -> Technique | None:
    """`moved`: bytes of all operands. None for many rows, and for a right factor that is not worth it."""
    if not FEWEST <= rows <= MOST or columns < SIDE // 2 or depth < DEPTH // 2:
        return None
    tiles, slices, results = batch * -(-columns // SIDE), -(-depth // DEPTH), batch * rows * columns
    best = best_schedule(hardware, tiles, slices, results)
    us = best.us(hardware, tiles, slices, results)
    why = "few rows: the large factor is split into fp16 where it is multiplied, so that it is read once"
    memory_us = hardware.dram_us(moved, 0.85 * DRAM_SHARE)
    computing = 2.0 * SIDE * tiles * SIDE * depth / _flops_per_s(hardware) * 1e6
    tunables = (*_tunables(best, slices, ()), stream)
    bound: Bottleneck = "compute" if computing > memory_us else "memory"
    return Technique(
        "gemm-3xfp16-small-m", why, bound, tunables, us=max(us, memory_us) + _launches_us(hardware)
    )


def best_schedule(hardware: Hardware, tiles: float, slices: int, results: int) -> Gemm3xFp16Schedule:
    """Choose the split-K that takes the least time."""
    splits = (s for s in SPLITS if s <= max(1, slices // 4))
    schedules = (Gemm3xFp16Schedule(blocks=hardware.sm_count, split_k=s) for s in splits)
    return min(schedules, key=lambda s: s.us(hardware, tiles, slices, results))


def _tunables(best: Gemm3xFp16Schedule, slices: int, groups: tuple[int, ...]) -> tuple[Tunable, ...]:
    max_split = max(1, slices // 4)
    splits = {s for s in (1, best.split_k // 2, 2 * best.split_k) if 1 <= s <= max_split} - {best.split_k}
    return best.tunables(stages=(2,), group=groups, split_k=sorted(splits))


def _flops_per_s(hardware: Hardware) -> float:
    return TENSOR_SHARE * hardware.tensor_fp16_flops_per_s


def _launches_us(hardware: Hardware) -> float:
    return LAUNCHES * hardware.kernel_launch_us
