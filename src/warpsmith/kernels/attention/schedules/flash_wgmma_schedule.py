"""The schedule of attention of many queries by `wgmma` (`attention_flash_wgmma.cuh`): tiles of queries and keys, and stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ....hardware import Hardware
from ...gemm.schedules.gemm_3xfp16_schedule import DRAM_SHARE
from ...schedule import tunes
from .flash_mma_schedule import AttentionSizes, FlashSchedule

# Fitted to an H200's times of 128 and 64 features (`lab/attention_kernels.py`): cycles of a multiprocessor for a pair of a query and a key, its part of the softmax and
# of each feature of a query and a value; microseconds of a block that nothing covers; how much longer other tiles take.
PAIR_CYCLES, FEATURE_CYCLES, BLOCK_US = 0.072, 0.000414, 3.0
CONSUMERS, FEW_KEYS, ONE_STAGE = {64: 1.27, 128: 1.0, 192: 0.9}, 1.12, 1.35  # by queries of a block
MOST_SUMS = {
    192: 64,
    128: 256,
    64: 256,
}  # features of a value, by queries of a block: what a consumer's registers hold
PANEL = 64  # features of a row in shared memory


@dataclass(frozen=True)
class FlashWgmmaSchedule(FlashSchedule):
    queries: int = tunes("QUERIES", 128)
    keys: int = tunes("KEYS", 128)
    stages: int = tunes("STAGES", 2)
    weight_parts: int = tunes("WEIGHT_PARTS", 1)
    ping_pong: int = tunes("PING_PONG", 1)  # whether consumers issue their products in turns

    @classmethod
    def choose(cls, hardware: Hardware, sizes: AttentionSizes) -> Self:
        """The schedule that should take the least time among those that fit a block."""
        all_of_them = [
            cls(q, k, s, sizes.weight_parts[0]) for q in MOST_SUMS for k in (128, 64) for s in (2, 1)
        ]
        fitting = [s for s in all_of_them if s.fits(hardware, sizes)]
        return min(
            fitting, key=lambda s: s.us(hardware, sizes), default=cls(64, 64, 1, sizes.weight_parts[0])
        )

    def smem_bytes(self, sizes: AttentionSizes) -> int:
        depth, width = (-(-n // PANEL) * PANEL for n in sizes.padded)
        tiles = self.queries * depth + self.stages * self.keys * (depth + width)
        return 1024 + 2 * tiles + 8 * (1 + 4 * self.stages)

    def fits(self, hardware: Hardware, sizes: AttentionSizes) -> bool:
        """Tell whether a block has the shared memory, and a consumer the registers: wide sums leave no room for the scores of 128 keys."""
        return (
            self.smem_bytes(sizes) <= hardware.smem_bytes_per_block
            and sizes.padded[1] <= MOST_SUMS[self.queries]
            and (sizes.padded[1] <= 128 or self.keys == 64)
        )

    def us(self, hardware: Hardware, sizes: AttentionSizes, moved: int = 0) -> float:
        """The busiest multiprocessor's blocks, one after the other, or the memory's time where that is more. `moved`: bytes of all operands."""
        cycles = PAIR_CYCLES + FEATURE_CYCLES * (sizes.padded[0] + sizes.padded[1] * self.weight_parts)
        cycles *= CONSUMERS[self.queries]
        cycles *= (FEW_KEYS if self.keys == 64 else 1.0) * (ONE_STAGE if self.stages == 1 else 1.0)
        blocks = max(1, sizes.heads * -(-sizes.rows // self.queries))
        block_us = self.count_pairs(sizes) * sizes.heads / blocks * cycles / hardware.sm_clock_mhz + BLOCK_US
        computing = -(-blocks // hardware.sm_count) * block_us
        return max(computing, hardware.dram_us(moved, DRAM_SHARE)) + hardware.kernel_launch_us

    def neighbours(self, hardware: Hardware, sizes: AttentionSizes) -> dict[str, tuple[int, ...]]:
        """Other values worth a try, by field; any of them fits together with any other."""
        domains: dict[str, tuple[int, ...]] = {
            "ping_pong": (0,),
            "weight_parts": sizes.weight_parts,
        }
        for field, values in (("queries", (64, 128, 192)), ("keys", (64, 128)), ("stages", (1, 2, 3))):
            largest = {
                name: max((getattr(self, name), *domains.get(name, ())))
                for name in ("queries", "keys", "stages")
            }
            domains[field] = tuple(
                v for v in values
                if v != getattr(self, field) and type(self)(**{**largest, field: v}).fits(hardware, sizes)
            )  # fmt: skip
        return domains
