"""The charts of a suite and of a comparison: how tasks ended, speedups with their intervals, shares of the limit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from ..pages.bars import Bar, Kind, draw_bars, draw_parts, draw_ratios, rate
from ..pages.charts import draw_ranking
from ..records import TOO_BUSY, Ratio, RunSummary
from ..records.intervals import find_worth, is_unknown
from ..wording import share
from .compare import TaskComparison
from .scores import SuiteTask, find_verified_speedup

FEW = 40  # tasks up to which each is shown by name at once
ENDS: tuple[tuple[str, Kind], ...] = (
    ("win", "good"), ("tie", "even"), ("loss", "bad"), ("too busy to tell", "even"), ("failed", "bad"), ("quarantined", "bad"),
)  # fmt: skip
SHARE_BANDS: tuple[tuple[str, float, float, Kind], ...] = (
    ("reach 80% or more", 0.8, math.inf, "good"), ("50 to 80%", 0.5, 0.8, "base"), ("20 to 50%", 0.2, 0.5, "even"), ("below 20%", 0.0, 0.2, "bad"),
)  # fmt: skip
SPEEDUPS = "Speedup over the best baseline, 95% intervals"
Charts = tuple[tuple[str, Markup], ...]


def draw_suite(tasks: Sequence[SuiteTask]) -> Charts:
    """(title, drawing) of each chart."""
    return (
        ("Outcomes", _draw_ends(tasks)), ("Speedups by task", _draw_speedups(_list_timed(tasks), SPEEDUPS)),
        ("Shares of the limit", _draw_shares([t.shown for t in tasks])),
    )  # fmt: skip


def draw_suite_in_short(tasks: Sequence[SuiteTask]) -> Markup:
    """Draw how tasks ended and their speedups, of many without names."""
    timed = _list_timed(tasks)
    return _draw_ends(tasks) + (
        _draw_speedups(timed, SPEEDUPS) if len(timed) <= FEW else draw_ranking(timed, SPEEDUPS)
    )


def draw_comparison(tasks: Sequence[TaskComparison]) -> Charts:
    """(title, drawing) of each chart."""
    counts = Counter(t.faster for t in tasks)
    parts: list[tuple[str, float, Kind]] = [
        ("B surely faster", counts["B"], "good"), ("not sure", counts["not sure"], "even"),
        ("A surely faster", counts["A"], "bad"), ("not verified on a side", counts[""], "base"),
    ]  # fmt: skip
    ratios = [(t.task, t.ratio) for t in tasks if t.ratio is not None]
    return (
        ("Who is faster", draw_parts(parts, "Tasks in both, by the interval of B over A")),
        ("B over A by task", _draw_speedups(ratios, "B over A, 95% intervals: above 1 B is faster")),
    )


def find_end(summary: RunSummary) -> str:
    """Return how a task ended, in a word of `ENDS`."""
    if not summary.admitted:
        return "quarantined"
    if summary.status == TOO_BUSY:
        return "too busy to tell"
    ratio = find_verified_speedup(summary)
    if summary.status == "win" or ratio is None:
        return "win" if summary.status == "win" else "failed"
    return "loss" if ratio.high < 1.0 and not is_unknown(ratio) else "tie"


def _draw_ends(tasks: Sequence[SuiteTask]) -> Markup:
    ends = Counter(find_end(t.shown) for t in tasks)
    parts = [(name, float(ends[name]), kind) for name, kind in ENDS]
    return draw_parts(parts, "Tasks by how they ended, by the interval over the best baseline")


def _list_timed(tasks: Sequence[SuiteTask]) -> list[tuple[str, Ratio]]:
    return [(t.name, ratio) for t in tasks if (ratio := find_verified_speedup(t.shown)) is not None]


def _draw_speedups(named: Sequence[tuple[str, Ratio]], title: str) -> Markup:
    """Draw a row for each task, the fastest first; of many also all in one chart above them."""
    ranked = sorted(named, key=lambda pair: -find_worth(pair[1]))
    rows = draw_ratios([ratio for _, ratio in ranked], title, [name for name, _ in ranked])
    if len(ranked) <= FEW:
        return rows
    fold = Markup("<details><summary>Each of {} tasks by name</summary>{}</details>")
    return draw_ranking(ranked, title) + fold.format(len(ranked), rows)


def _draw_shares(summaries: Sequence[RunSummary]) -> Markup:
    bars = []
    for s in summaries:
        ratio = find_verified_speedup(s)
        if s.best is not None and ratio is not None and s.best.limit_share and not is_unknown(ratio):
            bars.append(Bar(s.task, s.best.limit_share, share(s.best.limit_share), rate(ratio)))
    bars.sort(key=lambda b: -b.value)
    highest = max([1.0, *(b.value for b in bars)])
    drawn = draw_bars(
        bars, "Share of the machine's limit, fastest verified candidate", 1.0, "the limit", highest
    )
    if len(bars) <= FEW:
        return drawn
    parts = [
        (text, float(sum(low <= b.value < high for b in bars)), kind) for text, low, high, kind in SHARE_BANDS
    ]
    fold = Markup("<details><summary>Each of {} tasks by name</summary>{}</details>")
    return draw_parts(parts, "Tasks by the share of the machine's limit they reach") + fold.format(
        len(bars), drawn
    )
