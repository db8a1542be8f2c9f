"""Which sizes a range has: read from `dynamic_shapes`, resized, and chosen to verify at."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim

from warpsmith.dynamic_shapes.dim_ranges import Axis, DimRange, ShapeRanges, read_ranges
from warpsmith.errors import UsageError
from warpsmith.tasks.flattened import CallShape

BATCH = Dim("batch", min=1, max=64)


def forward(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x + mask


def call(x: tuple[int, ...] = (4, 8), mask: tuple[int, ...] = (4, 8)) -> CallShape:
    return CallShape.of(forward, (torch.randn(x), torch.randn(mask)), {})


def test_axes_of_one_dim_vary_together() -> None:
    ranges = read_ranges(call(), {"x": {0: BATCH}, "mask": (BATCH, None)})
    assert ranges.dims == (DimRange("batch", 1, 64, 4, (Axis(0, 0), Axis(1, 0))),)
    assert read_ranges(call(), [{0: BATCH}, {-2: BATCH}]) == ranges


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({}, "is a mapping from the names of tensors"),
        (7, "is a mapping from the names of tensors"),
        ({"y": {0: BATCH}}, "names 'y'; the tensors of the call are x, mask"),
        ([None, None, None], "has 3 entries; the call has 2 tensors"),
        ({"x": None}, "lets no axis vary"),
        ({"x": {0: Dim("batch")}}, "Dim 'batch' has no largest size"),
        ({"x": {0: Dim.AUTO}}, "write torch.export.Dim with min and max"),
        ({"x": {0: 2 * BATCH}}, "write torch.export.Dim with min and max"),
        ({"x": {5: BATCH}}, "'x' has 2 axes, and none is 5"),
        ({"x": "batch"}, "dynamic_shapes of 'x' is a str"),
        ({"x": {0: BATCH, 1: BATCH}}, "one size has one name"),
        ({"x": {0: Dim("batch", min=8, max=64)}}, "has batch=4 in the example, outside of 8 to 64"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(stated: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_ranges(call(), stated)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sizes_are_read_and_those_outside_are_refused() -> None:
    ranges = read_ranges(call(), {"x": {0: BATCH}, "mask": {0: BATCH}})
    assert ranges.read_sizes([torch.empty(7, 8), torch.empty(7, 8)]) == (7,)
    assert ranges.read_sizes([torch.empty(7, 8), torch.empty(6, 8)]) == "its tensors disagree about batch"
    assert ranges.read_sizes([torch.empty(65, 8), torch.empty(65, 8)]) == "batch is 65, not 1 to 64"
    assert ranges.read_sizes([torch.empty(())]) == "its tensors disagree about batch"


def test_tensors_grow_by_repeated_rows() -> None:
    ranges = read_ranges(call(), {"x": {0: BATCH}})
    x = torch.arange(32.0).reshape(4, 8)
    grown, other = ranges.resize([x, x], (6,))
    assert torch.equal(grown, torch.cat([x, x[:2]]))
    assert torch.equal(other, x)
    assert ranges.resize_shapes([(4, 8), (4, 8)], (6,)) == [(6, 8), (4, 8)]


@given(
    st.lists(
        st.tuples(st.integers(1, 300), st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=3
    ),
    st.integers(0, 10),
)
def test_points_are_distinct_in_range_and_have_both_ends_and_a_prime(
    bounds: list[tuple[int, int, int]], seed: int
) -> None:
    dims = tuple(
        DimRange(f"d{n}", low, low + more + further, low + more, (Axis(n, 0),))
        for n, (low, more, further) in enumerate(bounds)
    )
    ranges = ShapeRanges(dims)
    points = ranges.choose_points(seed)
    assert points == ranges.choose_points(seed)
    assert len(set(points.values())) == len(points)
    assert ranges.example not in points.values()
    for sizes in points.values():
        assert all(dim.low <= size <= dim.high for dim, size in zip(dims, sizes, strict=True))
    reached = {ranges.example, *points.values()}
    assert {tuple(d.low for d in dims), tuple(d.high for d in dims)} <= reached


def test_primes_are_primes() -> None:
    points = ShapeRanges((DimRange("n", 4, 100, 50, (Axis(0, 0),)),)).choose_points(0)
    assert (points["prime"], points["prime-high"]) == ((19,), (97,))
