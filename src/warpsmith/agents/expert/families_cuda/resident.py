"""How long rows are shared by blocks that stay on the GPU.

In: the bytes of a row that are read twice, and how many rows there are. Out: which way, its tunables, its rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ....records import Tunable
from ..families.base import tunable
from .base import SHARED_KIB

LEAST_BYTES = 32 << 10  # of a row from which on it may gain
LONG_BYTES = 108 << 10  # of a row that one block hardly keeps while it loads the next
PART_BYTES = 128 << 10  # of a row in a block, so that there is room to load ahead
MOST_PART_BYTES = (
    200 << 10
)  # before clusters of 16: of those, seven fit on an H200, 112 of its 132 processors
STEP_BYTES = 16 << 10  # of a block's step: 512 threads, two packs each
PROCESSORS = 132  # that teams are cut from: those of an H100 or H200; other numbers cost speed only
EXCHANGE_BYTES = 80 << 10  # that a block moves in the time in which a team agrees through memory
FAR_BYTES = 12 << 20  # of a row up to which teams gain: of longer ones too few fit at once
CACHED = 28 << 20  # of rows that the L2 cache still has when they are read again


@dataclass(frozen=True)
class Staying:
    technique: str
    why: str
    sizes: list[Tunable]
    gain: float


def staying(row_bytes: int, rows: int) -> Staying | None:
    """By clusters where a row fits sixteen blocks, else by teams that meet in the workspace."""
    if row_bytes < LEAST_BYTES:
        return None
    why = "of blocks that stay go from row to row: the next row is loaded while they agree on this one and write it"
    if row_bytes <= 16 * PART_BYTES:
        blocks = next(
            (c for c in (1, 2, 4, 8) if row_bytes <= c * PART_BYTES),
            8 if row_bytes <= 8 * MOST_PART_BYTES else 16,
        )
        near = tunable("CLUSTER", blocks, *(c for c in (blocks // 2, 2 * blocks) if 1 <= c <= 16))
        gain = 1.25 if row_bytes < LONG_BYTES else 2.2
        return Staying("resident", f"clusters {why}", [near, *_sizes(row_bytes / blocks)], gain)
    far = tunable("TEAMS", *best_teams(row_bytes, rows))
    gain = 2.1 if row_bytes <= FAR_BYTES else 1.9
    return Staying("teams", f"teams {why}", [far, *_sizes(PART_BYTES)], gain)


def _sizes(part_bytes: float) -> list[Tunable]:
    """Loading is ahead by what of the shared memory a part leaves."""
    ahead = min(6, SHARED_KIB[-1] * 1024 // STEP_BYTES - ceil(part_bytes / STEP_BYTES))
    return [
        tunable("GROUP", 512, 1024, 256), tunable("UNROLL", 2, 3, 4, 1), tunable("AHEAD", ahead, 4, 8),
        tunable("KEEP", *SHARED_KIB[:0:-1]),
    ]  # fmt: skip


def best_teams(row_bytes: int, rows: int) -> list[int]:
    """How many rows are under way at once, the best four first: few blocks left over, little that is read again, and few
    exchanges."""

    def cost(teams: int) -> float:
        part = row_bytes / (PROCESSORS // teams)
        again = max(0.0, part - PART_BYTES)
        return -(-rows // teams) * (part + 0.5 * again + EXCHANGE_BYTES)

    fitting = range(1, max(1, min(rows, PROCESSORS, CACHED // row_bytes)) + 1)
    return sorted(fitting, key=lambda t: (cost(t), -t))[:4]
