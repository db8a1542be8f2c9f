"""Kernels as operators: what PyTorch asks of an operator, its gradients, transforms, and 1,000 calls without a leak."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from warpsmith.errors import TaskError
from warpsmith.records import Graph, Region
from warpsmith.runtime.fx_graphs import Replacement, extract_region, to_fx
from warpsmith.runtime.unit_operators import define_graph_operator, define_unit_operator
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.front_matter import unit_from_source
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.tasks.regions import make_region

THOUSAND_STEPS = Path(__file__).with_name("thousand_steps.py")

SOURCE = """\
// warpsmith-unit: 1
#include "task.h"
static void unit(const in0_t* in0, const in1_t* in1, out0_t* out0, void*, void*) {
  for (int64_t i = 0; i < out0_numel; ++i) {
    out0_t v = in0[i] * in1[i % in1_numel];
    out0[i] = v > 0 ? v : 0;
  }
}
"""


class Gate(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * y) + 1


class Counter(nn.Module):
    """Updates a buffer, and returns a view of its input beside a new tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.total += x.sum(0)
        return torch.relu(x), x.reshape(-1)


def make_graph(module: nn.Module, *inputs: torch.Tensor) -> Graph:
    return program_graph(export_program(module, inputs, {}, __file__), __file__)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> CpuTarget:
    return CpuTarget(tmp_path_factory.mktemp("builds"))


def define(target: CpuTarget, dtype: torch.dtype) -> tuple[Any, Graph, Region]:
    graph = make_graph(Gate(), torch.randn(4, 8, dtype=dtype), torch.randn(8, dtype=dtype))
    region = make_region(graph, [n.name for n in graph.nodes[:2]])
    build = target.build(unit_from_source(SOURCE, region, language="c++"), graph, "main")
    assert build.ok, build.diagnostics
    return define_unit_operator(graph, region, Path(build.library), "cpu", "Mul + ReLU"), graph, region


@pytest.fixture(scope="module")
def gate(target: CpuTarget) -> tuple[Any, Graph, Region]:
    return define(target, torch.float32)


@pytest.fixture
def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 8, generator=generator), torch.randn(8, generator=generator)


def plain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * y)


def test_it_is_named_by_what_it_does_and_defined_once(gate, target):
    operator, *_ = gate
    assert re.fullmatch(r"warpsmith::mul_relu_[0-9a-f]{12}", operator.name())
    assert define(target, torch.float32)[0] is operator
    assert define(target, torch.float64)[0] is not operator


@pytest.mark.parametrize("gradients", [False, True])
def test_it_passes_torchs_own_check(gate, inputs, gradients):
    torch.library.opcheck(gate[0], tuple(t.requires_grad_(gradients) for t in inputs))


def test_it_takes_other_strides_and_refuses_other_shapes(gate, inputs):
    operator, (x, y) = gate[0], inputs
    assert torch.equal(operator(x.t().contiguous().t(), y), plain(x, y))
    with pytest.raises(ValueError, match=r"takes torch.float32\[4, 8\] as argument 0"):
        operator(x[:2], y)
    with pytest.raises(ValueError, match="verified for that alone"):
        operator(x.double(), y)


def test_an_input_that_is_not_expanded_goes_to_the_reference(target):
    """The kernel would read one row for all of them."""
    x, y = torch.randn(1, 8).expand(4, 8), torch.randn(8)
    graph = make_graph(Gate(), x, y)
    region = make_region(graph, [n.name for n in graph.nodes[:2]])
    source = SOURCE.replace("in0[i]", "in0[i % 8]")
    build = target.build(unit_from_source(source, region, language="c++"), graph, "main")
    operator = define_unit_operator(graph, region, Path(build.library), "cpu", "expanded")
    assert torch.equal(operator(x, y), plain(x, y))
    rows = torch.randn(4, 8)
    assert torch.equal(operator(rows, y), plain(rows, y))


def test_gradients_are_the_references(target):
    operator, *_ = define(target, torch.float64)
    values = [torch.randn(4, 8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)]
    values = [v.requires_grad_() for v in values]
    assert torch.autograd.gradcheck(operator, values)
    assert torch.autograd.gradgradcheck(operator, values)


def test_a_gradient_that_nobody_needs_is_not_computed(gate, inputs):
    x, y = inputs
    gate[0](x.requires_grad_(), y).sum().backward()
    assert x.grad is not None
    assert y.grad is None


