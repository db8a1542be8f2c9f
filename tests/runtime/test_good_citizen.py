"""An optimized module where modules go: compiled, exported, saved, copied, moved, wrapped for data-parallel training."""

from __future__ import annotations

import copy
import gc
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
        # Before its process group goes: whoever is last to let that go waits for its threads, and the wrapper would do so with the GIL held.
        del wrapped
        gc.collect()
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


def change_epsilon(net: nn.Module) -> None:
    net.norm.eps = 0.5


def change_tuple(net: nn.Module) -> None:
    net.window = (1, 4)


def replace_layer(net: nn.Module) -> None:
    torch.manual_seed(2)
    net.linear = nn.Linear(8, 8).eval()


def wrap_layer(net: nn.Module) -> None:
    """As adapters are put around layers."""
    net.linear = nn.Sequential(net.linear, nn.Tanh()).eval()


def replace_forward(net: nn.Module) -> None:
    """As libraries move layers between devices by."""
    forward = net.forward
    net.forward = lambda x: {"y": forward(x)["y"] * 2, "n": 3}


class Tunable(Net):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.window, self.power = nn.LayerNorm(8), (0, 8), 2

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        first, last = self.window
        y = torch.relu(self.linear(self.norm(x)) * self.scale) ** self.power
        return {"y": y[:, first:last], "n": 3}


CHANGES = {
    "setting": (lambda net: setattr(net, "power", 3), "power of Tunable was changed"),
    "setting-of-a-submodule": (change_epsilon, "eps of LayerNorm was changed"),
    "tuple": (change_tuple, "window of Tunable was changed"),
    "submodule": (replace_layer, "a submodule of Tunable was replaced"),
    "adapter": (wrap_layer, "a submodule of Tunable was replaced"),
    "forward": (replace_forward, "forward of Tunable was changed"),
}


def make_tunable(folder: Path) -> tuple[OptimizedModule, nn.Module]:
    torch.manual_seed(1)
    net = Tunable().eval()
    graph = export_module(net, (X,), {}, folder).task.graph
    return OptimizedModule(net, graph, [], rewritten=graph), copy.deepcopy(net)


ELSEWHERE = {  # pairs that are no case
    ("itself", "forward"): "a forward of its own takes the place of ours",
    ("copied", "forward"): "a function of the original's own is copied as it is",
    ("copied", "submodule"): "see below: a layer like the one before it is welcome",
    ("copied", "adapter"): "see below: it has other submodules",
}


PLACES = ("original", "itself", "copied", "compiled")


@pytest.mark.parametrize(
    ("where", "name"), [(w, n) for w in PLACES for n in CHANGES if (w, n) not in ELSEWHERE]
)
def test_what_is_changed_after_the_export_is_honoured(name, where, tmp_path):
    """On the original, through the optimized module, in a copy made afterwards, and in code that is compiled."""
    change, reason = CHANGES[name]
    fast, reference = make_tunable(tmp_path)
    torch._dynamo.reset()
    called = torch.compile(fast, backend="eager") if where == "compiled" else fast
    with torch.no_grad():
        torch.testing.assert_close(called(X), reference(X))
        before = fast.fast_calls
        change(fast if where == "itself" else fast.original)
        change(reference)
        if where == "copied":
            called, before = copy.deepcopy(fast), 0
        torch.testing.assert_close(called(X), reference(X))
    if where != "compiled":
        answered = called if where == "copied" else fast
        assert answered.fast_calls == before
        assert reason in answered.last_fallback


def test_a_copy_that_is_in_another_mode_is_not_taken_for_the_exported_one(fast):
    fast.train()
    again = copy.deepcopy(fast)
    with torch.no_grad():
        again(X)
        assert (again.fast_calls, again.last_fallback) == (
            0,
            "a submodule's training mode is not the exported one",
        )
        again.eval()(X)
    assert again.fast_calls == 1


def test_a_copy_with_a_further_submodule_runs_the_original(tmp_path):
    fast, reference = make_tunable(tmp_path)
    for net in (fast, reference):
        wrap_layer(net)
    again = copy.deepcopy(fast)
    with torch.no_grad():
        torch.testing.assert_close(again(X), reference(X))
    assert "other submodules" in again.last_fallback


def test_a_copy_takes_a_layer_like_the_one_before_it(tmp_path):
    """Kernels read the weights of the layer that stands there."""
    fast, reference = make_tunable(tmp_path)
    for net in (fast, reference):
        replace_layer(net)
    again = copy.deepcopy(fast)
    with torch.no_grad():
        torch.testing.assert_close(again(X), reference(X))
    assert again.fast_calls == 1


def test_what_is_set_on_it_is_the_originals_but_for_its_own(tmp_path):
    fast, _ = make_tunable(tmp_path)
    fast.label, fast.last_fallback = "first", "none"
    fast.scale = nn.Parameter(torch.zeros(8))
    assert fast.original.label == fast.label == "first"
    assert not hasattr(fast.original, "last_fallback")
    assert fast.original.scale is fast.scale
    with torch.no_grad():
        assert float(fast(X)["y"].sum()) == 0
    assert fast.fast_calls == 1  # a parameter of the same form is read at each call


def test_notebooks_show_what_answered(fast):
    with torch.no_grad():
        fast(X[:2])
    page = fast._repr_html_()
    assert "Net" in page
    assert "1 by the original" in page
    assert "x is torch.float32[2, 8]" in page


def test_weights_by_name_are_the_originals(fast):
    """A checkpoint is saved and loaded under the original's names; a new one takes effect at once."""
    state = {name: value * 2 for name, value in fast.state_dict().items()}
    assert set(state) == set(fast.original.state_dict())
    reference = copy.deepcopy(fast.original)
    for net in (fast, reference):
        assert not net.load_state_dict(state, assign=net is fast).missing_keys
    with torch.no_grad():
        torch.testing.assert_close(fast(X), reference(X))
    assert fast.fast_calls == 1
