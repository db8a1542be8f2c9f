"""Hardware counters as sentences: what a kernel waits for, and what limits how many blocks fit.

In: the metrics of one kernel, by the names that `ncu.py` gives them, perhaps those of its parent's. Out: lines, the most telling first. What was
not measured is not mentioned.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

STALL = "stall "
MEANING: Mapping[str, str] = MappingProxyType({
    "long_scoreboard": "loads from global or local memory", "short_scoreboard": "shared memory, or special functions",
    "barrier": "__syncthreads", "wait": "fixed latency of the instruction before", "mio_throttle": "the queue to shared memory",
    "lg_throttle": "the queue to global memory", "math_pipe_throttle": "a busy arithmetic pipe", "membar": "a memory fence",
    "branch_resolving": "branches", "no_instruction": "instruction fetch",
})  # fmt: skip
MIN_STALL = 0.5  # warps an issue, from which on a stall is named
MANY_SECTORS = 8.0  # a load of 4 bytes a thread, side by side, takes 4 sectors; one of 16 bytes takes 16
BLOCKS = "blocks by "


def describe_counters(metrics: Mapping[str, float], parent: Mapping[str, float] | None = None) -> list[str]:
    lines = [
        *_describe_stalls(metrics),
        *_describe_use(metrics),
        *_describe_access(metrics),
        *_describe_occupancy(metrics),
    ]
    return lines + (_describe_change(metrics, parent) if parent else [])


def _describe_stalls(metrics: Mapping[str, float]) -> list[str]:
    stalls = {name.removeprefix(STALL): value for name, value in metrics.items() if name.startswith(STALL)}
    worst = sorted((s for s in stalls.items() if s[1] >= MIN_STALL), key=lambda item: -item[1])[:3]
    return [
        f"waits for {MEANING.get(name, name)} ({name}: {value:.1f} stalled warps an issue)"
        for name, value in worst
    ]


def _describe_use(metrics: Mapping[str, float]) -> list[str]:
    shares = {
        "tensor pipe %": "of the tensor pipe",
        "SM throughput %": "of the multiprocessors",
        "DRAM throughput %": "of DRAM",
    }
    used = [f"{metrics[name]:.0f}% {text}" for name, text in shares.items() if name in metrics]
    return [f"uses {', '.join(used)}"] if used else []


def _describe_access(metrics: Mapping[str, float]) -> list[str]:
    lines: list[str] = []
    if metrics.get("shared-memory bank conflicts", 0) > 0:
        lines.append(f"{metrics['shared-memory bank conflicts']:,.0f} bank conflicts in shared memory")
    for kind in ("load", "store"):
        sectors = metrics.get(f"sectors per global {kind}")
        if sectors is not None:
            remark = ": uncoalesced, unless each thread takes 16 bytes" if sectors > MANY_SECTORS else ""
            lines.append(f"{sectors:.1f} sectors a global {kind}{remark}")
    return lines


def _describe_occupancy(metrics: Mapping[str, float]) -> list[str]:
    limits = {name.removeprefix(BLOCKS): value for name, value in metrics.items() if name.startswith(BLOCKS)}
    if not limits:
        return []
    limiter = min(limits, key=lambda name: limits[name])
    occupancy = (
        f", {metrics['achieved occupancy %']:.0f}% of warps active"
        if "achieved occupancy %" in metrics
        else ""
    )
    return [f"{limits[limiter]:.0f} blocks fit a multiprocessor, limited by {limiter}{occupancy}"]


def _describe_change(metrics: Mapping[str, float], parent: Mapping[str, float]) -> list[str]:
    """The counters that differ most from the parent's, by factor."""
    names = [
        n
        for n in ("time ns", "DRAM bytes", "shared-memory bank conflicts", "registers per thread")
        if n in metrics and n in parent
    ]
    changes = [
        f"{name} {parent[name]:,.0f} to {metrics[name]:,.0f}"
        for name in names
        if metrics[name] != parent[name]
    ]
    return [f"against its parent: {', '.join(changes)}"] if changes else []


__all__ = ["describe_counters"]
