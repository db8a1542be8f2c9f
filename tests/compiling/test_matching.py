"""Occurrences of a region: the same operations on the same kinds of tensors, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from warpsmith.compiling.matching import Matcher
from warpsmith.records import Graph
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.tasks.functions import as_module
from warpsmith.tasks.regions import make_region


def make_graph(function: Callable[..., Any], *inputs: torch.Tensor) -> Graph:
    return program_graph(export_program(as_module(function), inputs, {}, __file__), __file__)


def count(pattern: Callable[..., Any], model: Callable[..., Any], *inputs: torch.Tensor) -> int:
    graph = make_graph(pattern, *inputs)
    region = make_region(graph, [n.name for n in graph.nodes])
    return len(Matcher(make_graph(model, *inputs)).find(graph, region))


X = torch.randn(4, 8)


def gate(x):
    return torch.sigmoid(x) * torch.tanh(x)


@pytest.mark.parametrize(
    ("model", "times"),
    [
        (lambda x: gate(gate(x) + 1), 2),
        (lambda x: torch.sigmoid(x) * torch.tanh(x + 1), 0),  # one input stands for two
        (lambda x: torch.tanh(x) * torch.sigmoid(x), 0),
        (lambda x: gate(x.double()), 0),
        (lambda x: gate(x[:2]), 0),
        (lambda x: gate(x.t().contiguous().t()), 0),  # other strides
        (lambda x: (gate(x), torch.tanh(x)), 1),
    ],
)
def test_it_stands_where_values_flow_the_same_way(model, times):
    assert count(gate, model, X) == times


def test_siblings_are_found_through_the_value_that_they_share():
    def pair(x):
        return torch.sigmoid(x), torch.tanh(x)

    def model(x):
        y = x + 1
        return torch.tanh(y).sum(), torch.sigmoid(y)

    assert count(pair, model, X) == 1
    assert count(pair, lambda x: (torch.tanh(x), torch.sigmoid(x + 1)), X) == 0


def test_constants_and_literals_must_be_equal():
    assert count(lambda x: x * 2.0, lambda x: x * 2.0, X) == 1
    assert count(lambda x: x * 2.0, lambda x: x * 3.0, X) == 0
    assert count(lambda x: x * 2.0, lambda x: x * 2, X) == 0
    scales = [lambda x, s=s: x * torch.tensor([s] * 8) for s in (1.0, 1.0, 2.0)]
    assert count(scales[0], scales[1], X) == 1
    assert count(scales[0], scales[2], X) == 0


def test_a_value_that_leaves_the_region_forbids_it():
    def chain(x):
        return torch.relu(torch.tanh(x))

    def leaks(x):
        y = torch.tanh(x)
        return torch.relu(y) + y

    assert count(chain, leaks, X) == 0


def test_names_follow_the_order_of_the_region():
    def difference(a, b):
        return torch.relu(a - b)

    graph = make_graph(difference, X, X + 1)
    region = make_region(graph, [n.name for n in graph.nodes])
    (occurrence,) = Matcher(make_graph(lambda a, b: difference(b.sin(), a.cos()), X, X + 1)).find(
        graph, region
    )
    assert occurrence.inputs == ("sin", "cos")
    assert occurrence.outputs == ("relu",)
