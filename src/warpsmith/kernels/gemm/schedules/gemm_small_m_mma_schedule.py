"""The schedule of a half-precision product of few tokens by `mma.sync` (`gemm_small_m_mma`): bound by memory."""

from __future__ import annotations

from dataclasses import dataclass

from ....hardware import Hardware
from ....records import Tunable
from ...cuda_unit import power
from ...family import Technique
from ...schedule import Schedule, tunes
from ..matmul_pattern import Sizes
from .gemm_3xtf32_schedule import DRAM_SHARE

WARPS_PER_SM = 12  # with some kilobytes of loads under way each
WHY = "few tokens: the weight is read once, from memory to the fragments of tensor cores, dequantised on the way"


@dataclass(frozen=True)
class GemmSmallMMmaSchedule(Schedule):
    vec: int = tunes("VEC", 8)  # neighbours along K of a lane
    unroll: int = tunes("UNROLL", 2)  # steps under way at once
    tiles_m: int = tunes("MMA_TILES_M", 1)  # of 16 rows of the weight, a warp
    size: int = tunes("BLOCK", 256)  # threads of a block, which share K
    split_k: int = tunes("SPLIT", 1)

    def us(self, hardware: Hardware, moved: int) -> float:
        """`moved`: bytes of all operands."""
        return hardware.dram_us(moved, 0.85 * DRAM_SHARE) + hardware.kernel_launch_us * (
            1 + (self.split_k > 1)
        )


def build_small_m_mma_technique(
    hardware: Hardware, sizes: Sizes, bits: int, moved: int, stream: Tunable
) -> Technique:
    """`bits`: of a weight as it is stored; a 16-byte load holds more of narrow ones."""
    narrow = bits < 16
    step = GemmSmallMMmaSchedule(vec=16 if narrow else 8, unroll=2 if narrow else 4)
    blocks, warps = -(-sizes.columns // 16), step.size // 32
    max_split = max(1, sizes.depth // (4 * step.vec * step.unroll * warps))
    split = max(1, min(max_split, power(WARPS_PER_SM * hardware.sm_count / max(1, blocks * warps))))
    best = GemmSmallMMmaSchedule(step.vec, step.unroll, split_k=split)
    tunables = best.tunables(
        vec=(8, 32) if bits == 4 else (8,) if narrow else (16,),
        unroll=(1,) if narrow else (2,),
        tiles_m=(2,),
        size=(128, 512),
        split_k=[s for s in (split // 2, 2 * split) if 1 <= s <= max_split],
    )
    return Technique("gemm-small-m-mma", WHY, "memory", (*tunables, stream), us=best.us(hardware, moved))
