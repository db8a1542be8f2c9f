"""The schedule of pointwise chains and of data movement on a GPU: packs of a thread that are under way at once."""

from __future__ import annotations

from dataclasses import dataclass

from .schedule import Schedule, tunes


@dataclass(frozen=True)
class ElementwiseSchedule(Schedule):
    unroll: int = tunes("UNROLL", 1)
    block: int = tunes("BLOCK", 128)
    tile_rows: int | None = tunes(
        "TILE_ROWS", None
    )  # rows that neighbouring threads take before the next pack
