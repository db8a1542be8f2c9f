"""Reshapes as factors: what is tied addresses the same elements, and what has no common refinement is refused."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.codegen.lowering.factors import Factors
from warpsmith.codegen.lowering.sizes import axis_sizes
from warpsmith.codegen.program import Operand, Unsupported


def declared(f: Factors, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    for d, size in enumerate(shape):
        f.declare((name, d), size)
    return f.of(*((name, d) for d in range(len(shape))))


def refined(f: Factors, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return f.of(*((name, d) for d in range(len(shape))))


def grouped(parts: list[int], data: st.DataObject) -> tuple[int, ...]:
    """Neighbouring factors multiplied together at random: a shape that they refine."""
    shape = [1]
    for part in parts:
        if data.draw(st.booleans()):
            shape.append(part)
        else:
            shape[-1] *= part
    return tuple(shape)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_reshape_shares_factors_that_multiply_to_both_shapes(data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 7]), min_size=1, max_size=6))
    before, after = grouped(parts, data), grouped(parts, data)
    f = Factors()
    f.tie(declared(f, "a", before), declared(f, "b", after))
    left = [x for x in refined(f, "a", before) if f.size(x) != 1]
    right = [x for x in refined(f, "b", after) if f.size(x) != 1]
    assert left == right
    for name, shape in (("a", before), ("b", after)):
        for d, size in enumerate(shape):
            assert prod(f.size(x) for x in f.of((name, d))) == size


@given(st.permutations(range(4)), st.data())
@settings(max_examples=40, deadline=None)
def test_factors_give_every_element_its_address(order: list[int], data: st.DataObject) -> None:
    """Split, permute, merge: walking the shared factors visits equal elements on both sides."""
    sizes = data.draw(st.lists(st.sampled_from([2, 3, 5]), min_size=4, max_size=4))
    f = Factors()
    source, split = (
        declared(f, "x", (sizes[0] * sizes[1], sizes[2] * sizes[3])),
        declared(f, "s", tuple(sizes)),
    )
    f.tie(source, split)
    permuted = tuple(sizes[d] for d in order)
    for i, d in enumerate(order):
        declared(f, "p", permuted)
        f.tie(f.of(("s", d)), f.of(("p", i)))
    merged = (permuted[0] * permuted[1] * permuted[2], permuted[3])
    f.tie(refined(f, "p", permuted), declared(f, "m", merged))
    x = np.arange(prod(sizes)).reshape(sizes[0] * sizes[1], -1)
    m = x.reshape(sizes).transpose(order).reshape(merged)
    left, right = refined(f, "x", x.shape), refined(f, "m", m.shape)
    assert sorted(left) == sorted(right)
    view = x.reshape([f.size(a) for a in left]).transpose([left.index(a) for a in right])
    assert np.array_equal(view, m.reshape([f.size(a) for a in right]))


def test_sizes_that_share_no_factor_are_refused() -> None:
    f = Factors()
    with pytest.raises(Unsupported, match="splits"):
        f.cut(declared(f, "x", (6,)), 4)
    with pytest.raises(Unsupported):
        f.tie(declared(f, "a", (6, 4)), declared(f, "b", (8, 3)))


def test_a_dimension_beside_ones_is_no_part_of_itself() -> None:
    """As in unsqueeze → sum → view, where a gradient goes back through a mean: this led to a circle."""
    f = Factors()
    x, y = declared(f, "x", (8,)), declared(f, "y", (1, 8))
    f.tie(x, y[1:])
    f.tie(refined(f, "x", (8,)), refined(f, "y", (1, 8)))
    assert refined(f, "x", (8,)) == refined(f, "y", (1, 8))[1:]


def test_a_cut_lands_between_factors_or_within_one() -> None:
    f = Factors()
    f.tie(declared(f, "c", (24,)), declared(f, "p", (4, 6)))
    outer, inner = f.cut(f.of(("c", 0)), 12)
    assert [f.size(x) for x in (*outer, *inner)] == [2, 2, 6]
    assert [f.size(x) for x in f.of(("p", 0))] == [2, 2]


def operand(
    name: str, axes: tuple[int | None, ...], shape: tuple[int, ...], dims: tuple[int, ...] = ()
) -> Operand:
    return Operand(name, name, "float32", axes, shape, tuple(0 for _ in shape), dims)


def test_sizes_come_from_whole_dimensions_then_quotients_then_constants() -> None:
    packed = operand("in0", (0, 1, 2), (5, 8, 4), (0, 1, 1))
    assert axis_sizes([packed, operand("out0", (2,), (4,))], (5, 8, 4), ()) == (
        "in0_shape[0]", "(out0_shape[0] == 0 ? 0 : in0_shape[1] / (out0_shape[0]))", "out0_shape[0]",
    )  # fmt: skip
    assert axis_sizes([packed], (5, 8, 4), {1}) == ("in0_shape[0]", "8", "(in0_shape[1] / 8)")
    assert axis_sizes([packed], (5, 8, 4), ()) == ("in0_shape[0]", "8", "4")
    with pytest.raises(Unsupported):
        axis_sizes([packed], (5, 8, 4, 3), ())
