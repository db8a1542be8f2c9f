"""The ncu observer reads a few hardware counters of a CUDA unit's kernels through Nsight Compute.

A command line that runs the unit in, an `Observation` out. The set is small so that it takes seconds: ncu replays
each kernel a few times, with its caches flushed before (`--cache-control all`, its default) and the clocks left
alone (`--clock-control none`: they belong to whoever else uses the device). Format:
docs.nvidia.com/nsight-compute/NsightComputeCli, "details" page as CSV, one row a kernel and metric.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Collection, Sequence

from .counters import describe_counters
from .observation import Observation, not_available
from .tool_run import run_tool

NAME = "ncu"
TIMEOUT_S = 120.0
MAX_KERNELS = 20
STALLS = (
    "long_scoreboard", "short_scoreboard", "barrier", "wait", "mio_throttle", "lg_throttle", "math_pipe_throttle", "membar",
    "branch_resolving", "no_instruction",
)  # fmt: skip
METRICS = {
    "gpu__time_duration.sum": "time ns",
    "dram__bytes.sum": "DRAM bytes",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM throughput %",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM throughput %",
    "lts__t_sector_hit_rate.pct": "L2 hit rate %",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "achieved occupancy %",
    "launch__registers_per_thread": "registers per thread",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active": "tensor pipe %",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "shared-memory bank conflicts",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": "sectors per global load",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio": "sectors per global store",
    "launch__occupancy_limit_registers": "blocks by registers",
    "launch__occupancy_limit_shared_mem": "blocks by shared memory",
    "launch__occupancy_limit_warps": "blocks by warps",
    "launch__occupancy_limit_blocks": "blocks by block slots",
    **{
        f"smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio": f"stall {stall}"
        for stall in STALLS
    },
}

BASIC = tuple(METRICS)[:7]  # that every ncu and GPU knows


def observe(program: Sequence[str], subject: str = "") -> Observation:
    """Run `program` under ncu: a command that runs the kernels once; see `harness.Call.command`."""
    tool = shutil.which("ncu")
    if tool is None:
        return not_available(NAME, "ncu is not installed (Nsight Compute)", subject)
    tool_run = run_tool(command(tool, program), TIMEOUT_S)
    values_by_kernel = parse(tool_run.output)
    if not values_by_kernel and "metric" in _find_error(tool_run.output).lower():
        tool_run = run_tool(command(tool, program, BASIC), TIMEOUT_S)
        values_by_kernel = parse(tool_run.output)
    if not values_by_kernel:
        return not_available(
            NAME, _find_error(tool_run.output) or f"no counters; ncu ended with {tool_run.how}", subject
        )
    metrics = {
        f"{name}, {kernel}": value
        for kernel, values in values_by_kernel.items()
        for name, value in values.items()
    }
    notes = (
        f"{kernel}: {line}"
        for kernel, values in values_by_kernel.items()
        for line in describe_counters(values)
    )
    return Observation(observer=NAME, subject=subject, metrics=metrics, notes=tuple(notes))


def command(tool: str, program: Sequence[str], metrics: Collection[str] = tuple(METRICS)) -> list[str]:
    options = [
        "--csv",
        "--print-units",
        "base",
        "--clock-control",
        "none",
        "--launch-count",
        str(MAX_KERNELS),
    ]
    return [tool, *options, "--metrics", ",".join(metrics), *program]


def parse(output: str) -> dict[str, dict[str, float]]:
    """Return kernel → metric → value; a kernel launched again has its own entry ("name #2"). Rows that are no numbers are
    left out, and so is the text before the table.
    """
    lines = output.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    launches: dict[str, list[str]] = {}  # kernel → ids of its launches
    values_by_kernel: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(lines[start:]):
        metric = METRICS.get(row.get("Metric Name") or "")
        value = _parse_number(row.get("Metric Value") or "")
        if metric is None or value is None:
            continue
        kernel = (row.get("Kernel Name") or "kernel").partition("(")[0].strip()
        ids = launches.setdefault(kernel, [])
        if row["ID"] not in ids:
            ids.append(row["ID"])
        launch_number = ids.index(row["ID"]) + 1
        values_by_kernel.setdefault(kernel if launch_number == 1 else f"{kernel} #{launch_number}", {})[
            metric
        ] = value
    return values_by_kernel


def _parse_number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _find_error(output: str) -> str:
    """Return the first error that ncu prints: often that counters are for administrators only (ERR_NVGPUCTRPERM)."""
    errors = (line for line in output.splitlines() if line.startswith("==ERROR=="))
    return next(errors, "").removeprefix("==ERROR==").strip()[:200]
