"""A task of one ReLU, as records."""

from __future__ import annotations

from warpsmith.records import (
    Graph,
    GraphInput,
    GraphOutput,
    Node,
    Task,
    TaskSource,
    TensorSpec,
    Value,
    Variant,
)

SPEC = TensorSpec(shape=(64, 96), dtype="float32", stride=(96, 1))
TEXT = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(64, 96)]
def get_init_inputs():
    return []
"""


def relu_task(spec: TensorSpec = SPEC, text: str = TEXT) -> Task:
    node = Node(
        name="y", op="aten.relu.default", args=({"v": "x"},), kwargs={}, outputs=(Value(name="y", spec=spec),)
    )
    graph = Graph(
        inputs=(GraphInput(name="x", spec=spec, role="input", target="x"),),
        nodes=(node,), outputs=(GraphOutput(value="y"),), tree="0",
    )  # fmt: skip
    source = TaskSource(kind="kernelbench", path="relu.py", text=text)
    return Task(name="relu", source=source, variants=(Variant(name="main", overrides={}, graph=graph),))
