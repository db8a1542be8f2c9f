"""What forward draws where the caller gives nothing becomes an input; every other draw is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from warpsmith.errors import TaskError
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Graph, TaskSource
from warpsmith.runtime.interpreter import run_graph
from warpsmith.tasks.client import TaskHost
from warpsmith.tasks.drawn import drawn_arguments
from warpsmith.tasks.hosted import export_source, load_reference, real_values
from warpsmith.tasks.load import load_task

TASK = """
import torch

ROWS = 6

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3, 2, batch_first=True)

    def forward(self, x, mask=None, h0=None, c0=None):
        if h0 is None:
            h0 = torch.randn(2, x.size(0), 3, device=x.device)
        if c0 is None:
            c0 = torch.rand(2, x.size(0), 3)
        out, _ = self.lstm(x if mask is None else x * mask, (h0, c0))
        return out[:, -1]

def get_inputs():
    return [torch.rand(ROWS, 5, 4)]
"""


@pytest.fixture(scope="module")
def scratch() -> Iterator[Scratch]:
    with Scratch() as made:
        yield made


def source(text: str = TASK) -> TaskSource:
    return TaskSource(kind="kernelbench", path="drawn.py", text=text)


def input_shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    return {i.target: i.spec.shape for i in graph.inputs if i.role == "input"}


def test_drawn_states_are_inputs_at_every_shape(tmp_path: Path, scratch: Scratch) -> None:
    (tmp_path / "task.py").write_text(TASK)
    task = load_task(str(tmp_path / "task.py"), scratch=scratch)
    for variant in task.variants:
        rows = variant.overrides.get("ROWS", 6)
        assert input_shapes(variant.graph) == {"x": (rows, 5, 4), "h0": (2, rows, 3), "c0": (2, rows, 3)}
    assert len(task.variants) > 1


def test_states_are_drawn_as_forward_would_and_by_the_seed() -> None:
    graph, _ = export_source(source(), {})
    values = real_values(source(), {}, 3, graph.inputs)
    assert all(map(torch.equal, values, real_values(source(), {}, 3, graph.inputs)))
    _, h0, c0 = (v for i, v in zip(graph.inputs, values, strict=True) if i.role == "input")
    assert h0.min() < 0  # normal
    assert 0 <= c0.min() <= c0.max() < 1  # uniform


def test_the_module_itself_takes_the_drawn_states() -> None:
    graph, _ = export_source(source(), {})
    hosted = load_reference(source())
    for seed in (3, 4):  # bound twice: a timed process gets other values before each block
        values = real_values(source(), {}, seed, graph.inputs)
        hosted.bind(graph, values)
        wanted = {o.value for o in graph.outputs if o.value is not None}
        names = [i.name for i in graph.inputs]
        with torch.no_grad():
            made = run_graph(graph, dict(zip(names, values, strict=True)), wanted=wanted)
            assert torch.allclose(hosted(), next(iter(made.values())), atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "return x + torch.randn(4)",  # there is no parameter for it
        "return x + (torch.randn(4) if state is None else state) + torch.rand(4)",  # one draw too many
        "return x * 2 + torch.randn(4) if state is None else x[0] + 'no tensor'",  # giving it fails
    ],
)
def test_other_draws_are_refused(scratch: Scratch, body: str) -> None:
    text = (
        "import torch\nclass Model(torch.nn.Module):\n"
        f"    def forward(self, x, state=None):\n        {body}\n"
        "def get_inputs():\n    return [torch.rand(3, 4)]\n"
    )
    with TaskHost(source(text), scratch=scratch) as host, pytest.raises(TaskError, match="random op aten"):
        host.export({})


class CallsNothing(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        raise AssertionError("a forward that does not draw is not run")


def test_a_forward_that_does_not_draw_is_not_tried() -> None:
    assert drawn_arguments(CallsNothing(), (torch.ones(1),), {}, fake=False) == {}
