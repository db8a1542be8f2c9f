"""The schedule of attention of many queries by `mma.sync` (`flash_mma`): tiles of queries and keys, stages and warps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ....hardware import Hardware
from ...gemm.schedules.gemm_3xfp16_schedule import DRAM_SHARE
from ...schedule import Schedule, tunes

FLOPS_PER_SM_CYCLE = 2048  # of mma.sync in half precision, on an A100; a Hopper multiprocessor does little more by this instruction
TALL_SHARE, FLAT_SHARE = (
    0.7,
    0.55,
)  # of that rate: warps of 32 rows and of 16, which read a tile of keys for half as many products
PAD = 8  # elements between rows in shared memory
MOST_REGISTERS = 255  # of a thread


@dataclass(frozen=True)
class AttentionSizes:
    """Heads of queries, rows and keys of a head, features of a query and of a value. A row sees keys from row + floor to row + limit."""

    heads: int
    rows: int
    keys: int
    depth: int
    width: int
    limit: int | None = None
    floor: int | None = None
    weight_parts: tuple[int, ...] = (1, 2)  # that a weight may be split into, the first one at first

    @property
    def padded(self) -> tuple[int, int]:
        """Features of a query and a value in shared memory."""
        return -(-self.depth // 16) * 16, -(-self.width // 16) * 16


class FlashSchedule(Schedule):
    """Tiles of queries and keys, of kernels whose blocks have some rows of one head."""

    queries: int
    keys: int

    def count_pairs(self, sizes: AttentionSizes) -> int:
        """Pairs of a query and a key that the blocks of a head multiply, padding included."""
        pairs = 0
        for first in range(0, sizes.rows, self.queries):
            last = min(first + self.queries, sizes.rows) - 1
            end = sizes.keys if sizes.limit is None else max(0, min(sizes.keys, last + sizes.limit + 1))
            begin = 0 if sizes.floor is None else max(0, first + sizes.floor) // self.keys * self.keys
            pairs += self.queries * max(0, -(-(end - begin) // self.keys)) * self.keys
        return pairs


@dataclass(frozen=True)
class FlashMmaSchedule(FlashSchedule):
    queries: int = tunes("QUERIES", 128)
    keys: int = tunes("KEYS", 64)
    stages: int = tunes("STAGES", 2)
    size: int = tunes("BLOCK", 128)  # threads of a block; each warp has rows of its own
    weight_parts: int = tunes("WEIGHT_PARTS", 1)

    @classmethod
    def choose(cls, hardware: Hardware, sizes: AttentionSizes) -> Self:
        """The schedule that should take the least time among those that fit a block."""
        fitting = [s for s in cls._list(sizes.weight_parts[0]) if s.fits(hardware, sizes)]
        return min(
            fitting,
            key=lambda s: s.us(hardware, sizes),
            default=cls(64, 32, 1, weight_parts=sizes.weight_parts[0]),
        )

    @classmethod
    def _list(cls, weight_parts: int) -> list[Self]:
        return [cls(q, k, s, weight_parts=weight_parts) for q in (128, 64) for k in (64, 32) for s in (2, 1)]

    @property
    def tiles(self) -> int:
        """Tiles of 16 rows of a warp."""
        return max(1, self.queries // 16 * 32 // self.size)

    def smem_bytes(self, sizes: AttentionSizes) -> int:
        depth, width = (n + PAD for n in sizes.padded)
        return 2 * (self.queries * depth + self.stages * self.keys * (depth + width))

    def fits(self, hardware: Hardware, sizes: AttentionSizes) -> bool:
        """Tell whether a block has the shared memory, and a thread the registers: sums and scores of its rows, and some 80 more."""
        registers = self.tiles * (sizes.padded[1] + self.keys) // 2 + 80
        return self.smem_bytes(sizes) <= hardware.smem_bytes_per_block and registers <= MOST_REGISTERS

    def us(self, hardware: Hardware, sizes: AttentionSizes, moved: int = 0) -> float:
        """The busiest multiprocessor's products, or the memory's time where that is more. `moved`: bytes of all operands."""
        blocks = max(1, sizes.heads * -(-sizes.rows // self.queries))
        share = TALL_SHARE if self.tiles > 1 else FLAT_SHARE
        share *= self.stages / (self.stages + 0.1)  # copies that wait for products, more so with one stage
        depth, width = sizes.padded
        flops = 2.0 * self.count_pairs(sizes) * sizes.heads * (depth + width * self.weight_parts)
        per_sm = flops / blocks * -(-blocks // hardware.sm_count)
        computing = per_sm / (share * FLOPS_PER_SM_CYCLE * hardware.sm_clock_mhz)
        return max(computing, hardware.dram_us(moved, DRAM_SHARE)) + hardware.kernel_launch_us

    def neighbours(self, hardware: Hardware, sizes: AttentionSizes) -> dict[str, tuple[int, ...]]:
        """Other values worth a try, by field; any of them fits together with any other."""
        domains: dict[str, tuple[int, ...]] = {
            "queries": (64,) if self.queries == 128 else (128,),
            "size": (256,),
            "weight_parts": sizes.weight_parts,
        }
        for field, values in (("stages", (1, 2, 3)), ("keys", (32, 64, 128))):
            largest = {
                name: max((getattr(self, name), *domains.get(name, ())))
                for name in ("queries", "keys", "stages")
            }
            domains[field] = tuple(
                v for v in values
                if v != getattr(self, field)
                and type(self)(**{**largest, field: v}).smem_bytes(sizes) <= hardware.smem_bytes_per_block
            )  # fmt: skip
        return domains
