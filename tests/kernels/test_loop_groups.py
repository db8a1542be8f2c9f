"""Which axes run as one loop."""

from __future__ import annotations

import pytest
import torch
from unit_bench import Bench

from warpsmith.kernels.registry import family_of


@pytest.mark.parametrize("stride", [(629, 629, 37), (592, 592, 37), (629, 592, 37), (629, 1, 37)])
def test_a_dimension_of_one_does_not_join_what_lies_apart(bench: Bench, stride: tuple[int, int, int]) -> None:
    """It fits either neighbour; those two need not fit each other."""
    x, y = (torch.randn(1300).as_strided((2, 1, 16), stride) for _ in range(2))
    graph = bench.graph(lambda x, y: torch.sigmoid(x) - torch.tanh(x * y), x, y)
    region = bench.whole(graph)
    family = family_of(graph, region)
    assert family is not None
    for technique in family.techniques(graph, region, bench.facts):
        bench.check(family.write(graph, region, technique), graph, (x, y), ulp=16.0)
