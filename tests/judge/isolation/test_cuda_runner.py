"""Units on a real GPU: what the verifier says of honest and of misbehaving ones, and that nothing outlives a
fault. The runner's protocol and confinement without a GPU are in `test_cuda_confinement.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from warpsmith.judge.building import build_all
from warpsmith.judge.correctness.evidence import Case, Evidence, Expected
from warpsmith.judge.correctness.input_families import OWN
from warpsmith.judge.correctness.verify import Limits, Verification, Verifier
from warpsmith.judge.correctness.workers import Workers
from warpsmith.judge.isolation.cuda_runner import LEVELS, CudaRunner, probe
from warpsmith.judge.isolation.runner import ENDINGS
from warpsmith.judge.isolation.runner_program import cuda_runner_program
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Task, Unit
from warpsmith.targets.cuda import CudaTarget
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here"),
]
TASK = """
import torch
ROWS = 12
DIM = 1000
VARIANTS = {"ragged": {"ROWS": 5, "DIM": 67}}
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x + torch.arange(x.shape[1]) * 0.001, dim=1)
def get_inputs():
    return [torch.rand(ROWS, DIM)]
def get_init_inputs():
    return []
"""
UNIT = """// warpsmith-unit: 1
#define WORKSPACE_BYTES 64
#include "task.h"
#include <cuda_fp16.h>
static constexpr int64_t ROWS = in0_shape[0], COLUMNS = in0_shape[1];
__global__ void softmax(const float* x, float* y, float* work) {
  const int64_t r = blockIdx.x;
  const float* a = x + r * COLUMNS;
  float* o = y + r * COLUMNS;
  float m = -INFINITY, s = 0;
  for (int64_t i = 0; i < COLUMNS; i++) m = fmaxf(m, a[i] + 0.001f * (float)i);
  for (int64_t i = 0; i < COLUMNS; i++) s += o[i] = expf(a[i] + 0.001f * (float)i - m);
  for (int64_t i = 0; i < COLUMNS; i++) o[i] /= s;
  BUG
}
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {
  softmax<<<(unsigned)ROWS, 1, 0, STREAM>>>(in0, out0, (float*)workspace);
}
"""
STREAM = "(cudaStream_t)stream"
FIRST = "if (r == 0) "
ITERATIONS = 450_000  # of a dependent multiply-add, 4 cycles each: about a millisecond


@dataclass
class Bench:
    task: Task
    target: CudaTarget
    verifier: Verifier
    evidence: Evidence
    cases: list[Case]

    def candidate(self, bug: str = "", stream: str = STREAM) -> Candidate:
        region = make_region(self.task.graph, [n.name for n in self.task.graph.nodes])
        source = UNIT.replace("BUG", bug).replace("STREAM", stream)
        unit = Unit(region=region, language="cuda", source=source)
        return Candidate(task_id=self.task.id, target="cuda", units=(unit,))

    def library(self, candidate: Candidate) -> Path:
        built = build_all([candidate], self.task, self.target)[0]
        assert built.status == "ok", built.reason
        return Path(built.libraries["main", candidate.units[0].code_key].library)

    def verify(self, bug: str = "", stream: str = STREAM) -> Verification:
        candidate = self.candidate(bug, stream)
        built = build_all([candidate], self.task, self.target)[0]
        assert built.status == "ok", built.reason
        return self.verifier.verify(candidate, built.libraries, self.cases, timed=2)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder: Path = tmp_path_factory.mktemp("cuda")
    (folder / "softmax.py").write_text(TASK)
    with Scratch() as scratch:
        task = load_task(str(folder / "softmax.py"), scratch=scratch)
        with Workers(task, scratch, threads=2, device="cuda") as workers:
            evidence = Evidence(task, workers, scratch, own_seed=1, capacity=1 << 28)
            limits = Limits(timeout=3.0, memory_bytes=1 << 29, threads=2)
            cases = [Case("main", f, 3) for f in ("own", "normal")] + [Case("ragged", "large", 3)]
            verifier = Verifier(task, evidence, scratch, limits)
            yield Bench(task, CudaTarget(folder / "cache"), verifier, evidence, cases)


def test_every_level_of_confinement_lets_the_gpu_work(bench: Bench) -> None:
    """If the strictest fails, the runner takes the next and says so in `isolation`; here we want to know. A
    kernel that lacks a part is another matter.
    """
    program = cuda_runner_program(bench.target.cache.directory)
    found = {level: probe(program, level) for level in LEVELS}
    assert set(found.values()) <= {"", ENDINGS[62]}, (
        f"level (1 Landlock, 2 seccomp) → why the GPU did not work: {found}"
    )


def test_an_honest_unit_passes(bench: Bench) -> None:
    found = bench.verify()
    assert found.ok, found.reason
    assert [c.family for c in found.checks] == ["own", "normal", "large"]
    assert all(0 < c.error < 1 for c in found.checks), found.checks
    assert found.isolation.startswith("device copies+"), found.isolation
    assert 1 < next(iter(found.unit_us.values())) < 1e5, found.unit_us


@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        (FIRST + "y[3] = 0;", "budget"),
        (FIRST + "y[ROWS * COLUMNS] = 1;", "guard"),
        (FIRST + "y[-5] = 1;", "guard"),
        (FIRST + "work[16] = 1;", "guard"),
        (FIRST + "((float*)x)[3] = 7;", "input-mutated"),
        (FIRST + "y[0] = (float)((unsigned long long)x / 64 % 128);", "nondeterministic"),
        ("for (int i = 0; i < COLUMNS; i++) o[i] = __half2float(__float2half(o[i]));", "budget"),
    ],
)
def test_a_misbehaving_unit_is_incorrect(bench: Bench, bug: str, rule: str) -> None:
    found = bench.verify(bug)
    assert found.status == "incorrect", (found.status, found.reason)
    failed = next(c for c in found.checks if not c.ok)
    assert failed.rule == rule, failed


def test_what_is_never_written_keeps_the_poison(bench: Bench) -> None:
    candidate = bench.candidate()
    source = candidate.units[0].source.replace("<<<(unsigned)ROWS", "<<<(unsigned)ROWS - 1")
    unit = candidate.units[0].model_copy(update={"source": source})
    candidate = candidate.model_copy(update={"units": (unit,)})
    built = build_all([candidate], bench.task, bench.target)[0]
    found = bench.verifier.verify(candidate, built.libraries, bench.cases)
    assert (found.status, found.checks[-1].rule) == ("incorrect", "nan-poison"), found.reason


@pytest.mark.parametrize("stream", ["0", "(cudaStream_t)2"])
def test_work_on_another_stream_is_incorrect(bench: Bench, stream: str) -> None:
    found = bench.verify(stream=stream)
    assert found.status == "incorrect", (found.status, found.reason)


def test_after_a_fault_the_next_unit_has_a_clean_context(bench: Bench) -> None:
    found = bench.verify(FIRST + "y[1ll << 40] = 1;")
    assert found.status == "crashed", (found.status, found.reason)
    assert "illegal memory access was encountered (CUDA error 700)" in found.reason
    assert bench.verify().ok


def test_after_a_hang_the_next_unit_runs(bench: Bench) -> None:
    found = bench.verify("while (((volatile const float*)x)[0] > -1e30f) {}")
    assert found.status == "timeout", (found.status, found.reason)
    after = bench.verify()
    assert after.ok, after.reason


@pytest.mark.parametrize("cold", [False, True])
def test_events_and_the_host_clock_agree(bench: Bench, cold: bool) -> None:
    slow = f"float v = s; for (int i = 0; i < {ITERATIONS}; i++) v = fmaf(v, 0.999f, 0.1f); work[r % 16] = v;"
    library = bench.library(bench.candidate(slow))
    specs = bench.task.graph.specs
    region = bench.candidate().units[0].region
    inputs, outputs = ([specs[n] for n in names] for names in (region.inputs, region.outputs))
    expected = bench.evidence.region(bench.cases[0], region)
    with CudaRunner(
        library,
        inputs,
        outputs,
        scratch=bench.verifier.scratch,
        threads=1,
        timeout=10.0,
        memory_bytes=1 << 28,
    ) as runner:
        runner.run(expected.inputs, 0)
        runner.batch(3, cold)
        batch = runner.batch(30, cold)
        told = f"median {np.median(batch.ns) / 1e3:.1f} µs, sum {sum(batch.ns) / 1e6:.2f} ms, host "
        told += f"{batch.host * 1e3:.2f} ms, supervisor {batch.wall * 1e3:.2f} ms"
    assert 3e5 < np.median(batch.ns) < 5e6, told
    assert batch.host <= batch.wall, told
    assert (0.6 if cold else 0.85) < sum(batch.ns) * 1e-9 / batch.host <= 1, told


def test_the_truth_is_the_same_on_both_devices(bench: Bench) -> None:
    """Values made on the device by the graph itself (arange) included. Of the task's own inputs: those of families are drawn
    on the device, other ones on each kind.
    """
    region = bench.candidate().units[0].region
    with Workers(bench.task, bench.verifier.scratch, threads=2) as workers:
        here = Evidence(bench.task, workers, bench.verifier.scratch, own_seed=1, capacity=1 << 28)
        own = [case for case in bench.cases if case.family == OWN]
        assert own
        for case in own:
            one, two = (_truth(e.region(case, region)) for e in (here, bench.evidence))
            assert np.allclose(one[0], two[0], rtol=1e-12, atol=0), case
            assert np.allclose(one[1], two[1], rtol=1e-4, atol=1e-30), case


def _truth(expected: Expected) -> tuple[np.ndarray, np.ndarray]:
    truth = expected.tolerances[0].truth
    return np.asarray(truth.oracle), np.asarray(truth.native)
