"""Hand-written CUDA units whose blocks wait for each other: on the CPU with six of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import CudaBench

from warpsmith.kernels import family as base
from warpsmith.targets.front_matter import unit_from_source

UNITS = Path(__file__).resolve().parents[2] / "lab" / "authored"
R = torch.randn


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ((5, 9000), {"KEEP": 8, "HELD": 1, "EARLY": 2, "LOADS": 3}),
        ((3, 40000), {"KEEP": 7, "HELD": 5, "EARLY": 6, "LOADS": 4}),
        # A row is posted when the next one is written.
        ((5, 9000), {"KEEP": 0, "HELD": 0, "EARLY": 0, "LOADS": 2}),
        # Rows that begin anywhere, and stay whole.
        ((2, 9001), {"KEEP": 16, "EARLY": 7, "LOADS": 4, "BLOCKS": 5}),
        ((1, 700), {"KEEP": 4, "EARLY": 9, "LOADS": 6}),  # parts of one step, and one row
    ],
)
def test_layer_norm_over_rows_that_all_blocks_share(
    emulated: CudaBench, shape: tuple[int, int], values: dict[str, int]
) -> None:
    rows, n = shape
    graph, args = emulated.case(
        lambda x, w, b: F.layer_norm(x, (n,), w, b), lambda: (R(rows, n) + 9, R(n), R(n))
    )
    source = (UNITS / "level1_40_LayerNorm.cu").read_text()
    unit = unit_from_source(source, emulated.whole(graph), language="cuda")
    small = {"GROUP": 128, "HELD": 2, "BLOCKS": 6, "LAST": 0} | values
    assert set(small) == set(unit.values)
    tunables = tuple(base.tunable(name, value) for name, value in small.items())
    emulated.check(unit.model_copy(update={"tunables": tunables}), graph, args)
