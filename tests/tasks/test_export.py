"""Modules to graphs: roles, nesting, literals, lines, and what is refused, with real torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from warpsmith.errors import TaskError
from warpsmith.records import Graph
from warpsmith.runtime.interpreter import run_graph
from warpsmith.tasks.export import describe, export_program, program_graph
from warpsmith.tasks.hosted import HostedModule, collect_values


def graph_of(module: nn.Module, *args: Any, **kwargs: Any) -> Graph:
    return program_graph(export_program(module, args, kwargs, __file__), __file__)


def values_of(module: nn.Module, graph: Graph, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
    values = collect_values(HostedModule(module, args, kwargs), graph.inputs)
    return {i.name: v for i, v in zip(graph.inputs, values, strict=True)}


class Everything(nn.Module):
    """Tied parameters, a buffer, a plain tensor, literals, nested outputs, keyword and scalar arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        self.two.weight = self.one.weight
        self.norm = nn.BatchNorm1d(8)
        self.mask = torch.tril(torch.ones(8, 8))
        self.register_buffer("shift", torch.ones(8), persistent=False)

    def forward(self, x: torch.Tensor, power: int, *, extra: dict[str, torch.Tensor]) -> Any:
        y = self.two(self.one(x)) * self.mask[:1] + self.shift
        y = self.norm(y) * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
        z = y.clone()
        z[0] = 1.0
        return {"a": (F.softmax(z, -1), power), "b": [z**power, None]}, extra["rows"] + 1


@pytest.fixture(scope="module")
def everything() -> tuple[Everything, tuple[Any, ...], dict[str, Any], Graph]:
    module, args = Everything(), (torch.randn(4, 8), 3)
    kwargs = {"extra": {"rows": torch.arange(3)}}
    return module, args, kwargs, graph_of(module, *args, **kwargs)


def test_roles_and_nesting(everything: Any) -> None:
    _, _, _, graph = everything
    roles = {i.target: i.role for i in graph.inputs}
    assert roles["norm.running_mean"] == roles["shift"] == "buffer"
    assert roles["mask"] == "constant"
    assert roles["one.bias"] == "param"
    assert [i.role for i in graph.inputs][-2:] == ["input", "input"]
    assert sum(t.endswith(".weight") and "norm" not in t for t in roles) == 1  # tied: one parameter, once
    updates = {o.target for o in graph.outputs if o.role == "buffer_update"}
    assert updates == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    assert json.loads(graph.tree) == {
        "tuple": [{"dict": {"a": {"tuple": [0, {"const": 3}]}, "b": [1, {"const": None}]}}, 2]
    }
    assert json.loads(graph.call) == {
        "tuple": [{"tuple": [0, {"const": 3}]}, {"dict": {"extra": {"dict": {"rows": 1}}}}]
    }


def test_graph_computes_what_the_module_computes(everything: Any) -> None:
    module, args, kwargs, graph = everything
    values = values_of(module, graph, *args, **kwargs)
    got = run_graph(graph, {k: v.clone() for k, v in values.items()})
    tree, rows = module(*args, **kwargs)
    returned = [o.value for o in graph.outputs if o.role == "output"]
    for value, expected in zip(returned, [tree["a"][0], tree["b"][0], rows], strict=True):
        torch.testing.assert_close(got[str(value)], expected)
    mean = next(o.value for o in graph.outputs if o.target == "norm.running_mean")
    torch.testing.assert_close(got[str(mean)], module.norm.running_mean)


def test_nodes_know_their_line_and_cost(everything: Any) -> None:
    _, _, _, graph = everything
    linear = next(n for n in graph.nodes if n.op == "aten.linear.default")
    line = next(
        k for k, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "self.two(self" in text
    )
    assert linear.where == f"test_export.py:{line} in forward"
    assert linear.flops == 2 * 4 * 8 * 8


