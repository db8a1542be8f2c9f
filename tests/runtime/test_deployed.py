"""Candidates as deployed, with a real compiled unit, and the drop-in module around them."""

from __future__ import annotations

import copy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from warpsmith.errors import JudgeError, TaskError
from warpsmith.records import Graph, Region
from warpsmith.runtime.deployed import deploy
from warpsmith.runtime.module import OptimizedModule
from warpsmith.runtime.source import candidate_source
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.tasks.hosted import HostedModule, collect_values, load_reference
from warpsmith.tasks.memory import load_saved_values, task_from_module
from warpsmith.tasks.regions import make_region

# out0 = in0 * in1 + 1 over 8 columns, in1 broadcast along rows, with a workspace and OpenMP of the process.
UNIT = """
#include <stddef.h>
#include <stdint.h>
extern "C" size_t warpsmith_workspace_bytes() { return 64; }
extern "C" void warpsmith_run(const void* const* in, void* const* out, void* workspace, void* stream) {
    const float* x = (const float*)in[0];
    const float* y = (const float*)in[1];
    float* o = (float*)out[0];
    bool aligned = ((uintptr_t)x | (uintptr_t)y | (uintptr_t)o | (uintptr_t)workspace) % 64 == 0;
    ((float*)workspace)[0] = 1.0f;
    #pragma omp parallel for
    for (int i = 0; i < 32; ++i) o[i] = aligned ? x[i] * y[i % 8] + ((float*)workspace)[0] : -1.0f;
}
"""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.rand(8))
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor, repeat: int = 1) -> dict[str, Any]:
        y = self.linear(x) * self.scale + 1
        return {"y": F.relu(self.norm(y)), "n": repeat}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("unit")
    (folder / "unit.cpp").write_text(UNIT)
    # Compiled with OpenMP and linked without it: GOMP_* must come from torch.
    subprocess.run(
        [compiler, "-O1", "-fPIC", "-fopenmp", "-c", "unit.cpp", "-o", "unit.o"], cwd=folder, check=True
    )
    subprocess.run([compiler, "-shared", "unit.o", "-o", "unit.so"], cwd=folder, check=True)
    return folder / "unit.so"


@pytest.fixture
def net() -> tuple[Net, torch.Tensor, Graph, Region]:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(4, 8)
    graph = program_graph(export_program(net, (x,), {}, __file__), __file__)
    chosen = [
        n.name
        for n in graph.nodes
        if n.op in ("aten.mul.Tensor", "aten.add.Tensor") and "scale" in str(graph)
    ]
    first = next(n for n in graph.nodes if n.op == "aten.mul.Tensor")
    second = next(n for n in graph.nodes if first.name in n.uses)
    assert {first.name, second.name} <= set(chosen)
    return net, x, graph, make_region(graph, [first.name, second.name])


def values(net: Net, graph: Graph, x: torch.Tensor) -> list[torch.Tensor]:
    return collect_values(HostedModule(net, (x,), {}), graph.inputs)


def test_unit_and_aten_together_match_the_module(net: Any, library: Path) -> None:
    module, x, graph, region = net
    reference = copy.deepcopy(module)
    run = deploy(graph, [(region, library)])
    for _ in range(2):
        leaves = run(values(module, graph, x))
        expected = reference(x)
        torch.testing.assert_close(leaves[0], expected["y"])
        assert not leaves[0].requires_grad
    torch.testing.assert_close(module.norm.running_var, reference.norm.running_var)
    assert int(module.norm.num_batches_tracked) == 2
    assert torch.is_grad_enabled()


def test_strided_and_misaligned_inputs_are_made_to_match(net: Any, library: Path) -> None:
    module, x, graph, region = net
    given = dict(zip([i.name for i in graph.inputs], values(module, graph, x), strict=True))
    name = next(i.name for i in graph.inputs if i.target == "scale")
    wanted = module(x)["y"]
    shifted = torch.empty(9)[1:].copy_(given[name])
    strided = torch.empty(8, 2)[:, 0].copy_(given[name])
    assert shifted.data_ptr() % 64
    run = deploy(graph, [(region, library)])
    for other in (shifted, strided):
        torch.testing.assert_close(run(list((given | {name: other}).values()))[0], wanted)


def test_generated_source_needs_no_warpsmith(net: Any, library: Path) -> None:
    module, x, graph, region = net
    text = candidate_source(graph, [region])
    assert "warpsmith." not in text.replace("library.warpsmith_", "")
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    torch.testing.assert_close(namespace["bind"]([str(library)])(values(module, graph, x))[0], module(x)["y"])


