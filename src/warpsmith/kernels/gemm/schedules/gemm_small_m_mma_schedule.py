"""The schedule of a half-precision product of few tokens by `mma.sync` (`gemm_small_m_mma`): bound by memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....hardware import Hardware
from ....records import Tunable
from ...cuda_unit import power
from ...family import Technique
from ...schedule import Schedule, tunes
from ..matmul_pattern import Sizes
from .gemm_3xtf32_schedule import DRAM_SHARE

ACCESS_BITS = 128  # of a lane's load
MOST_STAGES, MOST_SPLIT = 8, 8
WHY = "few tokens: the weight is read once, raw into a ring of shared memory, dequantised on its way to the tensor cores"


@dataclass(frozen=True)
class GemmSmallMMmaSchedule(Schedule):
    vec: int = tunes("VEC", 8)  # neighbours along K of a lane
    stages: int = tunes("RING_STAGES", 4)  # steps of the weight under way
    tiles_m: int = tunes("MMA_TILES_M", 1)  # of 16 rows of the weight, a warp
    size: int = tunes("BLOCK", 512)  # threads of a block, which share K
    split_k: int = tunes("SPLIT", 1)
    grid: int = tunes("GRID", 132)  # persistent blocks
    resident: int = tunes("TOKENS_RESIDENT", 1)  # whether shared memory holds a block's tokens

    def smem_bytes(self, sizes: Sizes, bits: int) -> int:
        """`bits`: of a weight as it is stored."""
        tiles = -(-min(sizes.rows, 32) // 8)
        step = 4 * self.vec * self.size // 32
        share = -(-sizes.depth // (step * self.split_k)) * step
        ring = self.stages * 2 * self.tiles_m * self.size * max(16, self.vec * bits // 8)
        return self.resident * 8 * tiles * (2 * share + 64) + ring + 2 * 16 * tiles * self.tiles_m * self.size

    def us(self, hardware: Hardware, moved: int) -> float:
        """`moved`: bytes of all operands."""
        return hardware.dram_us(moved, 0.85 * DRAM_SHARE) + hardware.kernel_launch_us * (
            1 + (self.split_k > 1)
        )


def build_small_m_mma_technique(
    hardware: Hardware, sizes: Sizes, bits: int, moved: int, stream: Tunable, *, splits: bool = True
) -> Technique:
    """`bits`: of a weight as it is stored; a 16-byte load holds more of narrow ones. `splits`: whether K may be split."""
    vec = ACCESS_BITS // min(bits, 16)
    split = power(max(1, hardware.sm_count // max(1, -(-sizes.columns // 16))))
    split = max(1, min(split, sizes.depth // (16 * 4 * vec))) if splits else 1
    best = GemmSmallMMmaSchedule(vec, split_k=split, grid=hardware.sm_count)

    def fits(**changes: int) -> bool:
        return replace(best, **changes).smem_bytes(sizes, bits) <= hardware.smem_bytes_per_block

    while splits and not fits() and best.split_k < MOST_SPLIT:
        best = replace(best, split_k=2 * best.split_k)
    if not fits():
        best = replace(best, split_k=split, resident=0)
    while best.stages < MOST_STAGES and fits(stages=2 * best.stages):
        best = replace(best, stages=2 * best.stages)
    parts = (best.split_k // 2, 2 * best.split_k) if splits else ()
    tunables = best.tunables(
        stages=[s for s in (2, 4, 8) if fits(stages=s)],
        tiles_m=[m for m in (2,) if fits(tiles_m=m)],
        size=[s for s in (256, 1024) if fits(size=s)],
        split_k=[s for s in parts if s >= 1 and s * 64 * vec <= sizes.depth and fits(split_k=s)],
        resident=(0,),
    )
    return Technique("gemm-small-m-mma", WHY, "memory", (*tunables, stream), us=best.us(hardware, moved))
