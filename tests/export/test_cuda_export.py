"""Winners for a GPU as a KernelBench solution and as source: complete, and they build with torch's own flags for extensions."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from torch.utils.cpp_extension import COMMON_NVCC_FLAGS

from warpsmith.errors import UsageError
from warpsmith.export import to_kernelbench, to_package, to_source
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Task, Unit
from warpsmith.targets.cuda import CudaTarget
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
TASK = """
import torch
rows = 61
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 32)
    def forward(self, x):
        return torch.relu(self.linear(x)) * 3.0
def get_inputs():
    return [torch.randn(rows, 64)]
def get_init_inputs():
    return []
"""
# Halves through operators, which torch's own flags forbid.
UNIT = """#include "task.h"
#include "warpsmith_cuda_states.h"
#include <cuda_fp16.h>
__global__ void gate(const in0_t* x, out0_t* y) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < in0_numel) y[i] = x[i] > 0 ? (float)(__half(3.0f) * __half(1.0f)) * x[i] : 0.0f;
}
static void unit(const in0_t* x, out0_t* y, void*, void* stream) {
  gate<<<(in0_numel + 255) / 256, 256, 0, (cudaStream_t)stream>>>(x, y);
}
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> CudaTarget:
    return CudaTarget(tmp_path_factory.mktemp("cache"), arch="sm_90a")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    file = tmp_path_factory.mktemp("task") / "gate.py"
    file.write_text(TASK)
    with Scratch() as scratch:
        return load_task(str(file), scratch=scratch)


@pytest.fixture(scope="module")
def candidate(task: Task) -> Candidate:
    nodes = [n.name for n in task.graph.nodes if "relu" in n.op or "mul" in n.op]
    unit = Unit(region=make_region(task.graph, nodes), language="cuda", source=UNIT, technique="fused")
    return Candidate(task_id=task.id, target="cuda", units=(unit,))


def test_a_solution_for_kernelbench_runs_on_the_gpu(
    task: Task, candidate: Candidate, target: CudaTarget
) -> None:
    text = to_kernelbench(task, candidate, target, "proof")
    tree = ast.parse(text)
    made = {
        n.targets[0].id: n.value
        for n in tree.body
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
    }
    program = ast.literal_eval(made["PROGRAM"])
    assert "device='cuda'" in program
    assert "stream_of(" in program
    assert "cuda_sources=[source]" in text
    assert "not tensor.is_cuda" in text
    ((_, source, flags),) = ast.literal_eval(made["KERNELS"])
    assert '#include "' not in source, "all of ours is inlined"
    assert any("sm_90a" in f for f in flags)


def test_its_kernels_build_as_an_extension_of_torch(
    task: Task, candidate: Candidate, target: CudaTarget, tmp_path: Path
) -> None:
    text = to_kernelbench(task, candidate, target)
    kernels = next(
        n.value for n in ast.parse(text).body if isinstance(n, ast.Assign) and n.targets[0].id == "KERNELS"
    )  # type: ignore[attr-defined]
    ((_, source, flags),) = ast.literal_eval(kernels)
    (tmp_path / "cuda.cu").write_text(source)
    command = [
        "nvcc",
        *COMMON_NVCC_FLAGS,
        "-std=c++17",
        "-Xcompiler=-fPIC",
        *flags,
        "-c",
        "cuda.cu",
        "-o",
        "cuda.o",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_source_builds_with_the_commands_beside_it(
    task: Task, candidate: Candidate, target: CudaTarget, tmp_path: Path
) -> None:
    folder = to_source(task, candidate, target, tmp_path / "source")
    readme = (folder / "README.md").read_text()
    assert "cudaStream_t" in readme
    compiling = next(line for line in readme.splitlines() if line.startswith("nvcc "))
    done = subprocess.run(
        compiling, cwd=folder / "unit0", shell=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "warpsmith_cuda_math.h").exists(), "a header that only another header includes"


def test_a_package_says_that_it_cannot(
    task: Task, candidate: Candidate, target: CudaTarget, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="--as kernelbench"):
        to_package(task, candidate, target, tmp_path / "package", "gate")
    assert not (tmp_path / "package").exists()