def test_values_die_after_their_last_use(net: Any) -> None:
    text = candidate_source(net[2], [])
    linear = next(n for n in net[2].nodes if n.op == "aten.linear.default")
    assert f"del v_{linear.name}\n" in text


def test_bad_parts(net: Any, tmp_path: Path) -> None:
    _, _, graph, region = net
    (tmp_path / "junk.so").write_bytes(b"junk")
    with pytest.raises(JudgeError, match="cannot be loaded"):
        deploy(graph, [(region, tmp_path / "junk.so")])
    with pytest.raises(TaskError, match="share the node"):
        candidate_source(graph, [region, region])
    evil = graph.nodes[0].model_copy(update={"kwargs": {"x=__import__('os')": 1}})
    with pytest.raises(TaskError, match="no identifier"):
        candidate_source(graph.model_copy(update={"nodes": (evil, *graph.nodes[1:])}), [])


def test_module_is_a_drop_in(net: Any, library: Path) -> None:
    module, x, graph, region = net
    reference = copy.deepcopy(module)
    fast = OptimizedModule(module, graph, [(region, library)])
    with torch.no_grad():
        for call in (
            lambda m: m(x),
            lambda m: m(x=x),
            lambda m: m(x, repeat=1),
            lambda m: m(x.t().contiguous().t()),
        ):
            got, expected = call(fast), call(reference)
            assert list(got) == ["y", "n"]
            assert got["n"] == expected["n"]
            torch.testing.assert_close(got["y"], expected["y"])
        assert (fast.fast_calls, fast.fallbacks) == (4, 0)
        assert list(fast.state_dict()) == list(reference.state_dict())
        assert fast.state_dict()["scale"].data_ptr() == module.scale.data_ptr()
        changed = {k: v + 1 for k, v in reference.state_dict().items()}
        nn.Sequential(fast).load_state_dict({f"0.{k}": v for k, v in changed.items()})
        reference.load_state_dict(changed)
        torch.testing.assert_close(fast(x)["y"], reference(x)["y"])


def test_module_falls_back_whenever_the_candidate_does_not_apply(net: Any, library: Path) -> None:
    module, x, graph, region = net
    fast = OptimizedModule(module, graph, [(region, library)])
    y = fast(x)["y"]
    assert y.requires_grad
    assert "gradients" in fast.last_fallback
    with torch.no_grad():
        for call, why in [
            (lambda: fast(torch.randn(5, 8)), r"\[5, 8\]"),
            (lambda: fast(x, 2), "constant argument"),
            (lambda: fast.eval()(x), "training mode"),
            (lambda: fast.train().double()(x.double()), "float64"),
        ]:
            call()
            assert why.replace("\\", "") in fast.last_fallback, fast.last_fallback
    assert (fast.fast_calls, fast.fallbacks) == (0, 5)
    assert "original runs" in OptimizedModule(module, graph, []).report()


def test_memory_task_reloads_in_another_process_form(net: Any, tmp_path: Path) -> None:
    module, x, _, _ = net
    x = torch.randn(32, 8)
    task = task_from_module(module, (x,), {}, tmp_path)
    assert [v.name for v in task.variants] == ["main", "ragged"]
    ragged = task.variant("ragged").graph
    assert ragged.specs["x"].shape == (13, 8)
    again = load_saved_values(Path(task.source.export_file), ragged.inputs, seed=3)
    assert again[-1].shape == (13, 8)
    assert all(any(torch.equal(r, row) for row in x) for r in again[-1])
    hosted = load_reference(task.source)
    given = load_saved_values(Path(task.source.export_file), task.graph.inputs, seed=0)
    fresh = [t + 1 if i.role == "param" else t for i, t in zip(task.graph.inputs, given, strict=True)]
    hosted.bind(task.graph, fresh)
    expected = deploy(task.graph, [])([t.clone() for t in fresh])[0]
    torch.testing.assert_close(hosted()[0].detach(), expected)


def test_plain_functions(tmp_path: Path) -> None:
    def gelu_sum(x: torch.Tensor, *, axis: int) -> torch.Tensor:
        return F.gelu(x).sum(axis)

    x = torch.randn(9, 4)
    task = task_from_module(gelu_sum, (x,), {"axis": 1}, tmp_path)
    assert task.name == "gelu_sum"
    assert [n.op.split(".")[1] for n in task.graph.nodes] == ["gelu", "sum"]
    with pytest.raises(TaskError, match="build the module first"):
        task_from_module(Net, (x,), {}, tmp_path)
