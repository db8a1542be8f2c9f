"""Where the time of a whole candidate goes, as deployed: operators that still run as ATen, and the rest, which is
units and Python.

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
from .base import Observation, not_available

NAME = "torch profiler"
MODULE = "warpsmith.profile.torch_worker"
TIMEOUT = 180.0
MOST = 12  # operators that are named
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
    """The candidate made of `parts` on the main variant's `values`."""
    folder, file = scratch.new("torch-profile"), scratch.new("task")
    file.write_text(task.model_dump_json())
    regions = [[region.model_dump(mode="json"), str(library)] for region, library in parts]
    env = {"OMP_NUM_THREADS": str(threads)}
    try:
        with Worker(MODULE, folder, env=env) as worker:
            answer = worker.call(
                "profile", TIMEOUT, task_file=str(file), parts=regions, values=str(values),
                writable=str(folder), threads=threads, device=device,
            )  # fmt: skip
    except (WorkerDied, WorkerFailed, WorkerTimeout) as error:
        return not_available(NAME, str(error))
    finally:
        file.unlink(missing_ok=True)
    return _observation(answer)


def _observation(answer: dict[str, Any]) -> Observation:
    call_us = float(answer["call_us"])
    host = _ranked(answer["host"])
    aten = sum(us for name, (_, us) in host if name.startswith("aten::"))
    metrics = {
        "call us": call_us,
        "in ATen operators us": aten,
        "in units and Python us": max(0.0, call_us - aten),
    }
    metrics |= {f"{name} us": us for name, (_, us) in host[:MOST]}
    metrics |= {f"{name} us (device)": us for name, (_, us) in _ranked(answer["device"])[:MOST]}
    notes = tuple(f"{name} is called {count:g} times" for name, (count, _) in host if count > 1)
    return Observation(observer=NAME, metrics=metrics, notes=notes[:MOST])


def _ranked(table: dict[str, Any]) -> list[tuple[str, tuple[float, float]]]:
    rows = [(name, (float(row[0]), float(row[1]))) for name, row in table.items()]
    return sorted((r for r in rows if not r[0].startswith(NOT_WORK)), key=lambda r: -r[1][1])
