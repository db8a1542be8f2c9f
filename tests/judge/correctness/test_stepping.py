"""Moving a graph and its values to another device; `meta`, which holds no values, stands in for a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpsmith.judge.correctness.reference import copied_to
from warpsmith.judge.correctness.stepping import Stepper, on_device
from warpsmith.judge.layout import output_names
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Graph, GraphInput, GraphOutput, Node, TensorSpec, Value
from warpsmith.runtime.interpreter import takes_device
from warpsmith.tasks.load import load_task

TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x + torch.arange(8) * torch.full((8,), 0.5), dim=1)
def get_inputs():
    return [torch.rand(4, 8)]
def get_init_inputs():
    return []
"""


def test_a_graph_on_another_device(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK)
    with Scratch() as scratch:
        graph = load_task(str(tmp_path / "task.py"), scratch=scratch).graph
    made_here = [n for n in graph.nodes if takes_device(n.op) and not n.uses]
    assert made_here, "the graph makes no tensor of its own: the test tests nothing"
    bare = graph.model_copy(
        update={
            "nodes": tuple(n.model_copy(update={"kwargs": {}}) if n in made_here else n for n in graph.nodes)
        }
    )
    values = {graph.inputs[0].name: torch.rand(4, 8, device="meta")}
    for moved in (on_device(graph, "meta"), on_device(bare, "meta")):
        made = Stepper(moved).run(values, output_names(graph))
        assert [t.device.type for t in made.values()] == ["meta"]
    assert all(n.kwargs.get("device", {"device": "cpu"}) == {"device": "cpu"} for n in graph.nodes)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.rand(3, 5).t(),
        torch.rand(4, 1).expand(4, 6),
        torch.rand(10)[::3],
        torch.tensor(2.5),
        torch.empty(0, 3),
        torch.rand(6, 6).as_strided((3, 4), (2, 1)),
    ],
)
def test_copies_keep_strides_and_values(tensor: torch.Tensor) -> None:
    assert copied_to(tensor, "meta").stride() == tensor.stride()
    assert torch.equal(copied_to(tensor, "cpu"), tensor)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_in_float64_keeps_its_tail(approximate: str) -> None:
    spec = TensorSpec(shape=(5,), dtype="float32", stride=(1,))
    node = Node(
        name="gelu", op="aten.gelu.default", args=({"v": "x"},), kwargs={"approximate": approximate},
        outputs=(Value(name="gelu", spec=spec),),
    )  # fmt: skip
    graph = Graph(
        inputs=(GraphInput(name="x", spec=spec, role="input", target="x"),), nodes=(node,),
        outputs=(GraphOutput(value="gelu"),), tree="0",
    )  # fmt: skip
    x = torch.tensor([-9.0, -2.0, 0.0, 1.5, 1e30])
    result = Stepper(graph).run({"x": x}, ["gelu"], float64=True)["gelu"]
    plain = torch.nn.functional.gelu(x.double(), approximate=approximate)
    assert plain[0] == 0
    assert -1e-15 < float(result[0]) < -1e-30
    torch.testing.assert_close(result[1:], plain[1:], rtol=1e-13, atol=0)
