"""What the page of `inner_loop.py` says of its searches beside others: published rows of the same tasks, and repeats of one task.

A search counts by its speedup over its best baseline, the one over which it gains least; one that ends without a candidate counts as 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from json_lines import known_lines
from pages import list_table

from warpsmith.judge.timing.stats import geometric_mean
from warpsmith.records import RunSummary
from warpsmith.records.intervals import find_point

Row = dict[str, Any]
LEAST_SHARE = 0.97  # of a published speedup: below it a search has lost what was known
SPREAD = 1.05  # largest over smallest speedup of one task's runs


def read_published(file: Path) -> dict[str, Row]:
    """Read rows of a campaign, by their task's file without its ending; those at sizes other than KernelBench's own, and those that were not searched, are left out."""
    return {Path(row["file"]).stem: row for row in known_lines(file) if row.get("overrides") == {}}


def find_speedup(summary: RunSummary) -> float:
    """Return the speedup over the best baseline."""
    ratios = summary.best.ratios if summary.best is not None else ()
    return min(map(find_point, ratios), default=1.0)


def find_published_speedup(row: Row) -> float:
    return min((ratio[0] for ratio in row["ratios"].values()), default=1.0) if row["ratios"] else 1.0


def list_published(done: Sequence[Row], published: Mapping[str, Row]) -> list[str]:
    """Write lines of Markdown: each task that has a published row, by the median of its runs, and what all of them come to."""
    speedups: dict[str, list[float]] = {}
    for row in done:
        if row["task"] in published:
            speedups.setdefault(row["task"], []).append(
                find_speedup(RunSummary.model_validate(row["summary"]))
            )
    if not speedups:
        return ["No task has a published row.", ""]
    now = {task: median(values) for task, values in speedups.items()}
    before = {task: find_published_speedup(published[task]) for task in now}
    shares = {task: now[task] / before[task] for task in now}
    lost = sorted((task for task in now if shares[task] < LEAST_SHARE), key=shares.__getitem__)
    machines = ", ".join(dict.fromkeys(published[task]["machine"] for task in now))
    lines = [
        f"{len(now)} tasks beside their published rows ({machines}), over the best baseline each: geometric mean {geometric_mean(list(now.values())):.2f}, "
        f"published {geometric_mean(list(before.values())):.2f}. {sum(s > 1 for s in shares.values())} improve, {len(lost)} are below {LEAST_SHARE} of their row"
        + (f": {', '.join(lost)}." if lost else "."),
        "",
    ]
    rows = [(task, f"{now[task]:.2f}", f"{before[task]:.2f}", f"{shares[task]:.2f}") for task in now]
    return [*lines, *list_table(("task", "now", "published", "share"), rows), ""]


def list_repeats(done: Sequence[Row]) -> list[str]:
    """Write lines of Markdown: tasks with several runs, whether their statuses agree, and how far their speedups lie apart."""
    summaries: dict[str, list[RunSummary]] = {}
    for row in done:
        summaries.setdefault(row["task"], []).append(RunSummary.model_validate(row["summary"]))
    rows = []
    for task, runs in summaries.items():
        if len(runs) > 1:
            speedups, statuses = [find_speedup(s) for s in runs], [s.status for s in runs]
            apart = max(speedups) / min(speedups)
            agree = len(set(statuses)) == 1 and apart <= SPREAD
            counts = ", ".join(f"{statuses.count(s)} {s}" for s in dict.fromkeys(statuses))
            rows.append(
                (
                    task,
                    counts,
                    ", ".join(f"{s:.2f}" for s in speedups),
                    f"{apart:.2f}",
                    "yes" if agree else "no",
                )
            )
    columns = (
        "task",
        "statuses",
        "speedups over the best baseline",
        "largest over smallest",
        f"one status, within {SPREAD - 1:.0%}",
    )
    return [*list_table(columns, rows), ""] if rows else []


__all__ = ["find_speedup", "list_published", "list_repeats", "read_published"]
