"""How many timed calls of a confirmation are checked, by what their samples take; what a task takes of the host."""

from __future__ import annotations

import pytest

from warpsmith.errors import TaskError
from warpsmith.judge.device.memory import (
    CHECKS,
    CHECKS_LEAST,
    check_memory,
    count_checked_calls,
    estimate_bytes,
    is_crowded,
)
from warpsmith.records import Graph, GraphInput, GraphOutput, Node, TensorSpec, Value
from warpsmith.testing import chain_task


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
    assert count_checked_calls(graph(elements)) == checks


def test_where_a_gpu_computes_the_host_holds_less() -> None:
    task = chain_task()
    least = estimate_bytes(task.graph, "cuda")
    assert least < estimate_bytes(task.graph) / 1.5
    check_memory(task, least, "cuda")
    with pytest.raises(TaskError, match="to be judged"):
        check_memory(task, least)


@pytest.mark.parametrize(("elements", "rest"), [(1 << 26, False), (1 << 27, False), (1 << 28, True)])
def test_processes_on_a_gpu_rest_where_a_call_takes_more_than_a_gibibyte(elements: int, rest: bool) -> None:
    assert is_crowded(graph(elements)) is rest  # as much goes in as comes out
