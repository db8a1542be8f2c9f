"""The schedule of attention as two split-precision products with the scores in memory between them."""

from __future__ import annotations

from dataclasses import dataclass

from ...gemm.cuda.split_fp16 import DEPTH
from ...schedule import Schedule, tunes


@dataclass(frozen=True)
class MaterializedScoresSchedule(Schedule):
    heads: int = tunes("HEADS", 64)  # whose scores are in memory at once
    bk: int = tunes("BK", DEPTH)
    stages: int = tunes("STAGES", 3)
    group: int = tunes("GROUP", 8)  # tiles that blocks walk down before they move over
    blocks: int = tunes("BLOCKS", 132)  # of the persistent grid
    split: int = tunes("SPLIT", 1)
