"""The kernels of attention beside torch's: FlashAttention-2 and cuDNN, as `scaled_dot_product_attention` has them.

In: shapes below, in bfloat16; nvcc, and for `time` a GPU. Out: JSON, a row a shape: microseconds of each kernel at its schedule's own values, medians of calls in turn, each after
the L2 cache was read full of other data; TFLOP/s (a diagonal counts half); how far the result is from torch's in the Frobenius norm. **No judge takes part.**

    python lab/attention_kernels.py build FOLDER [--arch sm_90a] [--device "NVIDIA H200"]
    python lab/attention_kernels.py time FOLDER OUT.json [--calls 30]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import pickle
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from dependent_launch import write_report
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention

from warpsmith.facts import Facts, local_facts
from warpsmith.kernels.attention.cuda.cuda_attention import CudaAttention
from warpsmith.records import Graph, Unit
from warpsmith.targets.cuda import CudaTarget
from warpsmith.tasks.export import export_program, program_graph

# name → batch, heads, heads of keys, tokens, features, whether a row sees what is before it alone
SHAPES = {
    "2k causal, 128 features": (1, 32, 8, 2048, 128, True),
    "8k causal, 128 features": (1, 32, 8, 8192, 128, True),
    "4k, 128 features": (1, 16, 16, 4096, 128, False),
    "4k causal, 64 features": (4, 16, 16, 4096, 64, True),
    "197 tokens, 64 features": (32, 12, 12, 197, 64, False),
}
SWEEPS = 8  # of memory before a call, for some 0.3 ms: the host launches the call meanwhile
LIBRARIES = {"FlashAttention-2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
Shape = tuple[int, int, int, int, int, bool]


class Attention(torch.nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return attention(query, key, value, is_causal=self.causal, enable_gqa=True)


def draw(shape: Shape, device: str) -> list[torch.Tensor]:
    batch, heads, groups, tokens, features, _ = shape
    sizes = [(batch, h, tokens, features) for h in (heads, groups, groups)]
    return [torch.randn(size, device=device, dtype=torch.bfloat16) for size in sizes]


def build(folder: Path, arch: str, device: str) -> None:
    facts, target = (
        replace(local_facts("cuda"), arch=arch, device=device),
        CudaTarget(folder / "cache", arch=arch),
    )
    units = [(name, *pair) for name, shape in SHAPES.items() for pair in write(shape, facts)]
    with ThreadPoolExecutor(2) as pool:
        builds = list(pool.map(lambda made: target.build(made[2], made[1], "main"), units))
    rows: dict[str, list[tuple[str, dict[str, int], bytes]]] = {}
    for (name, _, unit), done in zip(units, builds, strict=True):
        if not done.ok:
            raise SystemExit(f"{name}: {[d.message for d in done.diagnostics][:3]}")
        print(f"{name}: {unit.technique}, {unit.values}", flush=True)
        content = Path(str(done.library)).read_bytes()
        rows.setdefault(name, []).append((unit.technique, dict(unit.values), content))
    (folder / "attention.pickle").write_bytes(pickle.dumps(rows))


def write(shape: Shape, facts: Facts) -> list[tuple[Graph, Unit]]:
    """Both kernels, at their schedules' own values."""
    exported = export_program(Attention(shape[-1]), draw(shape, "cpu"), {}, __file__)
    graph, family = program_graph(exported, __file__), CudaAttention()
    node = next(n for n in graph.nodes if family.covers(graph, n))
    region = family.cut(graph, node, (), True)
    assert region is not None
    return [(graph, family.write(graph, region, t)) for t in family.techniques(graph, region, facts)]


def measure(
    folder: Path, name: str, kernels: list[tuple[str, dict[str, int], bytes]], calls: int
) -> dict[str, Any]:
    shape = SHAPES[name]
    torch.manual_seed(0)
    operands, causal = draw(shape, "cuda"), shape[-1]
    runs: dict[str, Callable[[], Any]] = {}
    for library, backend in LIBRARIES.items():
        runs[library] = lambda backend=backend: _run_library(operands, causal, backend)
    results = {}
    for technique, _, content in kernels:
        results[technique] = torch.full_like(operands[0], torch.nan)
        path = folder / f"{technique}.{abs(hash(name))}.so"
        path.write_bytes(content)
        runs[technique] = _open(path, operands, results[technique])
    times = _in_turn(runs, calls)
    truth = _run_library(operands, causal, SDPBackend.CUDNN_ATTENTION).float()
    batch, heads, _, tokens, features, _ = shape
    flops = 4 * batch * heads * tokens**2 * features * (0.5 if causal else 1.0)
    return {
        "shape": name, "us": {k: round(statistics.median(v), 1) for k, v in times.items()},
        "tflops": {k: round(flops / statistics.median(v) / 1e6) for k, v in times.items()},
        "values": {technique: values for technique, values, _ in kernels},
        "distance": {k: float(f"{(r.float() - truth).norm() / truth.norm():.1e}") for k, r in results.items()},
    }  # fmt: skip


def _run_library(operands: list[torch.Tensor], causal: bool, backend: SDPBackend) -> torch.Tensor:
    with sdpa_kernel(backend):
        return attention(*operands, is_causal=causal, enable_gqa=True)


def _open(path: Path, operands: list[torch.Tensor], result: torch.Tensor) -> Callable[[], Any]:
    run = ctypes.CDLL(str(path)).warpsmith_run
    inputs = (ctypes.c_void_p * 3)(*(t.data_ptr() for t in operands))
    outputs = (ctypes.c_void_p * 1)(result.data_ptr())
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def call() -> None:
        if run(inputs, outputs, None, stream) != 0:
            raise SystemExit(f"{path.name} was not launched")

    return call


def _in_turn(runs: dict[str, Callable[[], Any]], calls: int) -> dict[str, list[float]]:
    evicted = torch.ones(torch.cuda.get_device_properties(0).L2_cache_size, device="cuda").expand(SWEEPS, -1)
    times: dict[str, list[float]] = {label: [] for label in runs}
    for number in range(calls + 3):
        for label, run in runs.items():
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            evicted.sum()
            first.record()
            run()
            last.record()
            torch.cuda.synchronize()
            if number >= 3:
                times[label].append(first.elapsed_time(last) * 1e3)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("build", "time"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", nargs="?", type=Path, help="the file of the outcome")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--device", default="NVIDIA H200")
    parser.add_argument("--calls", type=int, default=30)
    options = parser.parse_args()
    if options.command == "build":
        options.folder.mkdir(parents=True, exist_ok=True)
        build(options.folder, options.arch, options.device)
        return 0
    rows = []
    for name, kernels in pickle.loads((options.folder / "attention.pickle").read_bytes()).items():
        rows.append(measure(options.folder, name, kernels, options.calls))
        print(json.dumps(rows[-1]), flush=True)
    write_report(options.out, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
