"""A captured workload as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..progress import counted
from .regions import LEAST_SHARE, LayerRegion

if TYPE_CHECKING:
    from .recording import Workload

COLUMNS = ("", "layer", "equal", "calls", "inputs", "mode", "time", "share", "limit", "gain", "why not")
WIDEST = {"layer": 44, "inputs": 40, "why not": 70}  # characters of a cell


def describe_workload(workload: Workload) -> str:
    """Write what ran as a table, the chosen regions first and marked."""
    shown = [r for r in workload.regions if r.chosen or r.share >= LEAST_SHARE]
    lines = [
        f"{workload.model} on {workload.device}: {counted(workload.calls, 'call')}, {format_time(workload.seconds)}",
        *workload.notes,
        *align([COLUMNS, *map(list_cells, shown)]),
    ]
    if len(shown) < len(workload.regions):
        lines.append(
            f"and {len(workload.regions) - len(shown)} more, each below {LEAST_SHARE:.0%} of the time"
        )
    if workload.chosen:
        tasks = counted(len(workload.chosen), "task")
        lines.append(f"* chosen: {tasks}; predicted for the whole model: {workload.gain:.2f}x")
    else:
        lines.append("nothing is chosen: no region can be a task and has room to its limit")
    return "\n".join(lines)


def list_cells(region: LayerRegion) -> tuple[str, ...]:
    """Write one region as the cells of a row."""
    mode = "train" if region.training else "eval"
    mode += ", grad" if region.gradients else ""
    mode += f", autocast {region.autocast}" if region.autocast else ""
    has_limit = region.limit is not None
    return (
        "*" if region.chosen else "",
        _cut(f"{region.kind} {region.paths[0]}".strip(), "layer"),
        str(region.count),
        str(region.calls),
        _cut(" ".join(region.inputs), "inputs"),
        mode,
        format_time(region.seconds),
        f"{region.share:.1%}",
        f"{region.limit_share:.0%}" if has_limit else "",
        f"{region.gain:.2f}x" if has_limit else "",
        _cut(region.reason, "why not"),
    )


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the columns of a table; "-" stands for an empty cell, but in the first column."""
    filled = [[row[0] or " ", *(cell or "-" for cell in row[1:])] for row in rows]
    widths = [max(len(row[i]) for row in filled) for i in range(len(rows[0]))]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in filled]


def format_time(seconds: float) -> str:
    """Write a time with a unit that suits it."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


def _cut(text: str, column: str) -> str:
    widest = WIDEST[column]
    return text if len(text) <= widest else text[: widest - 1] + "…"
