"""How many timed calls of a confirmation are checked, by what their samples take."""

from __future__ import annotations

import pytest

from warpsmith.judge.memory import CHECKS, CHECKS_LEAST, checked_calls
from warpsmith.records import Graph, GraphInput, GraphOutput, Node, TensorSpec, Value


def graph(elements: int) -> Graph:
    spec = TensorSpec(shape=(elements,), dtype="float32", stride=(1,))
    node = Node(
        name="y", op="aten.relu.default", args=({"v": "x"},), kwargs={}, outputs=(Value(name="y", spec=spec),)
    )
    given = (GraphInput(name="x", spec=spec, role="input", target="x"),)
    return Graph(inputs=given, nodes=(node,), outputs=(GraphOutput(value="y"),), tree="0")


@pytest.mark.parametrize(
    ("elements", "checks"),
    [(0, CHECKS), (1 << 20, CHECKS), (1 << 25, 8), (1 << 28, CHECKS_LEAST), (1 << 34, CHECKS_LEAST)],
)
def test_large_samples_are_fewer(elements: int, checks: int) -> None:
    assert checked_calls(graph(elements)) == checks
