"""A task with parameters, batch statistics and a literal; a candidate with two kernels and a unit in ATen; a target."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest
from exported_task import TASK

from warpsmith.processes.buffers import Scratch
from warpsmith.records import (
    Candidate,
    Graph,
    GraphInput,
    GraphOutput,
    Node,
    Region,
    Task,
    TensorSpec,
    Tunable,
    Unit,
    Value,
)
from warpsmith.targets.cpu import CpuTarget
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region

RELU = """\
#include "task.h"
#include <math.h>
#define TWICE(x) ((x) + (x))
static void unit(const in0_t* in0, out0_t* out0, void*, void*) {
#pragma omp parallel for num_threads(THREADS)
  for (int64_t i = 0; i < out0_numel; i += STEP)
    for (int64_t k = i; k < i + STEP && k < out0_numel; ++k) out0[k] = TWICE(fmaxf(in0[k], 0.0f)) * 0.5f;
}
"""

ADD = """\
#define WORKSPACE_BYTES (in1_numel * sizeof(in1_t))
#include "task.h"
#include "warpsmith_simd.h"
#define TWICE 2
static void unit(const in0_t* in0, const in1_t* in1, out0_t* out0, void* workspace, void*) {
  float* turned = (float*)workspace;
  for (int64_t r = 0; r < in1_shape[0]; ++r)
    for (int64_t c = 0; c < in1_shape[1]; ++c)
      turned[r * in1_shape[1] + c] = in1[r * in1_stride[0] + c * in1_stride[1]];
  for (int64_t i = 0; i < out0_numel; ++i) out0[i] = in0[i] + turned[i] * (TWICE / 2);
}
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="session")
def target(folder: Path) -> CpuTarget:
    return CpuTarget(folder / "cache")


@pytest.fixture(scope="session")
def task(folder: Path) -> Task:
    path = folder / "gate.py"
    path.write_text(TASK)
    with Scratch() as scratch:
        return with_literal(load_task(str(path), scratch=scratch))


def with_literal(task: Task) -> Task:
    """The same task with its factor 0.5 as a tensor spelt out, as `torch.tensor([0.5])` exports."""
    spec = TensorSpec(shape=(1,), dtype="float32", stride=(1,))
    data = base64.b64encode(struct.pack("<f", 0.5)).decode()
    half = GraphInput(name="c_half", spec=spec, role="constant", target="lifted_tensor_0", data=data)
    nodes = tuple(
        n.model_copy(update={"args": (n.args[0], {"v": "c_half"})}) if n.args[1:] == (0.5,) else n
        for n in task.graph.nodes
    )
    assert nodes != task.graph.nodes
    graph = task.graph.model_copy(update={"inputs": (half, *task.graph.inputs), "nodes": nodes})
    main = task.main.model_copy(update={"graph": graph})
    return task.model_copy(update={"variants": (main,)})


def region_of(task: Task, op: str) -> Region:
    return make_region(task.graph, [n.name for n in task.graph.nodes if n.op == op][:1])


@pytest.fixture(scope="session")
def candidate(task: Task) -> Candidate:
    steps = (Tunable(name="STEP", domain=(8, 16), value=16),)
    relu = Unit(
        region=region_of(task, "aten.relu.default"),
        language="c++",
        source=RELU,
        tunables=steps,
        technique="blocked",
    )
    add = Unit(
        region=region_of(task, "aten.add.Tensor"), language="c++", source=ADD, flags=("-fno-tree-vectorize",)
    )
    found = [n for n in task.graph.nodes if n.op == "aten.add.Tensor" and n.output.spec.dtype == "float32"]
    add = add.model_copy(update={"region": make_region(task.graph, [found[0].name])})
    return Candidate(task_id=task.id, target="cpu", units=(relu, sigmoid_in_aten(task), add))


def sigmoid_in_aten(task: Task) -> Unit:
    """1 / (1 + exp(-x)), a unit without code."""
    region, graph = region_of(task, "aten.sigmoid.default"), task.graph
    (given,), (made,) = region.inputs, region.outputs
    spec, nodes, value = graph.specs[made], [], given
    for number, (op, *more) in enumerate(
        (("neg.default",), ("exp.default",), ("add.Tensor", 1.0), ("reciprocal.default",))
    ):
        name = made if op.startswith("reciprocal") else f"sigmoid_step{number}"
        out = (Value(name=name, spec=spec),)
        nodes.append(Node(name=name, op=f"aten.{op}", args=({"v": value}, *more), kwargs={}, outputs=out))
        value = name
    rewrite = Graph(
        inputs=(GraphInput(name=given, spec=graph.specs[given], role="input", target=given),),
        nodes=tuple(nodes), outputs=(GraphOutput(value=made),), tree="[0]",
    )  # fmt: skip
    return Unit(region=region, language="aten", source="", technique="algebraic-sigmoid", rewrite=rewrite)
