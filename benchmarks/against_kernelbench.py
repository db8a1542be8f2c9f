"""Candidates a minute, ours and KernelBench's own `eval_kernel_against_ref`, on the same kernel and task in one run.

    python benchmarks/against_kernelbench.py KERNELBENCH_CHECKOUT [--candidates 12] [--theirs 2] [--json results/h200/against_kernelbench.json]

The task is level 1, problem 12 (a diagonal matrix times a matrix, 134 MB) at full shape, on a CUDA device. Each of our candidates
differs in a constant, so each is built; KernelBench compiles the same kernel through `load_inline` into an empty folder each time, with
its defaults but five correctness trials and performance measured, as its own scripts do. Opening our judge (baselines, admission) is
paid once a task and given apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from warpsmith import machine
from warpsmith.judge.judge import Judge
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Unit
from warpsmith.targets.cuda import CudaTarget
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region

TASK = "KernelBench/level1/12_Matmul_with_diagonal_matrices_.py"
EVALUATION = "src/kernelbench/eval.py"
KERNEL = """
__global__ void scale_rows(const float* __restrict__ a, const float4* __restrict__ b, float4* __restrict__ o, long n, int columns) {
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x) {
    const float f = a[i / columns];
    const float4 v = b[i];
    o[i] = make_float4(f * v.x, f * v.y, f * v.z, f * v.w);
  }
}
"""
UNIT = (
    """#include "task.h"
"""
    + KERNEL
    + """
__global__ void scale_any(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ o, long n, int columns) {
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x) o[i] = a[i / columns] * b[i];
}
static void unit(const in0_t* in0, const in1_t* in1, out0_t* out0, void*, void* stream) {
  if constexpr (in1_shape[1] % 4 == 0)
    scale_rows<<<BLOCKS, 256, 0, (cudaStream_t)stream>>>(in0, (const float4*)in1, (float4*)out0, in1_numel / 4, in1_shape[1] / 4);
  else
    scale_any<<<BLOCKS, 256, 0, (cudaStream_t)stream>>>(in0, in1, out0, in1_numel, in1_shape[1]);
}
"""
)
MODEL = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
KERNEL
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
  auto o = torch::empty_like(b);
  scale_rows<<<BLOCKS, 256>>>(a.data_ptr<float>(), (const float4*)b.data_ptr<float>(), (float4*)o.data_ptr<float>(), b.numel() / 4, b.size(1) / 4);
  return o;
}
"""
module = load_inline("diagonal_BLOCKS", "torch::Tensor run(torch::Tensor a, torch::Tensor b);", source, functions=["run"])

class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.run(a, b)
'''


def ours(file: Path, count: int, confirm: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name, Scratch() as scratch:
        folder, start = Path(name), time.monotonic()
        task = load_task(str(file), scratch=scratch)
        target = CudaTarget(folder / "cache")
        with Judge(
            task, target, scratch=scratch, workdir=folder / "work", seed=1, peaks_cache=folder
        ) as judge:
            judge.open()
            opened = time.monotonic() - start
            region = make_region(task.graph, [n.name for n in task.graph.nodes])
            wanted = [
                Candidate(task_id=task.id, target="cuda", units=(unit(region, 1056 + i),))
                for i in range(count)
            ]
            begin, stamps = time.monotonic(), []
            results = []
            for result in judge.evaluate(wanted):
                results.append(result)
                stamps.append(time.monotonic())
            seconds = (stamps[-1] - begin) / count
            more = confirmation(judge, wanted[0]) if confirm else {}
    return {
        "seconds_per_candidate": round(seconds, 3), "open_seconds": round(opened, 1), "candidates": count,
        "open_stages": judge.seconds,
        "statuses": sorted({f"{r.status}: {r.reason}" if r.reason else r.status for r in results}),
        "stages": {k: round(statistics.median(r.seconds.get(k, 0.0) for r in results), 3) for k in ("build", "verify", "time")},
        "round_seconds": [round(s - begin, 2) for s in stamps], **more,
    }  # fmt: skip


def confirmation(judge: Judge, candidate: Candidate) -> dict[str, object]:
    """What the whole judgement of one in fresh processes says, and what it takes, fresh baselines included."""
    start = time.monotonic()
    result = judge.confirm(candidate)
    ratios = result.timing.ratios if result.timing else ()
    return {
        "confirm_seconds": round(time.monotonic() - start, 1), "confirmed": result.status, "reason": result.reason,
        "speedup": {r.baseline: [round(r.median, 3), round(r.low, 3), round(r.high, 3)] for r in ratios},
        "isolation": result.verdict.isolation if result.verdict else "",
    }  # fmt: skip


def unit(region: object, blocks: int) -> Unit:
    return Unit(region=region, language="cuda", source=UNIT.replace("BLOCKS", str(blocks)))  # type: ignore[arg-type]


def expect_checkout(root: Path) -> Path:
    """Return the file of the task. Ends the program where KernelBench, or a GPU for it, is missing."""
    missing = [name for name in (TASK, EVALUATION) if not (root / name).is_file()]
    if missing:
        raise SystemExit(f"{root} is no checkout of KernelBench: it has no {missing[0]}")
    if machine.gpu() is None:
        raise SystemExit("KernelBench's evaluation needs an NVIDIA GPU, and there is none here")
    return root / TASK


def theirs(root: Path, file: Path, count: int) -> dict[str, object]:
    """Time KernelBench's own evaluation of so many candidates. Ends the program where it cannot be imported."""
    sys.path.insert(0, str(root / "src"))
    try:
        from kernelbench.eval import eval_kernel_against_ref
    except ImportError as error:
        raise SystemExit(f"KernelBench's evaluation cannot be imported: {error}") from error

    times, answers = [], []
    for i in range(count):
        model = MODEL.replace("KERNEL", KERNEL).replace("BLOCKS", str(2000 + i))
        with tempfile.TemporaryDirectory() as build:
            start = time.monotonic()
            answer = eval_kernel_against_ref(
                file.read_text(),
                model,
                num_correct_trials=5,
                num_perf_trials=100,
                measure_performance=True,
                build_dir=build,
            )
            times.append(time.monotonic() - start)
        answers.append(str(answer)[:300])
    return {"seconds_per_candidate": round(statistics.median(times), 2), "seconds": times, "answers": answers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, help="checkout of KernelBench")
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--theirs", type=int, default=2)
    parser.add_argument(
        "--confirm", action="store_true", help="also confirm one of ours against every baseline"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    file = expect_checkout(options.root)
    report = {
        "task": TASK,
        "gpu": machine.describe(device="cuda").model_dump(),
        "date": time.strftime("%Y-%m-%d"),
    }
    report["ours"] = mine = ours(file, options.candidates, options.confirm)
    print(json.dumps(mine, indent=1), flush=True)
    report["kernelbench"] = other = theirs(options.root, file, options.theirs) if options.theirs else {}
    print(json.dumps(other, indent=1), flush=True)
    if other:
        report["ratio"] = round(
            float(str(other["seconds_per_candidate"])) / float(str(mine["seconds_per_candidate"])), 1
        )
        print(f"{report['ratio']} candidates of ours in the time of one of KernelBench's")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
