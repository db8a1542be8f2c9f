"""A graph at sizes that nobody exported is the graph that an export gives there."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.dynamic_shapes.graph_template import GraphTemplate, find_terms
from warpsmith.errors import TaskError
from warpsmith.records import Graph
from warpsmith.tasks.memory import export_module

POINTS = ((2, 2), (5, 13), (31, 61), (32, 64), (32, 2), (2, 64), (3, 20))


class Block(torch.nn.Module):
    """Attention with a mask by slices, a norm and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv = torch.nn.LayerNorm(32), torch.nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) * 8**-0.5).softmax(-1)
        return x + (weights @ v).transpose(1, 2).reshape(batch, length, 32)


class Pool(torch.nn.Module):
    """The sizes of its output are rounded down."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool1d(x, 2)


def test_sizes_of_one_at_which_the_graph_is_another_are_refused(tmp_path: Path) -> None:
    points = [(sizes, export(Block(), sizes, tmp_path)) for sizes in ((1, 1), (5, 13), (3, 20))]
    with pytest.raises(TaskError, match="differs between sizes by more than numbers can tell"):
        GraphTemplate(points)


def export(module: torch.nn.Module, sizes: tuple[int, int], folder: Path) -> Graph:
    return export_module(module.eval(), (torch.randn(*sizes, 32),), {}, folder).task.graph


def test_a_graph_between_the_points_is_the_exported_one(tmp_path: Path) -> None:
    module = Block()
    template = GraphTemplate([(sizes, export(module, sizes, tmp_path)) for sizes in POINTS])
    for sizes in ((4, 7), (17, 64), (2, 3)):
        expected, actual = export(module, sizes, tmp_path), template.at(sizes)
        assert [n.op for n in actual.nodes] == [n.op for n in expected.nodes]
        assert [n.args for n in actual.nodes] == [n.args for n in expected.nodes]
        assert actual.specs == expected.specs
        assert actual.outputs == expected.outputs


def test_sizes_that_are_rounded_are_refused(tmp_path: Path) -> None:
    lengths = [
        ((n,), export_module(Pool(), (torch.randn(2, 4, n),), {}, tmp_path).task.graph)
        for n in (4, 5, 9, 16, 31)
    ]
    with pytest.raises(TaskError, match="follows from the sizes by no simple expression"):
        GraphTemplate(lengths)


TERMS = st.tuples(st.integers(-5, 9).filter(bool), st.integers(0, 2), st.integers(0, 1))
SIZES = st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), min_size=5, max_size=8, unique=True)


@given(st.lists(TERMS, min_size=1, max_size=2), SIZES, st.tuples(st.integers(1, 99), st.integers(1, 99)))
def test_expressions_that_fit_give_the_values_at_their_points(
    terms: list[tuple[int, int, int]], points: list[tuple[int, int]], elsewhere: tuple[int, int]
) -> None:
    def value(sizes: tuple[int, ...]) -> int:
        return sum(factor * sizes[0] ** a * sizes[1] ** b for factor, a, b in terms)

    fitted = find_terms(tuple(map(value, points)), tuple(points))
    assert fitted is not None
    for sizes in points:
        assert sum(t.evaluate(sizes) for t in fitted) == value(sizes)


def test_two_points_do_not_tell_two_terms() -> None:
    assert find_terms((3, 5), ((1,), (2,))) is None
    assert find_terms((3, 5, 7, 9), ((1,), (2,), (3,), (4,))) == ((Fraction(1), (0,)), (Fraction(2), (1,)))
    assert find_terms((4, 8), ((1,), (2,))) == ((Fraction(4), (1,)),)
