"""A few named hardware counters of a CUDA unit's kernels, through Nsight Compute.

A command line that runs the unit in, an `Observation` out. The set is small so that it takes seconds: ncu replays
each kernel a few times, with its caches flushed before (`--cache-control all`, its default) and the clocks left
alone (`--clock-control none`: they belong to whoever else uses the device). Format:
docs.nvidia.com/nsight-compute/NsightComputeCli, "details" page as CSV, one row a kernel and metric.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence

from .base import Observation, not_available, run_tool

NAME = "ncu"
TIMEOUT = 120.0
MOST_KERNELS = 20
METRICS = {
    "gpu__time_duration.sum": "time ns",
    "dram__bytes.sum": "DRAM bytes",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM throughput %",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM throughput %",
    "lts__t_sector_hit_rate.pct": "L2 hit rate %",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "achieved occupancy %",
    "launch__registers_per_thread": "registers per thread",
}


def observe(program: Sequence[str], subject: str = "") -> Observation:
    """`program`: a command that runs the kernels once; see `harness.Call.command`."""
    tool = shutil.which("ncu")
    if tool is None:
        return not_available(NAME, "ncu is not installed (Nsight Compute)", subject)
    ended = run_tool(command(tool, program), TIMEOUT)
    found = parse(ended.output)
    if not found:
        return not_available(NAME, _why(ended.output) or f"no counters; ncu ended with {ended.how}", subject)
    metrics = {
        f"{name}, {kernel}": value for kernel, values in found.items() for name, value in values.items()
    }
    return Observation(observer=NAME, subject=subject, metrics=metrics)


def command(tool: str, program: Sequence[str]) -> list[str]:
    options = [
        "--csv",
        "--print-units",
        "base",
        "--clock-control",
        "none",
        "--launch-count",
        str(MOST_KERNELS),
    ]
    return [tool, *options, "--metrics", ",".join(METRICS), *program]


def parse(output: str) -> dict[str, dict[str, float]]:
    """Kernel → metric → value; a kernel launched again is counted apart ("name #2"). Rows that are no numbers are
    left out, and so is what stands before the table.
    """
    lines = output.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    launches: dict[str, list[str]] = {}  # kernel → ids of its launches
    found: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(lines[start:]):
        metric = METRICS.get(row.get("Metric Name") or "")
        value = _number(row.get("Metric Value") or "")
        if metric is None or value is None:
            continue
        kernel = (row.get("Kernel Name") or "kernel").partition("(")[0].strip()
        ids = launches.setdefault(kernel, [])
        if row["ID"] not in ids:
            ids.append(row["ID"])
        place = ids.index(row["ID"]) + 1
        found.setdefault(kernel if place == 1 else f"{kernel} #{place}", {})[metric] = value
    return found


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _why(output: str) -> str:
    """ncu's own first error: often that counters are for administrators only (ERR_NVGPUCTRPERM)."""
    errors = (line for line in output.splitlines() if line.startswith("==ERROR=="))
    return next(errors, "").removeprefix("==ERROR==").strip()[:200]
