"""The schedules of pooling on a GPU: a tile of outputs a thread, a window a thread group, planes of a volume a block."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....hardware import Hardware
from ...schedule import Schedule, tunes

ROWS_PER_BLOCK, BLOCKS_PER_SM = 16, 8  # of the result; that go through planes
MOST_PLANES, LEAST_PLANES = 64, 8  # of a block


@dataclass(frozen=True)
class PoolRegisterTiledSchedule(Schedule):
    rows: int = tunes("ROWS_PER_THREAD", 1)  # outputs below each other
    planes: int = tunes("PLANES_PER_THREAD", 1)  # outputs behind each other
    packs: int = tunes("PACKS_PER_THREAD", 1)  # packs of outputs beside each other
    vec: int = tunes("VEC", 4)
    block: int = tunes("BLOCK", 128)
    nt: int = tunes("NT", 0)


@dataclass(frozen=True)
class PoolThreadGroupSchedule(Schedule):
    group: int = tunes("GROUP", 1)  # threads that share a window
    vec: int | None = tunes("VEC", None)  # channels side by side, where these come last
    block: int = tunes("BLOCK", 128)
    nt: int = tunes("NT", 0)


@dataclass(frozen=True)
class PoolSeparable3dSchedule(Schedule):
    planes: int = tunes("PLANES_PER_BLOCK", MOST_PLANES)
    block: int = tunes("BLOCK", 512)
    vec: int = tunes("VEC", 4)
    nt: int = tunes("NT", 0)


def choose_planes(hardware: Hardware, shape: tuple[int, ...]) -> int:
    """Choose the planes of the result that a block makes: as many as leave enough blocks."""
    *lead, depth, height, _ = shape
    blocks = prod(lead) * -(-height // ROWS_PER_BLOCK)
    planes = MOST_PLANES
    while planes > LEAST_PLANES and blocks * -(-depth // planes) < BLOCKS_PER_SM * hardware.sm_count_rounded:
        planes //= 2
    return planes
