"""Schedules of scans, pooling, attention and pointwise chains: their values survive the way through a unit's, and fill a GPU."""

from __future__ import annotations

import pytest

from warpsmith.hardware import H200
from warpsmith.kernels.attention.schedules.attention_schedule import MaterializedScoresSchedule
from warpsmith.kernels.elementwise_schedule import ElementwiseSchedule
from warpsmith.kernels.pool.schedules.pool_schedule import (
    MOST_PLANES,
    PoolRegisterTiledSchedule,
    PoolSeparable3dSchedule,
    PoolThreadGroupSchedule,
    choose_planes,
)
from warpsmith.kernels.scan.schedules.scan_schedule import (
    ScanColumnsSchedule,
    ScanRowsSchedule,
    choose_row_block,
    choose_split,
)
from warpsmith.kernels.schedule import Schedule

SCHEDULES = (
    MaterializedScoresSchedule(blocks=7), ElementwiseSchedule(4), PoolRegisterTiledSchedule(4, 2, 2, 8, nt=1),
    PoolSeparable3dSchedule(16), PoolThreadGroupSchedule(8), PoolThreadGroupSchedule(1, 8), ScanColumnsSchedule(4),
    ScanRowsSchedule(64, split=3),
)  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: type(s).__name__)
def test_a_schedule_survives_the_way_through_a_units_values(schedule: Schedule) -> None:
    values = {t.name: t.value for t in schedule.tunables()}
    assert type(schedule).from_values(values) == schedule


def test_planes_of_a_block_shrink_until_blocks_fill_the_gpu() -> None:
    assert choose_planes(H200, (512, 256, 64, 64)) == MOST_PLANES
    assert choose_planes(H200, (1, 64, 32, 32)) == 8


def test_a_row_is_split_only_where_rows_are_few_and_long() -> None:
    assert choose_row_block(1 << 20) == 256
    assert choose_row_block(10) == 64
    assert choose_split(H200, (4096, 4096), 256) <= 1
    assert choose_split(H200, (2, 1 << 20), 256) > 1
