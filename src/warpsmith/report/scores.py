"""A suite's numbers: from the summaries of its runs to one record of totals.

In: `RunSummary`s, several of one task being its samples (independent searches). Out: the tasks with the sample that
stands for each, and `Totals`. A task counts with its *median* sample (the lower of two), so that drawing more
samples does not look like speed; what more samples buy is said by the metrics at k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from statistics import median
from typing import Any

from ..judge.timing.stats import geometric_mean
from ..records import TOO_BUSY, Ratio, Record, RunSummary
from ..records.intervals import find_point, is_unknown
from . import metrics

BASELINES = ("best", "eager", "compile", "compile-max-autotune")  # "best": of each task its own fastest one
THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0)
DRAWS = (1, 2, 5, 10, 20, 50, 100)
KINDS = ("kernel", "algorithmic", "library")


class Mean(Record):
    """Geometric mean and median of the speedups over one baseline among some of the tasks."""

    over: str
    among: str  # "all tasks" (no win counts 1), "correct", "wins", "kernel wins", …
    tasks: int
    geomean: float
    low: float | None  # 95% interval over the choice of tasks; None of a single one
    high: float | None
    median: float


class AtK(Record):
    """Means over all tasks, k samples drawn of each. None: not known."""

    k: int
    pass_at_k: float
    speedup_at_k: float
    efficiency_at_k: float | None


class Totals(Record):
    tasks: int
    samples: int  # of each task, at least
    wins: int
    no_wins: int
    failed: int
    too_busy: int = 0  # neither a win nor none: the machine was too busy to tell
    quarantined: int  # among those without a win: a wrong answer passes on them
    kinds: dict[str, int]  # wins by their label: kernel, algorithmic, library
    geomean_best: float  # over all tasks; one without a win counts 1
    geomean_eager: float
    kernel_rate: float | None  # share of the wins in which generated code does the reference's work
    limit_share_median: float | None  # share of the speed of light, of correct ones that are not algorithmic
    fast_p_best: dict[str, float]
    fast_p_eager: dict[str, float]
    sure_p_best: dict[str, float]  # fast_p with the lower end of the interval in place of the median
    sure_p_eager: dict[str, float]
    at_k: tuple[AtK, ...]
    means: tuple[Mean, ...]
    judged: int
    correct: int  # of the candidates judged
    seconds: float
    exchanges: int
    tokens: int
    usd: float | None


@dataclass(frozen=True)
class SuiteTask:
    """A task and its samples, in the order in which they were drawn."""

    name: str
    target: str
    runs: tuple[RunSummary, ...]

    @property
    def shown(self) -> RunSummary:
        """The sample that stands for the task: the median one by speedup."""
        return sorted(self.runs, key=speed)[(len(self.runs) - 1) // 2]


def tasks_of(summaries: Sequence[RunSummary]) -> list[SuiteTask]:
    """Summaries by task and target, in the order of their first."""
    by_task: dict[tuple[str, str], list[RunSummary]] = {}
    for summary in summaries:
        by_task.setdefault((summary.task, summary.target), []).append(summary)
    return [SuiteTask(name, target, tuple(runs)) for (name, target), runs in by_task.items()]


def find_verified_speedup(summary: RunSummary, over: str = "best") -> Ratio | None:
    """The speedup of the fastest correct candidate over a baseline; None without one, and on a quarantined task."""
    best = summary.best
    if best is None or not summary.admitted or summary.status == "failed":
        return None
    if over == "best":
        return best.speedup
    # Not `best.speedup`: a mean over a baseline must not be of the tasks on which it happened to be the best one.
    ratios = (*best.ratios, best.speedup_eager, best.speedup_rewritten)
    return next((r for r in ratios if r is not None and r.baseline == over), None)


def compute_deployed_speedup(summary: RunSummary, over: str = "best") -> float | None:
    """The speedup that a user gets: without a win the original stays, which is 1. None: the baseline was not measured."""
    if summary.status != "win":
        return 1.0
    ratio = find_verified_speedup(summary, over)
    return find_point(ratio) if ratio is not None else None


def speed(summary: RunSummary) -> float:
    """Return the speedup as the metrics count it: 0 for a sample that is not correct, what is sure of one that is unknown."""
    ratio = find_verified_speedup(summary)
    return find_point(ratio) if ratio is not None else 0.0


def kind(summary: RunSummary) -> str:
    """Which kind of win: "kernel", "algorithmic" or "library"; empty for no win."""
    labels = summary.best.labels if summary.best is not None and summary.status == "win" else ()
    return next((k for k in KINDS if k in labels), "")


def score(summaries: Sequence[RunSummary]) -> Totals:
    tasks = tasks_of(summaries)
    shown = [t.shown for t in tasks]
    wins = sum(s.status == "win" for s in shown)
    kinds = {k: sum(kind(s) == k for s in shown) for k in KINDS}
    ran = [s.best for s in shown if s.best is not None and find_verified_speedup(s) is not None]
    shares = [b.limit_share for b in ran if "algorithmic" not in b.labels]
    paid = [s.usd for s in summaries]
    return Totals(
        tasks=len(tasks), samples=min((len(t.runs) for t in tasks), default=0), wins=wins,
        no_wins=sum(s.status == "no-win" for s in shown), failed=sum(s.status == "failed" for s in shown),
        too_busy=sum(s.status == TOO_BUSY for s in shown),
        quarantined=sum(not s.admitted for s in shown), kinds=kinds,
        geomean_best=geometric_mean(_list_deployed_speedups(shown, "best")),
        geomean_eager=geometric_mean(_list_deployed_speedups(shown, "eager")),
        kernel_rate=kinds["kernel"] / wins if wins else None,
        limit_share_median=median(shares) if shares else None,
        fast_p_best=_fast(shown, "best"), fast_p_eager=_fast(shown, "eager"),
        sure_p_best=_fast(shown, "best", sure=True), sure_p_eager=_fast(shown, "eager", sure=True),
        at_k=_at_k(tasks), means=tuple(_means(shown)),
        judged=sum(s.evaluations for s in summaries), correct=sum(s.stages.get("ok", 0) for s in summaries),
        seconds=sum(s.seconds for s in summaries), exchanges=sum(s.exchanges for s in summaries),
        tokens=sum(s.tokens for s in summaries), usd=None if None in paid else sum(p or 0.0 for p in paid),
    )  # fmt: skip


def suite_totals(summaries: Sequence[RunSummary]) -> dict[str, Any]:
    """The totals as JSON."""
    return score(summaries).model_dump(mode="json")


def _fast(shown: Sequence[RunSummary], over: str, sure: bool = False) -> dict[str, float]:
    ratios = [find_verified_speedup(s, over) for s in shown]
    speedups = [0.0 if r is None else r.low if sure else find_point(r) for r in ratios]
    return {str(p): metrics.fast_p(speedups, p) for p in THRESHOLDS}


def _at_k(tasks: Sequence[SuiteTask]) -> tuple[AtK, ...]:
    """At every usual k that all tasks have samples for."""
    fewest = min((len(t.runs) for t in tasks), default=0)
    return tuple(_drawn(tasks, k) for k in sorted({*(d for d in DRAWS if d < fewest), fewest}) if k)


def _drawn(tasks: Sequence[SuiteTask], k: int) -> AtK:
    speedups = [[speed(s) for s in t.runs] for t in tasks]
    correct = [sum(find_verified_speedup(s) is not None for s in t.runs) for t in tasks]
    passed = [metrics.pass_at_k(len(s), c, k) for s, c in zip(speedups, correct, strict=True)]
    resources = [[_resources(s) for s in t.runs] for t in tasks]
    efficient = metrics.mean(
        [metrics.efficiency_at_k(s, r, k) for s, r in zip(speedups, resources, strict=True)]
    )
    return AtK(
        k=k, pass_at_k=metrics.mean(passed),
        speedup_at_k=metrics.mean([metrics.speedup_at_k(s, k) for s in speedups]),
        efficiency_at_k=None if isnan(efficient) else efficient,
    )  # fmt: skip


def _resources(summary: RunSummary) -> float:
    """Processor threads, or one device. NaN where a correct sample does not say; a failure uses any number in vain."""
    if summary.target != "cpu" or speed(summary) == 0:
        return 1.0
    return float(summary.threads) if summary.threads else float("nan")


def _means(shown: Sequence[RunSummary]) -> list[Mean]:
    """Each baseline over all tasks and over correct ones; each kind of win over the best baseline."""
    means = []
    for over in BASELINES:
        measured = over == "best" or any(find_verified_speedup(s, over) for s in shown)
        if measured:
            means.append(_mean(over, "all tasks", _list_deployed_speedups(shown, over)))
            ratios = [find_verified_speedup(s, over) for s in shown]
            means.append(_mean(over, "correct", _list_known(ratios)))
    for name in ("", *KINDS):
        among = [s for s in shown if s.status == "win" and name in ("", kind(s))]
        means.append(_mean("best", f"{name} wins".strip(), _list_deployed_speedups(among, "best")))
    rewritten = [find_verified_speedup(s, "rewritten") for s in shown if kind(s) == "algorithmic"]
    means.append(_mean("rewritten", "algorithmic wins", _list_known(rewritten)))
    return [m for m in means if m.tasks]


def _mean(over: str, among: str, speedups: list[float]) -> Mean:
    interval, several = metrics.geomean_interval(speedups), len(speedups) > 1
    return Mean(
        over=over, among=among, tasks=len(speedups), geomean=interval.median,
        low=interval.low if several else None, high=interval.high if several else None,
        median=median(speedups) if speedups else 1.0,
    )  # fmt: skip


def _list_known(ratios: Sequence[Ratio | None]) -> list[float]:
    """List the medians, without those that are unknown."""
    return [r.median for r in ratios if r is not None and not is_unknown(r)]


def _list_deployed_speedups(shown: Sequence[RunSummary], over: str) -> list[float]:
    return [value for s in shown if (value := compute_deployed_speedup(s, over)) is not None]
