"""A suite for programs: one row a run, numbers as numbers, an empty cell for what is not known."""

from __future__ import annotations

from collections.abc import Sequence

from ..records import Ratio, RunSummary
from .scores import BASELINES, SuiteTask, find_verified_speedup, kind
from .tables import Grid

TEXTS = frozenset(
    {
        "task",
        "target",
        "run",
        "status",
        "kind",
        "labels",
        "best_baseline",
        "label",
        "hardware",
        "reason",
        "peaks",
    }
)


def rows(tasks: Sequence[SuiteTask]) -> Grid:
    """Times in microseconds and seconds; `speedup_*` with the ends of its interval; `sample` counts from 1."""
    dicts = [_row(number, run) for task in tasks for number, run in enumerate(task.runs, 1)]
    columns = tuple(dicts[0]) if dicts else ()
    numbers = frozenset(i for i, name in enumerate(columns) if name not in TEXTS)
    return Grid("Runs", columns, tuple(tuple(d.values()) for d in dicts), numbers)


def _row(sample: int, run: RunSummary) -> dict[str, str]:
    best = run.best
    speedups: dict[str, str] = {}
    for over in BASELINES:
        speedups |= _ends(f"speedup_{over.replace('-', '_')}", find_verified_speedup(run, over))
    return {
        "task": run.task, "target": run.target, "sample": str(sample), "run": run.run_id, "status": run.status,
        "admitted": str(int(run.admitted)), "kind": kind(run),
        "labels": " ".join(best.labels) if best else "", "label": best.label if best else "",
        "best_baseline": best.speedup.baseline if best else "", **speedups,
        "median_us": f"{best.median_us:.6g}" if best else "", "limit_us": f"{run.limit_us:.6g}",
        "limit_share": f"{best.limit_share:.6g}" if best else "", "peaks": run.peaks.key if run.peaks else "", "judged": str(run.evaluations),
        "correct": str(run.stages.get("ok", 0)), "seconds": f"{run.seconds:.6g}", "seed": str(run.seed),
        "tokens": str(run.tokens), "usd": "" if run.usd is None else f"{run.usd:.6g}", "hardware": run.hardware,
        "reason": run.reason or run.fault,
    }  # fmt: skip


def _ends(name: str, ratio: Ratio | None) -> dict[str, str]:
    values = (
        ("", "", "") if ratio is None else tuple(f"{v:.6g}" for v in (ratio.median, ratio.low, ratio.high))
    )
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))
