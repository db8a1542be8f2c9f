"""The schedule of attention for few queries: how many blocks share the keys and values of a head."""

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


@dataclass(frozen=True)
class SplitKvSchedule(Schedule):
    split: int = tunes("SPLIT", 1)  # blocks that share a head
    batch: int = tunes("BATCH", 4)  # keys that a team of lanes takes at once
    size: int = tunes("BLOCK", 128)  # threads of a block

    @classmethod
    def choose(cls, hardware: Hardware, heads: int, keys: int, rows: int) -> Self:
        """The fewest splits, a power of two, that fill the device, if each has keys enough. `rows`: queries of a head of keys."""
        split = 1
        while (
            split < MOST_SPLITS
            and split * heads < BLOCKS_PER_SM * hardware.sm_count
            and keys // (2 * split) >= LEAST_KEYS
        ):
            split *= 2
        return cls(split=split, batch=list_batches(rows)[0])

    def neighbours(self, rows: int) -> dict[str, tuple[int, ...]]:
        """Other values worth a try, by field."""
        return {
            "split": tuple(
                s for s in (self.split // 2, 2 * self.split, 4 * self.split) if 1 <= s <= MOST_SPLITS
            ),
            "batch": list_batches(rows)[1:],
            "size": (64, 256),
        }


def list_batches(rows: int) -> tuple[int, ...]:
    """Keys of a step that are worth a try."""
    return next((batches for limit, batches in BATCHES if rows <= limit), BATCHES[-1][1])
