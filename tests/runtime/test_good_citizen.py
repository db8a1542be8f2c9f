"""An optimized module where modules go: compiled, exported, saved, copied, moved, wrapped for data-parallel training."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from warpsmith.errors import TaskError
from warpsmith.runtime.module import OptimizedModule
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.front_matter import unit_from_source
from warpsmith.tasks.memory import export_module
from warpsmith.tasks.regions import make_region

SOURCE = """\
// warpsmith-unit: 1
#include "task.h"
static void unit(const in0_t* in0, const in1_t* in1, out0_t* out0, void*, void*) {
  for (int64_t i = 0; i < out0_numel; ++i) { float v = in0[i] * in1[i % in1_numel]; out0[i] = v > 0 ? v : 0; }
}
"""
X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.scale = nn.Linear(8, 8), nn.Parameter(torch.rand(8))

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"y": torch.relu(self.linear(x) * self.scale), "n": 3}


@pytest.fixture
def fast(tmp_path_factory: pytest.TempPathFactory) -> OptimizedModule:
    torch._dynamo.reset()
    torch.manual_seed(1)
    net = Net().eval()
    task = export_module(net, (X,), {}, tmp_path_factory.mktemp("task")).task
    region = make_region(task.graph, [n.name for n in task.graph.nodes if n.op != "aten.linear.default"])
    unit = unit_from_source(SOURCE, region, language="c++")
    build = CpuTarget(tmp_path_factory.getbasetemp() / "builds").build(unit, task.graph, "main")
    assert build.ok, build.diagnostics
    return OptimizedModule(net, task.graph, [(region, Path(build.library))])


class Recorder:
    """A backend that keeps the graphs, and runs them as they are."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        self.calls += [str(n.target) for n in module.graph.nodes if n.op == "call_function"]
        return module.forward

    @property
    def kernels(self) -> int:
        return sum(call.startswith("warpsmith.") for call in self.calls)


def test_compiled_its_kernels_are_operators_in_one_graph(fast):
    recorder = Recorder()
    with torch.no_grad():
        result = torch.compile(fast, backend=recorder, fullgraph=True)(X)
        torch.testing.assert_close(result, fast.original(X))
    assert recorder.kernels == 1


@pytest.mark.parametrize("case", ["shape", "mode", "gradients", "hook", "keyword"])
def test_compiled_the_original_answers_other_calls(fast, case):
    recorder, x = Recorder(), X[:2] if case == "shape" else X
    if case == "mode":
        fast.train()
    if case == "hook":
        fast.original.linear.register_forward_hook(lambda module, args, result: result + 1)
    with torch.set_grad_enabled(case == "gradients"):
        compiled = torch.compile(fast, backend=recorder, dynamic=False)
        result = compiled(x=x) if case == "keyword" else compiled(x)
        torch.testing.assert_close(result, fast.original(x))
    assert recorder.kernels == 0


def test_exported_it_is_a_program_with_operators(fast):
    program = fast.export(X)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file)
    assert [str(n.target) for n in again.graph.nodes if str(n.target).startswith("warpsmith.")]
    assert set(again.state_dict) == set(fast.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(again.module()(X), fast(X))
    with pytest.raises(TaskError, match="there are no kernels to export"):
        OptimizedModule(fast.original, fast._graphs[0], []).export(X)


def test_saved_and_loaded_it_keeps_its_kernels(fast, tmp_path):
    torch.save(fast, tmp_path / "fast.pt")
    again = torch.load(tmp_path / "fast.pt", weights_only=False)
    with torch.no_grad():
        assert torch.equal(again(X)["y"], fast(X)["y"])
        assert torch.equal(copy.deepcopy(fast)(X)["y"], fast(X)["y"])
    assert again.fast_calls == 1


def test_moved_to_another_dtype_and_back(fast):
    with torch.no_grad():
        expected = fast(X)["y"]
        assert fast.to(torch.float64)(X.double())["y"].dtype is torch.float64
        assert "float64" in fast.last_fallback
        assert torch.equal(fast.to(torch.float32)(X)["y"], expected)
    assert (fast.fast_calls, fast.fallbacks) == (2, 1)


def test_wrapped_for_data_parallel_training_it_trains_and_answers(fast, tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1
    )
    try:
        wrapped = nn.parallel.DistributedDataParallel(fast)
        wrapped(X)["y"].sum().backward()
        assert fast.original.linear.weight.grad is not None
        with torch.no_grad():
            torch.testing.assert_close(wrapped(X), fast.original(X))
    finally:
        torch.distributed.destroy_process_group()
    assert (fast.fast_calls, fast.fallbacks) == (1, 1)


def test_it_explains_itself(fast):
    with torch.no_grad():
        fast(X)
        fast(X[:2])
    text = fast.explain()
    assert "kernel in place of mul.Tensor, relu.default" in text
    assert "x float32[4, 8] on cpu" in text
    assert "under torch.compile: operators" in text
    assert "1 calls by kernels, 1 by the original, the last because x is torch.float32[2, 8]" in text


CALLS = 0


def count_globally(x: torch.Tensor) -> torch.Tensor:
    global CALLS
    CALLS += 1
    return torch.relu(x)


class Shared(nn.Module):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Shared.calls += 1
        return torch.relu(x)


class Single(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.relu(x)


@pytest.mark.parametrize(
    ("module", "name"), [(count_globally, "CALLS"), (Shared(), "Shared.calls"), (Single(), "calls")]
)
def test_a_counter_is_refused_by_name_and_left_alone(module, name, tmp_path):
    with pytest.raises(TaskError, match=f"forward changes {name},"):
        export_module(module, (X,), {}, tmp_path)
    assert (CALLS, Shared.calls) == (0, 0)


def test_a_counter_of_an_enclosing_function_is_refused(tmp_path):
    calls = 0

    def count(x):
        nonlocal calls
        calls += 1
        return torch.relu(x)

    with pytest.raises(TaskError, match="forward changes calls,"):
        export_module(count, (X,), {}, tmp_path)
    assert calls == 0
