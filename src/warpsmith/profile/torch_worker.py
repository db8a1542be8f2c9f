"""An untrusted process that runs one candidate as deployed under torch's profiler.

One request, `profile`: a task's file, the regions with their libraries, a values file. The answer names, for each
operator, its calls and its own microseconds a call of the candidate; time in units is what no operator accounts for.
On CUDA the process is not confined, because the profiler's own library talks to the driver.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import torch
from torch.profiler import ProfilerActivity, profile

from ..processes.sandbox import restrict
from ..processes.worker import serve
from ..records import Region, Task
from ..runtime.deployed import deploy
from ..runtime.tensors import open_tensors

WARMUP, CALLS = 3, 5


def run(
    task_file: str, parts: list[Any], values: str, writable: str, threads: int, device: str
) -> dict[str, Any]:
    """Return operators by name, median microseconds of an unprofiled call, and on CUDA the kernels by name."""
    if device == "cpu":
        restrict([Path(writable)], memory_bytes=psutil.virtual_memory().available)
    torch.set_num_threads(threads)
    task = Task.model_validate_json(Path(task_file).read_text())
    graph = task.graph
    tensors = open_tensors(Path(values), [i.spec for i in graph.inputs], writable=False)
    inputs = [t.clone().to(device) for t in tensors]
    units = [(Region.model_validate(region), Path(library)) for region, library in parts]
    call = deploy(graph, units, device)
    with torch.no_grad():
        call_seconds = [_time_call(lambda: call(inputs), device) for _ in range(WARMUP + CALLS)][WARMUP:]
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
        with profile(activities=activities) as profiler:
            for _ in range(CALLS):
                call(inputs)
            _finish(device)
    averages = profiler.key_averages()
    host = {
        e.key: [e.count / CALLS, e.self_cpu_time_total / CALLS] for e in averages if e.self_cpu_time_total > 0
    }
    on_device = {
        e.key: [e.count / CALLS, e.self_device_time_total / CALLS]
        for e in averages
        if e.self_device_time_total > 0
    }
    return {"call_us": median(call_seconds) * 1e6, "host": host, "device": on_device}


def _time_call(call: Any, device: str) -> float:
    start = time.perf_counter()
    call()
    _finish(device)
    return time.perf_counter() - start


def _finish(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    serve({"profile": run})
