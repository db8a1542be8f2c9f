"""The schedules of scans on a GPU: along rows (a block a row, or several), and down columns (a thread a pack of columns)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....hardware import Hardware
from ...cuda_unit import power
from ...schedule import Schedule, tunes

BLOCKS_PER_SM = 4  # that a split row aims at


@dataclass(frozen=True)
class ScanColumnsSchedule(Schedule):
    unroll: int = tunes("UNROLL", 8)  # rows under way
    block: int = tunes("BLOCK", 128)
    vec: int = tunes("VEC", 4)
    nt: int = tunes("NT", 0)


@dataclass(frozen=True)
class ScanRowsSchedule(Schedule):
    block: int = tunes("BLOCK", 256)
    vec: int = tunes("VEC", 4)
    nt: int = tunes("NT", 0)
    split: int = tunes("SPLIT", 1)  # blocks that share a row


def choose_row_block(length: int) -> int:
    """Choose the threads of a block: several blocks an SM, so that some scan while others wait."""
    return min(256, max(64, power(length / 16)))


def choose_split(hardware: Hardware, shape: tuple[int, ...], block: int) -> int:
    """Choose how many blocks share a row; 1 or less where rows alone fill the GPU."""
    rows, length = prod(shape[:-1]), shape[-1]
    return min(power(BLOCKS_PER_SM * hardware.sm_count_rounded / max(1, rows)), length // (block * 4))
