"""The torch profiler observer splits the time of a deployed candidate into operators that still run as ATen, and the
remainder, which is units and Python.

A candidate's libraries and a values file in, an `Observation` out. It runs in a process of its own
(`torch_worker.py`), apart from any timing: the profiler slows small calls down, so shares count, not sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..processes.buffers import Scratch
from ..processes.worker import Worker, WorkerDied, WorkerFailed, WorkerTimeout
from ..records import Region, Task
from .observation import Observation, not_available

NAME = "torch profiler"
MODULE = "warpsmith.profile.torch_worker"
TIMEOUT_S = 180.0
MAX_OPERATORS = 12  # operators that are named
NOT_WORK = ("[memory]", "aten::detach", "ProfilerStep", "cudaDeviceSynchronize")


def observe(
    task: Task,
    parts: Sequence[tuple[Region, Path]],
    values: Path,
    *,
    scratch: Scratch,
    threads: int,
    device: str = "cpu",
) -> Observation:
    """Profile the candidate made of `parts` on the main variant's `values`."""
    folder, file = scratch.new("torch-profile"), scratch.new("task")
    file.write_text(task.model_dump_json())
    regions = [[region.model_dump(mode="json"), str(library)] for region, library in parts]
    env = {"OMP_NUM_THREADS": str(threads)}
    try:
        with Worker(MODULE, folder, env=env) as worker:
            answer = worker.call(
                "profile", TIMEOUT_S, task_file=str(file), parts=regions, values=str(values),
                writable=str(folder), threads=threads, device=device,
            )  # fmt: skip
    except (WorkerDied, WorkerFailed, WorkerTimeout) as error:
        return not_available(NAME, str(error))
    finally:
        file.unlink(missing_ok=True)
    return _to_observation(answer)


def _to_observation(answer: dict[str, Any]) -> Observation:
    call_us = float(answer["call_us"])
    host = _rank(answer["host"])
    aten = sum(us for name, (_, us) in host if name.startswith("aten::"))
    metrics = {
        "call us": call_us,
        "in ATen operators us": aten,
        "in units and Python us": max(0.0, call_us - aten),
    }
    metrics |= {f"{name} us": us for name, (_, us) in host[:MAX_OPERATORS]}
    metrics |= {f"{name} us (device)": us for name, (_, us) in _rank(answer["device"])[:MAX_OPERATORS]}
    notes = tuple(f"{name} is called {count:g} times" for name, (count, _) in host if count > 1)
    return Observation(observer=NAME, metrics=metrics, notes=notes[:MAX_OPERATORS])


def _rank(table: dict[str, Any]) -> list[tuple[str, tuple[float, float]]]:
    rows = [(name, (float(row[0]), float(row[1]))) for name, row in table.items()]
    return sorted((r for r in rows if not r[0].startswith(NOT_WORK)), key=lambda r: -r[1][1])
