"""Operators that fall apart give what they gave."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.tasks.decompositions import LIBRARIES

GROUPED_MM = LIBRARIES["transformers", "grouped_mm_fallback"]


def grouped_mm_by_slices(rows: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    made, start = torch.zeros(rows.shape[0], weight.shape[2], dtype=rows.dtype), 0
    for expert, end in enumerate(offs.tolist()):
        made[start:end] = rows[start:end] @ weight[expert]
        start = end
    return made


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 9), ends=st.lists(st.integers(0, 9), min_size=1, max_size=6), seed=st.integers(0, 99)
)
def test_grouped_mm_multiplies_each_slice_by_its_expert(rows: int, ends: list[int], seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    offs = torch.tensor(sorted(min(end, rows) for end in ends), dtype=torch.int32)
    given_rows = torch.randn(rows, 4, generator=source, dtype=torch.float64)
    weight = torch.randn(len(ends), 4, 3, generator=source, dtype=torch.float64)
    torch.testing.assert_close(
        GROUPED_MM(given_rows, weight, offs), grouped_mm_by_slices(given_rows, weight, offs)
    )


def test_rows_of_no_expert_are_zero_whatever_they_hold() -> None:
    rows = torch.full((3, 2), float("inf"))
    made = GROUPED_MM(rows, torch.ones(4, 2, 2), torch.zeros(4, dtype=torch.int32))
    assert made.eq(0).all()


def test_mixture_of_experts_of_transformers_falls_into_aten() -> None:
    pytest.importorskip("transformers.integrations.moe")
    from warpsmith.tasks.decompositions import decomposition_table

    assert torch.ops.transformers.grouped_mm_fallback.default in decomposition_table()
