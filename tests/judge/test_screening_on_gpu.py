"""Screening on a real GPU: what crashes, hangs or writes where it must not costs itself, and nothing of it is left."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import psutil
import pytest
import torch

from warpsmith.judge.screening import ScreeningJudge
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Unit
from warpsmith.targets.cuda import CudaTarget
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here"),
]
TASK = """
import torch
ROWS = 512
DIM = 1000
VARIANTS = {"ragged": {"ROWS": 5, "DIM": 67}}
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2.0 + 1.0
def get_inputs():
    return [torch.rand(ROWS, DIM)]
def get_init_inputs():
    return []
"""
UNIT = """// warpsmith-unit: 1
#include "task.h"
__global__ void kernel(const float* x, float* y) {
  const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  FAULT
  if (i < in0_numel) y[i] = tanhf(x[i]) * 2.0f + 1.0f;
}
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {
  kernel<<<(unsigned)((in0_numel + THREADS - 1) / THREADS), THREADS, 0, (cudaStream_t)stream>>>(in0, out0);
}
"""
FAULTS = {
    "crashed": "if (i == 0) *(volatile float*)8 = 1.0f;",
    "timeout": "while (*(const volatile float*)x > -9.0f) ;",
    "incorrect": "if (i == 0) y[in0_numel + 3] = 1.0f;",
}
GOOD_EACH, BAD_EACH = 9, 1  # in one batch, for each kind of fault


def make_candidate(judge: ScreeningJudge, threads: int, fault: str = "") -> Candidate:
    region = make_region(judge.task.graph, [n.name for n in judge.task.graph.nodes])
    source = re.sub("THREADS", str(threads), UNIT).replace("FAULT", fault)
    unit = Unit(region=region, language="cuda", source=source)
    return Candidate(task_id=judge.task.id, target="cuda", units=(unit,))


def test_faults_cost_themselves(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK)
    with Scratch() as scratch:
        task = load_task(str(tmp_path / "task.py"), scratch=scratch)
        judge = ScreeningJudge(
            task, CudaTarget(tmp_path / "cache"), scratch=scratch, workdir=tmp_path / "work", seed=7,
            baselines=("eager",), peaks_cache=tmp_path / "cache",
        )  # fmt: skip
        with judge:
            judge.begin()
            before = {p.pid for p in psutil.Process().children(recursive=True)}
            batch, expected = [], []
            for number, (status, fault) in enumerate(FAULTS.items()):
                for step in range(GOOD_EACH):
                    batch.append(make_candidate(judge, 32 * (1 + number * GOOD_EACH + step)))
                batch += [make_candidate(judge, 64, fault)] * BAD_EACH
                expected += ["screened"] * GOOD_EACH + [status] * BAD_EACH
            results = list(judge.screen(batch))
            assert Counter(r.status for r in results) == Counter(expected)
            assert [r.status for r in results] == expected
            assert all(r.speedup is None for r in results)
            after = {p.pid for p in psutil.Process().children(recursive=True)}
            assert after <= before
            judge.complete()
            (verdict,) = judge.evaluate([batch[0]])
            assert verdict.status == "ok"
            assert verdict.speedup is not None
