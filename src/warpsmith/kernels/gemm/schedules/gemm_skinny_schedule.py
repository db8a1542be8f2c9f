"""The schedule of a product one of whose factors has few rows (`gemm_skinny`): bound by memory, without tensor cores."""

from __future__ import annotations

from dataclasses import dataclass

from ....hardware import Hardware
from ....records import Tunable
from ...cuda_unit import power
from ...family import Technique
from ...schedule import Schedule, tunes
from ..cuda.gemm_skinny import MOST, Skinny
from ..matmul_pattern import Sizes
from .gemm_3xtf32_schedule import DRAM_SHARE

WHY = "few rows or columns: the big factor is read once, 16 bytes a load, each for all of them"


@dataclass(frozen=True)
class GemmSkinnySchedule(Schedule):
    group: int = tunes("GROUP", 8)  # threads that share a row, or warps of a block where lanes take columns
    rows: int | None = tunes(
        "ROWS_PER_GROUP", None
    )  # of the big factor, a thread; None where it lies across the sum
    split_k: int = tunes("SPLIT", 1)

    def us(self, hardware: Hardware, moved: int) -> float:
        launches = 1 + (self.split_k > 1)
        return hardware.dram_us(moved, 0.85 * DRAM_SHARE) + hardware.kernel_launch_us * launches


def build_skinny_technique(
    hardware: Hardware, sizes: Sizes, skinny: Skinny, moved: int, stream: Tunable
) -> Technique:
    """`moved`: bytes of all operands."""
    long_side, short_side = (sizes.columns, sizes.rows) if skinny.right else (sizes.rows, sizes.columns)
    if skinny.along:
        group, rows = min(256, max(32, power(sizes.depth / 32))), 4 if short_side <= 4 else 2
        blocks = sizes.batch * -(-long_side * group // (rows * max(128, group)))
        groups = [g for g in (group // 2, 2 * group) if 32 <= g <= 512]
        further = [r for r in (1, 2, 8) if r * min(short_side, MOST) <= 32]
        split = _split(hardware, blocks, max_split := sizes.depth // (32 * group))
        best = GemmSkinnySchedule(group, rows, split)
    else:
        groups, further = [4], []
        split = _split(hardware, sizes.batch * -(-long_side // 128), max_split := sizes.depth // 256)
        best = GemmSkinnySchedule(split_k=split)
    splits = [s for s in (split // 2, 2 * split) if 1 <= s <= max(1, max_split)]
    tunables = best.tunables(group=groups, rows=further, split_k=splits)
    return Technique("skinny", WHY, "memory", (*tunables, stream), us=best.us(hardware, moved))


def _split(hardware: Hardware, blocks: int, most: int) -> int:
    """Parts of a sum that give each multiprocessor four blocks."""
    return max(1, min(most, power(4 * hardware.sm_count / max(1, blocks))))
