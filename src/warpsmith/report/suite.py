"""A suite's summaries as a table: speedup over the best baseline and over eager, per task, losses and
refusals listed.

The geometric mean is over all tasks; one without a claimed win counts as 1, because the user keeps the
original. `fast_p` is KernelBench's share of tasks that are correct and more than p times faster
(https://arxiv.org/abs/2502.10517); here a task counts for p ≥ 1 only when its win is claimed, that is
with the interval above 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import exp, log
from typing import Any

from ..records import Best, Ratio, RunSummary
from .markdown import escape, table
from .tables import Grid
from .wording import baseline_name, interval, microseconds, share

THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0)


def suite_table(summaries: Sequence[RunSummary]) -> str:
    """The suite as markdown."""
    totals = suite_totals(summaries)
    machines = sorted({s.hardware for s in summaries if s.hardware})
    parts = [
        f"{totals['wins']} of {totals['tasks']} tasks won, {totals['no_wins']} without a win, "
        f"{totals['failed']} failed. "
        f"Geometric mean over all tasks: {totals['geomean_best']:.2f}× the best baseline, "
        f"{totals['geomean_eager']:.2f}× eager (no valid win counts 1.0).",
        f"Measured on {escape(', '.join(machines)) or 'an unnamed machine'}. "
        "Speedups are medians with 95% intervals.",
        table(_tasks(summaries)),
        table(_fast(totals)),
    ]
    losses = [s for s in summaries if s.status != "win"]
    if losses:
        parts.append("Losses and refusals:")
        parts.append("\n".join(f"- {escape(s.task)} ({s.status}): {escape(_why(s))}" for s in losses))
    return "\n\n".join(parts) + "\n"


def suite_json(summaries: Sequence[RunSummary]) -> str:
    """Totals and every task's summary, as JSON."""
    data = {"totals": suite_totals(summaries), "tasks": [s.model_dump(mode="json") for s in summaries]}
    return json.dumps(data, indent=2) + "\n"


def suite_totals(summaries: Sequence[RunSummary]) -> dict[str, Any]:
    best = [s.best.speedup.median if s.best and s.status == "win" else 1.0 for s in summaries]
    eager = [s.best.speedup_eager.median if s.best and s.status == "win" else 1.0 for s in summaries]
    return {
        "tasks": len(summaries),
        "wins": sum(s.status == "win" for s in summaries),
        "no_wins": sum(s.status == "no-win" for s in summaries),
        "failed": sum(s.status == "failed" for s in summaries),
        "geomean_best": geomean(best),
        "geomean_eager": geomean(eager),
        "fast_p_best": {str(p): fast_p(summaries, p) for p in THRESHOLDS},
        "fast_p_eager": {str(p): fast_p(summaries, p, eager=True) for p in THRESHOLDS},
    }


def geomean(values: Sequence[float]) -> float:
    """Geometric mean of positive numbers; 1 of none."""
    return exp(sum(log(v) for v in values) / len(values)) if values else 1.0


def fast_p(summaries: Sequence[RunSummary], p: float, eager: bool = False) -> float:
    """Share of all tasks with a verified candidate more than `p` times as fast as the best baseline (or
    eager).
    """
    if not summaries:
        return 0.0
    return sum(_faster(s, p, eager) for s in summaries) / len(summaries)


def _faster(summary: RunSummary, p: float, eager: bool) -> bool:
    if summary.best is None or not summary.admitted:
        return False
    ratio = summary.best.speedup_eager if eager else summary.best.speedup
    claimed = ratio.low > 1.0 and (eager or summary.status == "win")
    return ratio.median > p and (p < 1.0 or claimed)


def _tasks(summaries: Sequence[RunSummary]) -> Grid:
    rows: list[tuple[str, ...]] = []
    strong: set[int] = set()
    for s in summaries:
        if s.status == "win":
            strong.add(len(rows))
        b = s.best
        if b is None:
            rows.append(
                (s.task, s.status, "—", "—", "—", "—", "—", "—", str(s.evaluations), f"{s.seconds:.0f} s")
            )
            continue
        rows.append(
            (
                s.task, s.status, interval(b.speedup), _short(b.speedup), interval(b.speedup_eager),
                microseconds(b.median_us), share(b.limit_share), _labels(b), str(s.evaluations),
                f"{s.seconds:.0f} s",
            )
        )  # fmt: skip
    columns = (
        "task", "status", "vs best", "best baseline", "vs eager", "median", "of the limit",
        "labels", "judged",
        "time",
    )  # fmt: skip
    return Grid("Tasks", columns, tuple(rows), frozenset({2, 4, 5, 6, 8, 9}), frozenset())


def _fast(totals: dict[str, Any]) -> Grid:
    best, eager = totals["fast_p_best"], totals["fast_p_eager"]
    rows = (
        ("best baseline", *(f"{v:.2f}" for v in best.values())),
        ("eager", *(f"{v:.2f}" for v in eager.values())),
    )
    columns = ("fast_p against", *(f"p = {p}" for p in best))
    return Grid("fast_p", columns, rows, frozenset(range(1, len(columns))))


def _labels(best: Best) -> str:
    """An algorithmic win with what is left of it over the rewritten reference."""
    over = best.speedup_rewritten
    told = f" ({interval(over)} {_short(over)})" if over is not None else ""
    return ", ".join(f"{label}{told}" if label == "algorithmic" else label for label in best.labels)


def _short(ratio: Ratio) -> str:
    return baseline_name(ratio.baseline)


def _why(summary: RunSummary) -> str:
    if summary.best is not None and summary.status == "no-win":
        found = f"fastest verified {interval(summary.best.speedup)} against {_short(summary.best.speedup)}"
        return f"{found}; {summary.reason}" if summary.reason else found
    return summary.reason or "no reason recorded"