def test_ops_that_have_a_kernel_stay_whole_and_composites_fall_apart() -> None:
    class Ops(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.mish(F.silu(F.gelu(F.layer_norm(x, (8,)))))
            x = F.scaled_dot_product_attention(x[None], x[None], x[None])[0] @ x.T
            return F.mse_loss(torch.logsumexp(x, 1), F.dropout(x[0], 0.5, training=False))

    ops = {n.op.split(".")[1] for n in graph_of(Ops(), torch.randn(8, 8)).nodes}
    kept = {
        "native_layer_norm",
        "gelu",
        "silu",
        "mish",
        "scaled_dot_product_attention",
        "matmul",
        "logsumexp",
    }
    assert kept <= ops
    assert "mse_loss" not in ops
    assert "dropout" not in ops
    assert "clone" not in ops


class Float8Weight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", (64 * torch.randn(8, 8)).to(torch.float8_e4m3fn))
        self.register_buffer("scale", torch.rand(8, 1).bfloat16())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight.to(x.dtype) * self.scale)


def test_float8_weights_are_bytes_that_a_cast_widens() -> None:
    torch.manual_seed(0)
    module, x = Float8Weight(), torch.randn(4, 8).bfloat16()
    graph = graph_of(module, x)
    (weight,) = (i for i in graph.inputs if i.target.endswith("weight"))
    assert (weight.spec.dtype, weight.spec.nbytes) == ("float8_e4m3fn", 64)
    made = run_graph(graph, values_of(module, graph, x))
    (output,) = graph.returned
    assert torch.equal(made[output], module(x))


def test_input_update_is_an_output() -> None:
    class Adds(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            return x * 2

    graph = graph_of(Adds(), torch.zeros(3))
    assert [(o.role, o.target) for o in graph.outputs] == [("input_update", "x"), ("output", "")]


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1


class Counts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]


class Random(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


class DropsAttention(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)


class ReturnsNothing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sums", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> None:
        self.sums.add_(x.sum((0, 1)))


class ReturnsText(nn.Module):
    def forward(self, x: torch.Tensor) -> str:
        return "done"


class Spectrum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x)


class ReadsNumber(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()


class Selects(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]


class Mismatch(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class Breaks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(99, 2)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Branches(), r"depend on data.*torch\.where.*test_export\.py:\d+ in forward"),
        (Counts(), r"data.*test_export\.py:\d+ in forward"),
        (ReadsNumber(), r"Python number from data.*keep the value a tensor.*test_export\.py:\d+ in forward"),
        (Selects(), r"size of aten\.index.*depends on data.*torch\.where or a mask"),
        (Random(), r"random op aten\.rand.*test_export\.py:\d+ in forward"),
        (DropsAttention(), r"random op aten\.scaled_dot_product_attention"),
        (nn.Dropout(0.5), r"random op aten\.\w*dropout.*eval"),
        (Mismatch(), "the example inputs do not match forward"),
        (ReturnsNothing(), r"returns no tensor"),
        (ReturnsText(), r"returns no tensor"),
        (Spectrum(), r"returns a complex64 tensor.*view_as_real"),
        (Breaks(), r"RuntimeError.*test_export\.py:\d+ in forward"),
    ],
)
def test_refusals_are_one_line_with_op_and_place(module: nn.Module, words: str) -> None:
    with pytest.raises(TaskError, match=words) as caught:
        graph_of(module, torch.randn(1, 8, 8))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("said", ["Torch not compiled with CUDA enabled", "No CUDA GPUs are available"])
def test_a_missing_gpu_is_told_with_what_to_do(said: str) -> None:
    line = describe(AssertionError(said), "t.py", "get_inputs()")
    assert line.startswith(f"get_inputs() failed: AssertionError: {said}; this machine has no GPU")
    assert "make the tensors on the CPU" in line


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_stay_whole_and_their_results_are_told_from_one_step(
    layer: Any, batch_first: bool
) -> None:
    module = layer(5, 7, 2, batch_first=batch_first, bidirectional=True)
    x = torch.randn(3, 11, 5)
    graph = graph_of(module, x)
    assert sum(n.op.split(".")[1] in ("lstm", "gru", "rnn_tanh") for n in graph.nodes) == 1
    got = run_graph(graph, values_of(module, graph, x))
    with torch.no_grad():
        wanted, state = module(x)
    states = state if isinstance(state, tuple) else (state,)
    for output, expected in zip(graph.outputs, (wanted, *states), strict=True):
        spec = graph.specs[str(output.value)]
        assert (spec.shape, spec.stride) == (tuple(expected.shape), expected.stride())
        torch.testing.assert_close(got[str(output.value)], expected)
