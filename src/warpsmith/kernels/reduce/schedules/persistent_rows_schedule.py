"""The schedule of the persistent reduction of long rows, shared by a cluster or by blocks that meet in the workspace
(`persistent_rows`).

In: the bytes of a row that are read twice, and how many rows there are. Out: which way, its tunables, its rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from ....hardware import Hardware
from ....records import Tunable
from ...cuda_unit import smem_kib
from ...schedule import Schedule, tunes

LEAST_BYTES = 32 << 10  # of a row from which on it may gain
PART_BYTES = 128 << 10  # of a row in a block, so that there is room to load ahead
LEAST_AHEAD = 3  # steps, to add the next row meanwhile
# Of a row in a block before clusters of 16: of those, seven fit on an H200, 112 of its 132 processors.
MOST_PART_BYTES = 200 << 10
STEP_BYTES = 16 << 10  # of a block's step: 512 threads, two packs each
EXCHANGE_BYTES = 80 << 10  # that a block moves in the time in which a team agrees through memory
# That it moves in the time that this takes where nobody waits; where a part leaves less room to be ahead.
HIDDEN_BYTES, CLOSE_BYTES, CLOSE_PART = 15 << 10, 30 << 10, 7 * STEP_BYTES
FAR_BYTES = 12 << 20  # of a row up to which teams gain: of longer ones too few fit at once


@dataclass(frozen=True)
class PersistentRowsSchedule(Schedule):
    cluster: int | None = tunes("CLUSTER", None)  # blocks that share a row
    teams: int | None = tunes("ROWS_IN_FLIGHT", None)  # rows that are under way at once
    group: int = tunes("GROUP", 512)  # threads
    unroll: int = tunes("UNROLL", 2)
    ahead: int = tunes("PREFETCH_STEPS", 1)  # steps that are loaded before they are used
    early: int = tunes("OVERLAP_STEPS", -1)  # of them, those that are added meanwhile
    keep_kib: int = tunes("SMEM_KIB", 48)  # shared memory of a block

    @property
    def smem_bytes(self) -> int:
        """At the most."""
        return self.keep_kib << 10

    def row_blocks(self, hardware: Hardware) -> int:
        """Blocks that share a row, one a multiprocessor."""
        return self.cluster or hardware.sm_count // (self.teams or 1)

    def cost(self, hardware: Hardware, row_bytes: int, rows: int) -> float:
        """Bytes in whose time a block is done: what is read again and what is waited for counts as bytes, too."""
        part = row_bytes / self.row_blocks(hardware)
        reread_bytes = max(0.0, part - PART_BYTES)
        exchange = EXCHANGE_BYTES if reread_bytes else CLOSE_BYTES if part > CLOSE_PART else HIDDEN_BYTES
        return -(-rows // (self.teams or 1)) * (part + 0.5 * reread_bytes + exchange)


@dataclass(frozen=True)
class Staying:
    technique: str
    why: str
    sizes: tuple[Tunable, ...]
    gain: float


def staying(hardware: Hardware, row_bytes: int, rows: int, beside: float = 0.0) -> list[Staying]:
    """By clusters where a row fits sixteen blocks; by teams that meet in the workspace where it needs more than eight.
    `beside`: bytes that only the writing reads, for each of the row's.
    """
    if row_bytes < LEAST_BYTES:
        return []
    why = "of blocks that stay go from row to row: the next row is loaded and added while this one is written"
    schedules = []
    if row_bytes <= 16 * PART_BYTES:
        blocks = next(
            (c for c in (1, 2, 4, 8) if row_bytes <= c * PART_BYTES),
            8 if row_bytes <= 8 * MOST_PART_BYTES else 16,
        )
        cluster_sizes = [c for c in (blocks // 2, 2 * blocks) if 1 <= c <= 16]
        gain = 1.25 if row_bytes < 512 * smem_kib(hardware)[-1] else 2.2
        best = _schedule(hardware, row_bytes / blocks, beside, blocks > 8, cluster=blocks)
        schedules.append(
            Staying(
                "persistent-cluster",
                f"clusters {why}",
                _tunables(hardware, best, cluster=cluster_sizes),
                gain,
            )
        )
    if row_bytes > 8 * PART_BYTES:
        teams = rank_rows_in_flight(hardware, row_bytes, rows)
        part = row_bytes / (hardware.sm_count // teams[0])
        best = _schedule(hardware, min(part, PART_BYTES), beside, True, teams=teams[0])
        gain = 2.3 if schedules else 2.1 if row_bytes <= FAR_BYTES else 1.9
        schedules.append(
            Staying("persistent-cooperative", f"teams {why}", _tunables(hardware, best, teams=teams), gain)
        )
    return schedules


def _schedule(
    hardware: Hardware, part_bytes: float, beside: float, meet: bool, cluster: int | None = None, teams: int | None = None
) -> PersistentRowsSchedule:  # fmt: skip
    """Loading is ahead by what of the shared memory a part leaves, adding by half of that; where that is next to nothing,
    or to `meet` takes little, a row is added when the one before is written."""
    kib = smem_kib(hardware)[-1]
    room = kib * 1024 // STEP_BYTES - ceil(part_bytes / STEP_BYTES)
    ahead = next((a for a in range(6, 1, -1) if a + beside * (a // 2 + 1) <= room), 1)
    early = (ahead + (beside > 0)) // 2 if meet and ahead >= LEAST_AHEAD else -1
    return PersistentRowsSchedule(cluster, teams, ahead=ahead, early=early, keep_kib=kib)


def _tunables(
    hardware: Hardware, best: PersistentRowsSchedule, **others: Sequence[int]
) -> tuple[Tunable, ...]:
    return best.tunables(
        group=(1024, 256), unroll=(3, 4, 1), ahead=(6, 4, 3, 8), early=(3, 2, 1, 0, -1), keep_kib=smem_kib(hardware)[:0:-1],
        **others,
    )  # fmt: skip


def rank_rows_in_flight(hardware: Hardware, row_bytes: int, rows: int) -> list[int]:
    """List numbers of rows in flight, the best four first: few blocks left over, little that is read again, and few
    exchanges that have to be waited for, which is where there is no room to add the next row meanwhile."""

    cached = hardware.l2_bytes * 14 // 25  # of rows that the L2 cache still has when they are read again
    fitting = range(1, max(1, min(rows, hardware.sm_count, cached // row_bytes)) + 1)
    return sorted(
        fitting, key=lambda t: (PersistentRowsSchedule(teams=t).cost(hardware, row_bytes, rows), -t)
    )[:4]
