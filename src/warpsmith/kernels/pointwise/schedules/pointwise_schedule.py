"""The schedule of pointwise chains on a GPU: packs of a thread that are under way at once."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule import Schedule, tunes


@dataclass(frozen=True)
class PointwiseSchedule(Schedule):
    unroll: int = tunes("UNROLL", 1)
    block: int = tunes("BLOCK", 128)
