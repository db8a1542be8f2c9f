"""Charts of a campaign's rows: the speedup of each task over its best baseline, and its share of the limit before and after.

In: rows that h200_report.py wrote. Out: one HTML page that loads nothing. Tasks without a result are at 1.

    python lab/h200_plot.py results/h200/kernelbench.jsonl --out results/h200/kernelbench.html
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from warpsmith.pages.bars import Bar, Kind, draw_bars, draw_parts, draw_ratios, rate
from warpsmith.pages.charts import draw_ranking
from warpsmith.records import Ratio
from warpsmith.records.intervals import find_worth
from warpsmith.report.pages import Page, write
from warpsmith.report.tables import Grid
from warpsmith.wording import interval, share

KINDS: dict[str, Kind] = {"kernel": "good", "algorithmic": "base", "library": "base", "no win": "even", "no result": "bad"}  # fmt: skip
Row = dict[str, Any]


@dataclass(frozen=True)
class TaskBar:
    task: str
    kind: str  # of KINDS
    ratio: Ratio  # over the best baseline; 1 without a result


def find_kind(row: Row) -> str:
    """Return what a bar stands for."""
    if row["status"] == "win":
        return next(name for name in KINDS if name in row["labels"])
    return "no win" if row["status"] == "no win" else "no result"


def list_bars(rows: Sequence[Row]) -> list[TaskBar]:
    """List every task once, the fastest first, by what is sure."""
    bars = [TaskBar(row["task"], find_kind(row), _find_ratio(row)) for row in rows]
    return sorted(bars, key=lambda bar: -find_worth(bar.ratio))


def make_page(rows: Sequence[Row], machine: str) -> Page:
    """Make charts for each level, the wins' shares of the limit against those of their best baselines, and a table of all tasks."""
    levels, charts = sorted({row["task"].partition("/")[0] for row in rows}), []
    for level in levels:
        bars = list_bars([r for r in rows if r["task"].startswith(f"{level}/")])
        charts.append((f"{level}: times as fast as the best baseline", _draw_level(bars)))
    charts.append(("Share of the limit", _draw_shares([r for r in rows if find_kind(r) == "kernel"])))
    grid = _tabulate(rows)
    lead = (
        f"Measured on {machine}.",
        "Each speedup is over the best baseline of its task, with its 95% interval.",
    )
    return Page("KernelBench, task by task", lead, (grid,), grid, None, tuple(charts))


def _find_ratio(row: Row) -> Ratio:
    """Return the speedup over the baseline that was best."""
    if find_kind(row) == "no result":
        return Ratio(baseline="best", median=1.0, low=1.0, high=1.0)
    name, (median, low, high) = min(row["ratios"].items(), key=lambda item: float(item[1][0]))
    return Ratio(baseline=name, median=float(median), low=float(low), high=float(high))


def _draw_level(bars: Sequence[TaskBar]) -> Markup:
    counts = Counter(bar.kind for bar in bars)
    parts = draw_parts(
        [(name, float(counts[name]), kind) for name, kind in KINDS.items()], "Tasks by what came of them"
    )
    ranking = draw_ranking(
        [(b.task, b.ratio) for b in bars],
        "Speedup over the best baseline, the fastest first; 1 without a result",
    )
    shown = [b for b in bars if b.kind != "no result"]
    named = draw_ratios(
        [b.ratio for b in shown], "Speedup over the best baseline", [f"{b.task}: {b.kind}" for b in shown]
    )
    fold = Markup("<details><summary>Each of {} tasks by name</summary>{}</details>").format(
        len(shown), named
    )
    return parts + ranking + fold


def _draw_shares(wins: Sequence[Row]) -> Markup:
    """Draw the share of each win's kernel; its best baseline's stands beside it in words."""
    bars = []
    for row in sorted(wins, key=lambda r: -float(r["limit_share"])):
        ratio = _find_ratio(row)
        text = f"{share(row['limit_share'])}, best baseline {share(row['limit_share'] / ratio.median)}"
        bars.append(Bar(row["task"], row["limit_share"], text, rate(ratio)))
    highest = max([1.0, *(b.value for b in bars)])
    return draw_bars(
        bars, "Share of the machine's limit, of wins by generated kernels", 1.0, "the limit", highest
    )


def _tabulate(rows: Sequence[Row]) -> Grid:
    lines = [
        (bar.task, bar.kind, interval(bar.ratio) if bar.kind != "no result" else "—", bar.ratio.baseline)
        for bar in list_bars(rows)
    ]
    return Grid("Tasks", ("task", "what came of it", "speedup", "over"), tuple(lines), frozenset({2}))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", type=Path, help="the .jsonl that h200_report.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="an .html file")
    options = parser.parse_args(arguments)
    try:
        rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
        machine = next(r["machine"] for r in rows if r["machine"])
    except (OSError, ValueError, KeyError, StopIteration) as error:
        print(
            f"error: {options.rows} holds no rows of h200_report.py ({type(error).__name__})", file=sys.stderr
        )
        return 2
    options.out.write_text(write(make_page(rows, machine), "html"), encoding="utf-8")
    print(f"wrote {options.out}: {len(rows)} tasks")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
