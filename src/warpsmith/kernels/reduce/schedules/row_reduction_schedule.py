"""The schedules of reductions over rows or columns (`row_reduction`, `cluster`, `split`, `column_packs`, `column_registers`): where
a row waits between passes, and how many threads or blocks share it.

What they take is not predicted: techniques are ranked by their gain over one another.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....records import Tunable
from ...schedule import Schedule, tunes


@dataclass(frozen=True)
class ReduceSchedule(Schedule):
    """A row in registers, or read again in each pass."""

    split: int | None = tunes("SPLIT", None)  # blocks that share a row
    group: int = tunes("GROUP", 32)  # threads that share a row; those of a block above one column
    unroll: int | None = tunes("UNROLL", None)  # packs of a thread under way at once
    wide: int | None = tunes("BLOCK_COLUMNS", None)  # packs of columns side by side in a block


@dataclass(frozen=True)
class SmemResidentSchedule(Schedule):
    """A block keeps its row in shared memory; what does not fit is read again."""

    keep_kib: int = tunes("SMEM_KIB", 48)
    group: int = tunes("GROUP", 512)
    unroll: int = tunes("UNROLL", 4)
    ahead: int = tunes(
        "PREFETCH_STEPS", 4
    )  # times `unroll` packs that are under way to shared memory before they are used

    def holds(self, row_bytes: int) -> bool:
        """Tell whether the whole row fits."""
        return self.keep_kib << 10 >= row_bytes

    def all_tunables(self, kib: tuple[int, ...]) -> tuple[Tunable, ...]:
        """`kib`: sizes of shared memory that a block may have."""
        smaller = [k for k in kib if k < self.keep_kib]
        return self.tunables(keep_kib=smaller, group=(256, 512, 1024), unroll=(2, 8), ahead=(2, 8))


@dataclass(frozen=True)
class ClusterReductionSchedule(Schedule):
    """A cluster of blocks keeps its row in their shared memory."""

    cluster: int = tunes("CLUSTER", 2)
    group: int = tunes("GROUP", 512)
    unroll: int = tunes("UNROLL", 4)
    ahead: int = tunes("PREFETCH_STEPS", 4)
    keep_kib: int = tunes("SMEM_KIB", 48)

    def holds(self, row_bytes: int) -> bool:
        """Tell whether the whole row fits."""
        return self.cluster * (self.keep_kib << 10) >= row_bytes

    def all_tunables(self, kib: tuple[int, ...]) -> tuple[Tunable, ...]:
        """`kib`: sizes of shared memory that a block may have."""
        clusters = [c for c in (2 * self.cluster, self.cluster // 2) if c > 1]
        return self.tunables(
            cluster=clusters, group=(1024, 256), unroll=(2, 8), ahead=(2, 8), keep_kib=kib[::-1]
        )
