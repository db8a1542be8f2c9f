"""Softmax of scaled values: the maximum is of rounded products, and so must the difference be, however large both are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import CudaBench

R = torch.randn
CASES: dict[str, tuple[Callable[..., object], tuple[int, ...]]] = {
    "softmax": (lambda x: F.softmax(x * 0.3, -1), (7, 1500)),
    "log softmax": (lambda x: F.log_softmax(x * 0.3, -1), (7, 1500)),
    "logsumexp": (lambda x: torch.logsumexp(x * 0.3, -1), (7, 1500)),
    "softmax of columns": (lambda x: F.softmax(x * 0.3, 1), (2, 130, 96)),
    "logsumexp of columns": (lambda x: torch.logsumexp(x * 0.3, 1), (2, 130, 96)),
}


def check_techniques(bench: Any, function: Callable[..., object], x: torch.Tensor) -> set[str]:
    graph = bench.graph(function, x)
    tried = set()
    for technique, unit in bench.techniques(graph, bench.whole(graph)):
        bench.check(unit, graph, (x,))
        tried.add(technique.name)
    return tried


@pytest.mark.parametrize("size", [1e9, 1e30])
@pytest.mark.parametrize("name", CASES)
def test_huge_rows_are_right_on_a_cpu(bench: Any, name: str, size: float) -> None:
    function, shape = CASES[name]
    assert check_techniques(bench, function, R(*shape) * size)


@pytest.mark.parametrize("size", [1e9, 1e30])
@pytest.mark.parametrize("name", CASES)
def test_huge_rows_are_right_on_a_gpu(contracting: CudaBench, name: str, size: float) -> None:
    function, shape = CASES[name]
    assert check_techniques(contracting, function, R(*shape) * size)


def test_what_is_no_number_reaches_its_row(bench: Any, contracting: CudaBench) -> None:
    x = R(4, 900)
    x[2, 17] = torch.nan
    for either in (bench, contracting):
        check_techniques(either, CASES["softmax"][0], x)
