"""Regions of one node for CUDA units, and the example units beside."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

from warpsmith.records import Graph, GraphInput, GraphOutput, Node, Region, TensorSpec, Unit, Value
from warpsmith.targets.front_matter import unit_from_source

UNITS = Path(__file__).parent / "cuda_units"
Shapes = Sequence[tuple[int, ...]]


def spec(shape: tuple[int, ...], dtype: str = "float32") -> TensorSpec:
    stride = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    return TensorSpec(shape=shape, dtype=dtype, stride=stride)


def graph_of(inputs: Shapes, output: tuple[int, ...], dtype: str = "float32") -> Graph:
    made = [
        GraphInput(name=f"x{i}", spec=spec(s, dtype), role="input", target=f"x{i}")
        for i, s in enumerate(inputs)
    ]
    node = Node(
        name="n", op="aten.relu.default", args=tuple({"v": i.name} for i in made), kwargs={},
        outputs=(Value(name="y", spec=spec(output, dtype)),),
    )  # fmt: skip
    return Graph(inputs=tuple(made), nodes=(node,), outputs=(GraphOutput(value="y"),), tree="0")


def region_of(graph: Graph) -> Region:
    return Region(nodes=("n",), inputs=tuple(i.name for i in graph.inputs), outputs=("y",), signature="one")


def example(name: str, shapes: Shapes, dtype: str = "float32", **values: int) -> tuple[Unit, Graph]:
    """One of the example units and a graph that it covers; its output is like its first input."""
    graph = graph_of(shapes, shapes[0], dtype)
    source = (UNITS / f"{name}.cu").read_text()
    return unit_from_source(source, region_of(graph), values, language="cuda"), graph
