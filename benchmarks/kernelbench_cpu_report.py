"""The rows of `kernelbench_cpu.py` as a page: counts, geometric means, every task, and what failed with its reason.

Rows in, Markdown out. A geometric mean is over all tasks; one without a claimed win (lost, refused, quarantined,
failed) counts 1, because its user keeps the original.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from warpsmith.records import RunSummary
from warpsmith.report.markdown import escape, table
from warpsmith.report.scores import suite_totals
from warpsmith.report.tables import Grid
from warpsmith.wording import baseline_name, interval, share

Row = dict[str, Any]
STATUSES = ("win", "no-win", "too-busy", "quarantined", "refused", "failed", "error")
FAILURES = 40  # kinds of failed candidates listed


def markdown(rows: Iterable[Row], arguments: str, left: int) -> str:
    """The page. `left`: tasks that have not been run yet."""
    rows = sorted(rows, key=_place)
    internal = [(row, text) for row in rows for text in _internal(row)]
    parts = [
        "# KernelBench through the whole loop on a CPU",
        f"Command: `python benchmarks/kernelbench_cpu.py {arguments}`",
        *_conditions(rows),
        *([f"**{left} tasks have not been run yet: the same command goes on.**"] if left else []),
        "Shapes are KernelBench's, reduced by rule to the sizes stated. Speedups are medians with 95% intervals, "
        "confirmed in fresh processes; a win has its interval against the best baseline above 1. A quarantined task is "
        "one on which a wrong answer passes: it was run, its speedup does not count.",
        table(_counts(rows)),
        f"Candidates judged: {_tally(rows, 'statuses')}. Confirmations: {_tally(rows, 'confirmations')}.",
        "## Internal errors",
        _listed(internal),
        "## Every task",
        table(_tasks(rows)),
        "## Without a win",
        _listed((row, f"{row['status']}: {row['reason']}") for row in rows if row["status"] != "win"),
        "## Baselines that failed",
        _listed(
            (row, f"{name}: {why}") for row in rows for name, why in row.get("failed_baselines", {}).items()
        ),
        "## Candidates that failed",
        _failures(rows),
    ]
    return "\n\n".join(parts) + "\n"


def settings(options: argparse.Namespace) -> str:
    """The options that decide what comes out, without this machine's paths."""
    names = ("budget", "time", "seed", "jobs", "cores", "bytes", "flops", "limit_s")
    given = [f"--{name.replace('_', '-')} {getattr(options, name)}" for name in names]
    chosen = ["--baselines", *options.baselines] if options.baselines else []
    return " ".join(["KernelBench/KernelBench --levels", *map(str, options.levels), *given, *chosen])


def _conditions(rows: Sequence[Row]) -> list[str]:
    """On which machines the rows were made, and how many tasks ran at a time there."""
    ran = Counter((row["machine"], row["jobs"], row["cores"]) for row in rows)
    return [
        f"{count} tasks on {escape(where)}; {jobs} at a time, each on {cores} core{'s' * (cores != 1)} of its own"
        + (" (memory bandwidth and last cache shared)." if jobs > 1 else ".")
        for (where, jobs, cores), count in ran.items()
    ]


def _counts(rows: Sequence[Row]) -> Grid:
    levels = sorted({_level(row) for row in rows})
    groups = [(level, [r for r in rows if _level(r) == level]) for level in levels]
    lines = []
    for name, mine in [*groups, ("all", list(rows))]:
        won = [r for r in mine if r["status"] == "win"]
        numbers = [str(sum(r["status"] == status for r in mine)) for status in STATUSES]
        lines.append((name, str(len(mine)), *numbers, *_means(mine), *_means(won)))
    columns = (
        "level", "tasks", *STATUSES, "all tasks vs best", "vs eager", "wins vs best", "vs eager",
    )  # fmt: skip
    return Grid("Counts", columns, tuple(lines), frozenset(range(1, len(columns))))


def _means(rows: Sequence[Row]) -> tuple[str, str]:
    totals = suite_totals([summary(row) for row in rows])
    return (f"{totals['geomean_best']:.2f}×", f"{totals['geomean_eager']:.2f}×") if rows else ("—", "—")


def summary(row: Row) -> RunSummary:
    """The run's own summary; a failed one for a task that never came so far."""
    if "summary" in row:
        return RunSummary.model_validate(row["summary"])
    return RunSummary(run_id="", task=row["task"], target="cpu", status="failed", reason=row["reason"])


def _tasks(rows: Sequence[Row]) -> Grid:
    lines: list[tuple[str, ...]] = []
    for row in rows:
        best = summary(row).best
        sizes = ", ".join(f"{k}={v}" for k, v in row.get("overrides", {}).items()) or "its own"
        found = (
            (
                interval(best.speedup), baseline_name(best.speedup.baseline), interval(best.speedup_eager),
                share(best.limit_share), ", ".join(best.labels), row["winner"],
            ) if best else ("—",) * 6
        )  # fmt: skip
        statuses = ", ".join(f"{n} {status}" for status, n in row.get("statuses", {}).items()) or "—"
        shapes = sizes if "overrides" in row else "—"
        lines.append((row["task"], shapes, row["status"], *found, statuses, f"{row['seconds']:.0f} s"))
    columns = (
        "task", "sizes", "status", "vs best", "best baseline", "vs eager", "of the limit", "labels",
        "fastest verified", "judged", "time",
    )  # fmt: skip
    strong = frozenset(i for i, row in enumerate(rows) if row["status"] == "win")
    return Grid("Tasks", columns, tuple(lines), frozenset({3, 5, 6, 10}), strong)


def _internal(row: Row) -> list[str]:
    """What went wrong in this program itself on a task, and not with a candidate."""
    own = [" / ".join([row["reason"], *row.get("log", [])])] if row["status"] == "error" else []
    return [*own, *row.get("internal", [])]


def _failures(rows: Sequence[Row]) -> str:
    """Each way in which a candidate failed, with the tasks that had it: what the expert has to learn."""
    tasks: dict[str, list[str]] = {}
    times: Counter[str] = Counter()
    for row in rows:
        for text, count in row.get("failures", ()):
            tasks.setdefault(text, []).append(_short(row))
            times[text] += count
    lines = [f"- {n} ({', '.join(tasks[text])}): {escape(text)}" for text, n in times.most_common(FAILURES)]
    return "\n".join(lines) or "None."


def _tally(rows: Sequence[Row], key: str) -> str:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row.get(key, {}))
    return ", ".join(f"{n} {status}" for status, n in total.most_common()) or "none"


def _listed(items: Iterable[tuple[Row, str]]) -> str:
    return "\n".join(f"- {escape(row['task'])}: {escape(text)}" for row, text in items) or "None."


def _level(row: Row) -> str:
    return str(row["task"].partition("/")[0])


def _short(row: Row) -> str:
    """level1/23 of level1/23_Softmax."""
    return str(row["task"].split("_")[0])


def _place(row: Row) -> tuple[str, int, str]:
    digits = _short(row).partition("/")[2]
    return _level(row), int(digits) if digits.isdigit() else 0, row["task"]
