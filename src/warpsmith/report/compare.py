"""Two outcomes side by side: which is faster on each task, surely or perhaps, and by how much in all.

In: two sides, A and B. Out: a `Comparison`. On a task, the speedups of both over one shared baseline are divided: the
baseline was measured next to each, so that what the machine did in between cancels. A ratio above 1 says that B is
faster. A task with several samples counts with its median one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..judge.timing.stats import Interval
from ..records import Best, Ratio, Record, RunSummary
from .metrics import geomean_interval, quotient
from .scores import SuiteTask, compute_deployed_speedup, find_verified_speedup, tasks_of
from .sides import Side

DRIFT = 1.5  # a baseline that took so much longer on one side was another task, or on a busy machine
Keyed = dict[tuple[str, str], RunSummary]  # by name and target
Faster = Literal["A", "B", "not sure", ""]  # "": on one side nothing was verified


class TaskComparison(Record):
    task: str
    target: str
    status_a: str
    status_b: str
    a: Ratio | None = None  # over the shared baseline
    b: Ratio | None = None
    ratio: Ratio | None = None  # b / a
    faster: Faster = ""

    @property
    def changed(self) -> bool:
        return self.status_a != self.status_b


class GeomeanRatio(Record):
    """A geometric mean of ratios B/A, with a bootstrap interval over the choice of tasks; no interval for a single task."""

    tasks: int
    ratio: float
    low: float | None
    high: float | None


class Comparison(Record):
    name_a: str
    name_b: str
    tasks: tuple[TaskComparison, ...]  # in both
    surely_a: int
    surely_b: int
    verified: GeomeanRatio  # of the fastest verified candidates, on tasks that have one in both
    deployed: (
        GeomeanRatio  # of what a user gets, on all tasks in both: without a win the original, which is 1
    )
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    warnings: tuple[str, ...]


def compare_sides(a: Side, b: Side) -> Comparison:
    keyed_a, keyed_b = _match_tasks(tasks_of(a.summaries), tasks_of(b.summaries))
    pairs = [(keyed_a[key], keyed_b[key]) for key in keyed_a if key in keyed_b]
    tasks = tuple(compare_task(x, y) for x, y in pairs)
    return Comparison(
        name_a=a.name, name_b=b.name, tasks=tasks,
        surely_a=sum(t.faster == "A" for t in tasks), surely_b=sum(t.faster == "B" for t in tasks),
        verified=_geomean([t.ratio.median for t in tasks if t.ratio is not None]),
        deployed=_geomean([_compute_deployed(t, x, y) for t, (x, y) in zip(tasks, pairs, strict=True)]),
        only_a=tuple(name for name, target in keyed_a if (name, target) not in keyed_b),
        only_b=tuple(name for name, target in keyed_b if (name, target) not in keyed_a),
        warnings=tuple(_warnings(pairs)),
    )  # fmt: skip


def _match_tasks(a: Sequence[SuiteTask], b: Sequence[SuiteTask]) -> tuple[Keyed, Keyed]:
    """By name and target. A suite of several folders names tasks level1/NAME, an archive NAME: then by NAME, if it tells
    them apart.
    """
    if any("/" in t.name for t in a) != any("/" in t.name for t in b):
        keyed_a, keyed_b = ({(t.name.rpartition("/")[2], t.target): t.shown for t in side} for side in (a, b))
        if (len(keyed_a), len(keyed_b)) == (len(a), len(b)):
            return keyed_a, keyed_b
    return {(t.name, t.target): t.shown for t in a}, {(t.name, t.target): t.shown for t in b}


def compare_task(a: RunSummary, b: RunSummary) -> TaskComparison:
    row = TaskComparison(task=a.task, target=a.target, status_a=_status(a), status_b=_status(b))
    if (
        a.best is None
        or b.best is None
        or find_verified_speedup(a) is None
        or find_verified_speedup(b) is None
    ):
        return row
    shared = _find_shared_ratios(a.best, b.best)
    if shared is None:
        return row
    ratio_b, ratio_a = shared
    interval = quotient(_interval(ratio_a), _interval(ratio_b))
    ratio = Ratio(baseline="A", median=interval.median, low=interval.low, high=interval.high)
    faster: Faster = "B" if ratio.low > 1 else "A" if ratio.high < 1 else "not sure"
    return row.model_copy(update={"a": ratio_b, "b": ratio_a, "ratio": ratio, "faster": faster})


def _find_shared_ratios(a: Best, b: Best) -> tuple[Ratio, Ratio] | None:
    """Both speedups over one baseline: the best one of a side, if the other was measured against it, else eager."""
    ratios_b, ratios_a = _index_ratios(a), _index_ratios(b)
    names = (a.speedup.baseline, b.speedup.baseline, "eager", *ratios_b)
    name = next((n for n in names if n in ratios_b and n in ratios_a), None)
    return (ratios_b[name], ratios_a[name]) if name is not None else None


def _index_ratios(best: Best) -> dict[str, Ratio]:
    """Baseline → speedup. The rewritten reference is each candidate's own, so it is nothing to share."""
    ratios = (best.speedup, best.speedup_eager, *best.ratios)
    return {r.baseline: r for r in ratios if r.baseline != "rewritten"}


def _compute_deployed(task: TaskComparison, a: RunSummary, b: RunSummary) -> float:
    if a.status == b.status == "win" and task.ratio is not None:
        return task.ratio.median
    return (compute_deployed_speedup(b) or 1.0) / (compute_deployed_speedup(a) or 1.0)


def _geomean(ratios: Sequence[float]) -> GeomeanRatio:
    interval, several = geomean_interval(ratios), len(ratios) > 1
    return GeomeanRatio(
        tasks=len(ratios), ratio=interval.median, low=interval.low if several else None,
        high=interval.high if several else None,
    )  # fmt: skip


def _warnings(pairs: Sequence[tuple[RunSummary, RunSummary]]) -> list[str]:
    """List what makes the two less comparable than they look."""
    lines = []
    machines = [sorted({s.hardware for s in side if s.hardware}) for side in zip(*pairs, strict=True)]
    if machines and machines[0] != machines[1]:
        lines.append(f"measured on different machines: {', '.join(machines[0])}; {', '.join(machines[1])}")
    differing = [
        (drift, a.task) for a, b in pairs if (drift := _drift(a, b)) > DRIFT and a.hardware == b.hardware
    ]
    if differing:
        worst, task = max(differing)
        lines.append(
            f"on {len(differing)} of {len(pairs)} tasks a baseline itself took more than {DRIFT:g} times as long on one side "
            f"({task}: {worst:.1f} times): other shapes, other settings, or a busy machine"
        )
    return lines


def _drift(a: RunSummary, b: RunSummary) -> float:
    """The largest factor between the times of one baseline on both sides; 1 where none is shared."""
    shared = [n for n in a.baselines if b.baselines.get(n) and a.baselines[n] and n != "rewritten"]
    factors = [a.baselines[n] / b.baselines[n] for n in shared]
    return max((max(f, 1 / f) for f in factors), default=1.0)


def _status(summary: RunSummary) -> str:
    return summary.status if summary.admitted else "quarantined"


def _interval(ratio: Ratio) -> Interval:
    return Interval(ratio.median, ratio.low, ratio.high)
