"""`Limit`: the least time that a task can take on a machine, and which measured peak rates say so."""

from __future__ import annotations

from typing import Literal

from .record import Record


class UsedPeaks(Record):
    """The measured peak rates that a limit is computed from."""

    key: str  # the first digits of the hash of all rates
    measured_at: str = ""  # ISO 8601 UTC: when the newest of these rates was measured
    busy: bool = False  # whether the machine had other work each time that some rate was measured

    @property
    def text(self) -> str:
        """Return them as they stand beside a limit."""
        return f"peaks {self.key} of {self.measured_at[:10] or 'unknown date'}{', busy machine' if self.busy else ''}"


class Limit(Record):
    """Speed-of-light floor of a task on this machine."""

    seconds: float
    least_bytes: int
    flops: int
    bytes_per_second: float
    flops_per_second: float
    bound: Literal["memory", "compute"]
    peaks: UsedPeaks | None = None  # None: from before limits named them

    def share(self, microseconds: float) -> float:
        """Return the share of the limit that this time reaches."""
        return self.seconds * 1e6 / microseconds

    @property
    def busy(self) -> bool:
        """Tell whether its peaks are known to be from a busy machine: it may be too high, and nothing stops on it."""
        return self.peaks is not None and self.peaks.busy