TRANSFORMS = {
    "grad": lambda f, x, y: torch.func.grad(lambda x: f(x, y).square().sum())(x),
    "vmap": lambda f, x, y: torch.vmap(lambda x: f(x, y))(torch.stack([x, x + 1])),
    "jacrev": lambda f, x, y: torch.func.jacrev(lambda x: f(x, y))(x),
    "jvp": lambda f, x, y: torch.func.jvp(lambda x: f(x, y), (x,), (x + 1,))[1],
    "grad-of-each": lambda f, x, y: torch.vmap(torch.func.grad(lambda x: f(x, y).sum()))(torch.stack([x, x])),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_see_through_it(gate, inputs, name):
    transform = TRANSFORMS[name]
    assert torch.allclose(transform(gate[0], *inputs), transform(plain, *inputs))


def test_a_compiled_graph_is_not_broken_and_trains(gate, inputs):
    operator, (x, y) = gate[0], inputs
    compiled = torch.compile(lambda x, y: operator(x, y) * 2, fullgraph=True, backend="aot_eager")
    x.requires_grad_()
    (expected,) = torch.autograd.grad((plain(x, y) * 2).sum(), x)
    (actual,) = torch.autograd.grad(compiled(x, y).sum(), x)
    assert torch.allclose(actual, expected)


def test_autocast_leaves_its_precision(gate, inputs):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert gate[0](*inputs).dtype is torch.float32
        x = inputs[0].clone().requires_grad_()
        gate[0](x, inputs[1]).sum().backward()
    assert x.grad.dtype is torch.float32


def test_an_exported_program_holds_it_and_can_be_saved(gate, inputs):
    operator, graph, region = gate
    program = torch.export.export(to_fx(graph, [Replacement(region, operator)]), inputs)
    assert operator in {n.target for n in program.run_decompositions().graph.nodes}
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert torch.equal(torch.export.load(file).module()(*inputs)[0], Gate()(*inputs))


def test_a_whole_graph_declares_what_it_updates():
    module, x = Counter(), torch.randn(4, 8)
    graph = make_graph(module, x)
    operator = define_graph_operator(graph, [], "cpu", "counter")
    names = [i.target for i in graph.inputs]
    values = {"x": x, "total": torch.zeros(8)}
    arguments = [values[n] for n in names]
    assert [a.alias_info is not None and a.alias_info.is_write for a in operator._schema.arguments] == [
        n == "total" for n in names
    ]
    expected = module(x)
    for result, reference in zip(operator(*arguments), expected, strict=True):
        assert torch.equal(result, reference)
        assert result.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert torch.equal(values["total"], module.total)
    torch.library.opcheck(operator, tuple(arguments))
    with pytest.raises(RuntimeError, match=r"updates its inputs and has no gradient: use torch.no_grad\(\)"):
        operator(
            *(v.clone().requires_grad_() if n == "x" else v for n, v in zip(names, arguments, strict=True))
        )


def test_literals_of_a_region_are_no_arguments(gate):
    class Shift(nn.Module):
        def forward(self, x):
            return x + torch.tensor([0.5, 1.5])

    graph = make_graph(Shift(), torch.zeros(3, 2))
    region = make_region(graph, [n.name for n in graph.nodes])
    operator = define_graph_operator(extract_region(graph, region), [], "cpu", "shift")
    assert torch.equal(operator(torch.zeros(3, 2)), torch.tensor([[0.5, 1.5]] * 3))


def test_a_region_that_reads_no_tensor_is_refused():
    class Fill(nn.Module):
        def forward(self, x):
            return torch.ones(3) * 2

    graph = make_graph(Fill(), torch.zeros(1))
    region = make_region(graph, [n.name for n in graph.nodes])
    with pytest.raises(TaskError, match="reads no tensor"):
        define_graph_operator(extract_region(graph, region), [], "cpu", "fill")


@pytest.mark.parametrize("training", [False, True])
def test_a_thousand_steps_leave_nothing_behind(tmp_path, training):
    """In a process of its own: in this one, what other tests left takes and gives back memory, too."""
    command = [sys.executable, str(THOUSAND_STEPS), str(tmp_path), str(int(training))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    measured = json.loads(done.stdout.splitlines()[-1])
    before, after = measured["before"], measured["after"]
    assert after["tensors"] <= before["tensors"]
    assert after["resident"] - before["resident"] < 8 << 20
    assert after["files"] <= before["files"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_it_is_recorded_in_a_cuda_graph(tmp_path):
    from warpsmith.targets.cuda import CudaTarget

    source = SOURCE.replace(
        "static void unit(const in0_t* in0, const in1_t* in1, out0_t* out0, void*, void*) {",
        "__global__ void kernel(const in0_t* in0, const in1_t* in1, out0_t* out0) {",
    ).replace(
        "int64_t i = 0; i < out0_numel; ++i", "int64_t i = threadIdx.x; i < out0_numel; i += blockDim.x"
    )
    source += (
        "static void unit(const in0_t* in0, const in1_t* in1, out0_t* out0, void*, void* stream) {\n"
        "  kernel<<<1, 32, 0, (cudaStream_t)stream>>>(in0, in1, out0);\n}\n"
    )
    x, y = torch.randn(4, 8, device="cuda"), torch.randn(8, device="cuda")
    graph = make_graph(Gate(), x, y)
    region = make_region(graph, [n.name for n in graph.nodes[:2]])
    build = CudaTarget(tmp_path).build(unit_from_source(source, region, language="cuda"), graph, "main")
    operator = define_unit_operator(graph, region, Path(build.library), "cuda", "gate")
    torch.library.opcheck(operator, (x, y))
    operator(x, y)
    recorded = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(recorded):
        result = operator(x, y)
    x.copy_(torch.randn(4, 8, device="cuda"))
    recorded.replay()
    torch.cuda.synchronize()
    assert torch.equal(result, plain(x, y))
