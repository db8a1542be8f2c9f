"""Plots of a campaign's rows: the speedup of each task over its best baseline, and its share of the limit before and after.

In: rows that h200_report.py wrote. Out: one HTML page, whose script comes from plotly's own server. Tasks without a result are at 1.

    python lab/h200_plot.py results/h200/kernelbench.jsonl --out results/h200/kernelbench.html
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

COLOURS = {"kernel": "#1f77b4", "algorithmic": "#ff7f0e", "library": "#9467bd", "no win": "#d62728", "no result": "#c7c7c7"}  # fmt: skip
Row = dict[str, Any]


def kind(row: Row) -> str:
    """What a bar stands for."""
    if row["status"] == "win":
        return next(name for name in COLOURS if name in row["labels"])
    return "no win" if row["status"] == "no win" else "no result"


def over_best(row: Row) -> tuple[float, float, float]:
    """Median, low and high of the speedup over the baseline that was best."""
    if kind(row) == "no result":
        return 1.0, 1.0, 1.0
    median, low, high = min(row["ratios"].values(), key=lambda ratio: float(ratio[0]))
    return float(median), float(low), float(high)


def figure(rows: Sequence[Row]) -> go.Figure:
    """A row of bars for each level, sorted; below, the wins' shares of the limit against those of their best baselines."""
    levels = sorted({row["task"].partition("/")[0] for row in rows})
    titles = [*(f"{level}: times as fast as the best baseline" for level in levels), "share of the limit"]
    made = make_subplots(rows=len(levels) + 1, cols=1, subplot_titles=titles, vertical_spacing=0.09)
    for number, level in enumerate(levels, 1):
        mine = sorted((r for r in rows if r["task"].startswith(f"{level}/")), key=over_best)
        for name, colour in COLOURS.items():
            some = [r for r in mine if kind(r) == name]
            found = [over_best(r) for r in some]
            made.add_bar(
                x=[r["task"] for r in some], y=[m for m, _, _ in found], name=name, legendgroup=name,
                marker_color=colour, showlegend=number == 1,
                error_y={"type": "data", "array": [h - m for m, _, h in found], "arrayminus": [m - low for m, low, _ in found]},
                row=number, col=1,
            )  # fmt: skip
        made.update_xaxes(categoryarray=[r["task"] for r in mine], tickfont_size=8, row=number, col=1)
        made.update_yaxes(type="log", row=number, col=1)
    wins = [r for r in rows if kind(r) == "kernel"]
    made.add_scatter(
        x=[r["limit_share"] / over_best(r)[0] for r in wins], y=[r["limit_share"] for r in wins],
        text=[r["task"] for r in wins], mode="markers", marker_color=COLOURS["kernel"], showlegend=False,
        row=len(levels) + 1, col=1,
    )  # fmt: skip
    made.update_xaxes(title_text="best baseline", range=[0, 1], row=len(levels) + 1, col=1)
    made.update_yaxes(title_text="kernel", range=[0, 1], row=len(levels) + 1, col=1)
    made.update_layout(
        height=420 * (len(levels) + 1), template="plotly_white", barmode="overlay", title=rows[0]["machine"]
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", type=Path, help="the .jsonl that h200_report.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="an .html file")
    given = parser.parse_args(arguments)
    try:
        rows = [json.loads(line) for line in given.rows.read_text().splitlines()]
        machine = next(r["machine"] for r in rows if r["machine"])
    except (OSError, ValueError, KeyError, StopIteration) as error:
        print(
            f"error: {given.rows} holds no rows of h200_report.py ({type(error).__name__})", file=sys.stderr
        )
        return 2
    rows[0]["machine"] = machine
    given.out.write_text(figure(rows).to_html(include_plotlyjs="cdn"))
    print(f"wrote {given.out}: {len(rows)} tasks")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
