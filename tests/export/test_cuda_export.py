"""Winners for a GPU as a KernelBench solution and as source: complete, and they build with torch's own flags for extensions."""

from __future__ import annotations

import ast
import json
import platform
import shutil
import subprocess
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
import torch
from elftools.elf.elffile import ELFFile
from torch.utils.cpp_extension import COMMON_NVCC_FLAGS

from warpsmith.errors import UsageError
from warpsmith.export import shipped_kernels, to_kernelbench, to_package, to_source
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Task, Unit
from warpsmith.targets.cubin import read_cubins
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


def read_architectures(library: Path) -> set[int]:
    """The numbers that the machine code's header may mean: its place in the flags moved with CUDA 13."""
    flags = [ELFFile(BytesIO(data)).header["e_flags"] for data in read_cubins(library)]
    return {number for f in flags for number in (f & 0xFF, f >> 8 & 0xFF)}


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


def test_a_package_holds_machine_code_of_each_architecture(
    task: Task, candidate: Candidate, target: CudaTarget, tmp_path: Path
) -> None:
    folder = to_package(task, candidate, target, tmp_path, "gate", archs=["sm_80", "sm_90a"])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["device"], manifest["archs"]) == ("cuda", ["sm_80", "sm_90a"])
    assert manifest["units"][0]["library"] == "lib/{arch}/unit0.so"
    for arch in manifest["archs"]:
        assert int(arch.strip("sm_a")) in read_architectures(folder / "lib" / arch / "unit0.so")
    assert "device='cuda'" in (folder / "_program.py").read_text()
    with zipfile.ZipFile(next((tmp_path / "dist").glob("*.whl"))) as wheel:
        assert {"gate/lib/sm_80/unit0.so", "gate/lib/sm_90a/unit0.so"} <= set(wheel.namelist())


@pytest.mark.parametrize(
    ("capability", "arch"),
    [((9, 0), "sm_90a"), ((8, 0), "sm_80"), ((8, 9), "sm_80"), ((7, 5), ""), ((10, 0), "")],
)
def test_a_gpu_gets_code_that_it_can_run(
    capability: tuple[int, int], arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped_kernels, "gpu_capability", lambda: capability)
    manifest = {"machine": platform.machine(), "archs": ["sm_80", "sm_90a"]}
    assert shipped_kernels.choose_arch(manifest) == arch


def test_another_gpu_gets_its_kernels_from_nvcc(
    task: Task, candidate: Candidate, target: CudaTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = to_package(task, candidate, target, tmp_path, "gate")
    monkeypatch.setattr(shipped_kernels, "gpu_capability", lambda: (8, 6))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    manifest = json.loads((folder / "manifest.json").read_text())
    (library,) = shipped_kernels.load_kernels(folder, manifest)
    assert 86 in read_architectures(Path(library))


def test_without_a_gpu_a_package_says_so_and_atens_operations_run(
    task: Task, candidate: Candidate, target: CudaTarget, tmp_path: Path
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    folder = to_package(task, candidate, target, tmp_path, "gate")
    with pytest.raises(shipped_kernels.Unusable, match="torch sees none"):
        shipped_kernels.load_kernels(folder, json.loads((folder / "manifest.json").read_text()))


def test_an_architecture_is_written_as_nvcc_does(
    task: Task, candidate: Candidate, target: CudaTarget, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="'hopper' is no GPU architecture: write it as sm_90a"):
        to_package(task, candidate, target, tmp_path / "package", "gate", archs=["hopper"])
