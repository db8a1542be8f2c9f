"""Convolutions over cells in a row on a GPU: right, and nothing that compute-sanitizer finds. Several tiles a block, so that
barriers and patches go round."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from made import FakeEvidence

from warpsmith import machine
from warpsmith.facts import Facts
from warpsmith.kernels.registry import family_of
from warpsmith.processes.buffers import Scratch
from warpsmith.profile.sanitizer import CUDA_TOOLS, sanitize
from warpsmith.records import Candidate, Task, TaskSource, Unit, Variant
from warpsmith.runtime.deployed import deploy
from warpsmith.search.tuner import with_values
from warpsmith.targets.cuda import CudaTarget
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.tasks.regions import make_region

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(machine.gpu() is None, reason="no NVIDIA GPU")]


class Padded(torch.nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.relu(F.conv2d(x, w, b, padding=1))


class Transposed(torch.nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.softmax(F.conv_transpose2d(x, w, b, stride=2, padding=1), 1)


CASES = {
    "padded": (Padded, ((2, 16, 30, 34), (32, 16, 3, 3), (32,)), {"WARPGROUPS": 2, "CONSUMER_GROUPS": 2, "STAGES": 40, "SM_COUNT": 2}),
    "streamed": (Padded, ((2, 64, 18, 20), (64, 64, 3, 3), (64,)), {"WARPGROUPS": 2, "CONSUMER_GROUPS": 1, "STAGES": 3, "SM_COUNT": 2}),
    "channels": (Transposed, ((2, 16, 13, 14), (16, 32, 4, 4), (32,)), {"SM_COUNT": 3}),
}  # fmt: skip


def unit_of(name: str) -> tuple[Task, Unit, list[torch.Tensor]]:
    module, shapes, values = CASES[name]
    torch.manual_seed(0)
    args = [torch.randn(shape) for shape in shapes]
    graph = program_graph(export_program(module().eval(), tuple(args), {}, "test.py"), "test.py")
    region = make_region(graph, [n.name for n in graph.nodes])
    family = family_of(graph, region, "cuda")
    assert family is not None
    facts = Facts(threads=2, bandwidth=4e12, flop_rate=5e13, target="cuda")
    technique = next(
        t for t in family.techniques(graph, region, facts) if t.name == "implicit-gemm-warp-specialized"
    )
    unit = with_values(family.write(graph, region, technique), values)
    source = TaskSource(kind="memory", path=name)
    return (
        Task(name=name, source=source, variants=(Variant(name="main", overrides={}, graph=graph),)),
        unit,
        args,
    )


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_is_right_on_a_gpu(name: str, tmp_path: Path) -> None:
    task, unit, args = unit_of(name)
    build = CudaTarget(tmp_path).build(unit, task.graph, "main")
    assert build.ok, build.diagnostics
    run = deploy(task.graph, [(unit.region, Path(build.library))], "cuda")
    truth = CASES[name][0]()(*(a.double() for a in args))
    for _ in range(3):  # with what the last call left in memory
        (made,) = [t for t in run([a.cuda() for a in args]) if isinstance(t, torch.Tensor)]
        assert (made.cpu().double() - truth).norm() < 1e-3 * truth.norm()


@pytest.mark.parametrize("name", CASES)
def test_compute_sanitizer_finds_nothing(name: str, tmp_path: Path) -> None:
    task, unit, _ = unit_of(name)
    candidate = Candidate(task_id=task.id, target="cuda", units=(unit,))
    with Scratch() as scratch:
        found = sanitize(
            candidate,
            task,
            CudaTarget(tmp_path),
            FakeEvidence(task),
            scratch=scratch,
            cache_dir=tmp_path,
            seed=1,
        )  # type: ignore[arg-type]
    assert set(found.ran) == set(CUDA_TOOLS), found
    assert found.ok, found.findings
