"""The schedules of attention for few queries: how many blocks share the keys and values of a head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ....hardware import Hardware
from ...schedule import Schedule, tunes

BLOCKS_PER_SM = 2  # that a grid should have, so that loads of one hide the sums of another
LEAST_KEYS = 256  # of a split: below that its sums are a large share of what it moves
MOST_SPLITS = 64
# Keys of a step that fit into registers beside so many rows of queries, the first to be tried first: at one more, sums spill.
BATCHES = ((2, (4, 8, 2)), (4, (4, 2)), (8, (2, 4)))
# Issue slots of a thread for a product of a query's and a key's feature. The compiled loop has 3.7 instructions (conversions, sums over lanes and the softmax
# beside the multiply-adds), at some 60% of the rate: an H100 and an H200 take the same time.
SLOTS_PER_PRODUCT = 6.0
LANES_PER_SM = 128
# Of `split-kv-mma`, that a grid should have: where masks leave sequences of different lengths, blocks of equal work fill the device in turn.
MMA_BLOCKS_PER_SM = 12
MMA_STEPS = (16, 32)  # keys of a warp's step


@dataclass(frozen=True)
class SplitKvSchedule(Schedule):
    split: int = tunes("SPLIT", 1)  # blocks that share a head
    batch: int = tunes("BATCH", 4)  # keys that a team of lanes takes at once
    size: int = tunes("BLOCK", 128)  # threads of a block

    @classmethod
    def choose(cls, hardware: Hardware, heads: int, keys: int, rows: int) -> Self:
        """The fewest splits, a power of two, that fill the device, if each has keys enough. `rows`: queries of a head of keys."""
        split = choose_split(hardware, heads, keys, BLOCKS_PER_SM)
        return cls(split=split, batch=list_batches(rows)[0])

    def issue_us(self, hardware: Hardware, keys: int, rows: int, features: int) -> float:
        """The time that issuing the instructions takes. `keys`: of all heads; `features`: of a key and a value together."""
        threads = SLOTS_PER_PRODUCT * keys * rows * features
        return threads / (LANES_PER_SM * max(1, hardware.sm_count) * max(1.0, hardware.sm_clock_mhz))

    def neighbours(self, rows: int) -> dict[str, tuple[int, ...]]:
        """Other values worth a try, by field."""
        return {
            "split": list_splits(self.split),
            "batch": list_batches(rows)[1:],
            "size": (64, 256),
        }


@dataclass(frozen=True)
class SplitKvMmaSchedule(Schedule):
    split: int = tunes("SPLIT", 1)  # blocks that share a head
    batch: int = tunes("BATCH", 16)  # keys that a warp takes at once
    size: int = tunes("BLOCK", 128)  # threads of a block

    @classmethod
    def choose(cls, hardware: Hardware, heads: int, keys: int) -> Self:
        """The fewest splits, a power of two, that fill the device several times over, if each has keys enough."""
        return cls(split=choose_split(hardware, heads, keys, MMA_BLOCKS_PER_SM))

    def neighbours(self, rows: int, width: int) -> dict[str, tuple[int, ...]]:
        """Other values worth a try, by field. `width`: features of a key or value, of which a step of more keys needs registers."""
        return {
            "split": list_splits(self.split),
            "batch": MMA_STEPS[1:] if fits_long_steps(rows, width) else (),
            "size": (64, 256),
        }


def fits_long_steps(rows: int, width: int) -> bool:
    """Tell whether registers hold keys and values of 32 keys beside the sums."""
    return width <= (64 if rows > 8 else 128)


def choose_split(hardware: Hardware, heads: int, keys: int, blocks_per_sm: int) -> int:
    """The fewest splits, a power of two, for so many blocks, if each has keys enough."""
    split = 1
    while (
        split < MOST_SPLITS
        and split * heads < blocks_per_sm * hardware.sm_count
        and keys // (2 * split) >= LEAST_KEYS
    ):
        split *= 2
    return split


def list_splits(split: int) -> tuple[int, ...]:
    """Other numbers of splits worth a try."""
    return tuple(s for s in (split // 2, 2 * split, 4 * split) if 1 <= s <= MOST_SPLITS)


def list_batches(rows: int) -> tuple[int, ...]:
    """Keys of a step that are worth a try."""
    return next((batches for limit, batches in BATCHES if rows <= limit), BATCHES[-1][1])
