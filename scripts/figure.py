"""Draws docs/h200.svg: each of KernelBench's tasks of levels 1 and 2 on an H200, over its fastest baseline.

In: the rows of `results/h200/kernelbench.jsonl`. Out: an SVG whose colours are legible on white and on black.
`python scripts/figure.py` writes it; `tests/test_public.py` checks that it is current.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "results" / "h200" / "kernelbench.jsonl"
FIGURE = ROOT / "docs" / "h200.svg"

WIDTH, HEIGHT = 760, 270
TOP, BOTTOM, LEFT, PANEL, GAP = 34, 236, 44, 330, 48  # pixels
LEAST, MOST = 0.7, 28.0  # speedups at the bottom and the top
TICKS = (1, 2, 4, 8, 16)
INK, WIN, ALGORITHMIC = "#78838f", "#2f81f7", "#d9822b"


def figure(rows: list[dict[str, Any]]) -> str:
    """The whole picture as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" font-family="sans-serif" font-size="12" fill="{INK}">',
        "<title>Speedup over the best baseline, KernelBench levels 1 and 2 on one H200</title>",
    ]
    for number, level in enumerate(("level1", "level2")):
        panel = [row for row in rows if row["task"].startswith(level)]
        parts += draw_panel(panel, f"level {number + 1}", LEFT + number * (PANEL + GAP))
    parts += draw_legend()
    return "\n".join([*parts, "</svg>"]) + "\n"


def draw_panel(rows: list[dict[str, Any]], name: str, left: float) -> list[str]:
    """The tasks of one level, slowest first, a dot each."""
    wins = sum(row["status"] == "win" for row in rows)
    text = f"{name}: {wins} of {len(rows)} won, geometric mean {geometric_mean(rows):.2f}×"
    parts = [f'<text x="{left}" y="16" font-weight="bold">{text}</text>']
    for tick in TICKS:
        y, width = height_of(tick), 1.4 if tick == 1 else 0.4
        parts.append(
            f'<line x1="{left}" x2="{left + PANEL}" y1="{y:.1f}" y2="{y:.1f}" stroke="{INK}" stroke-width="{width}"/>'
        )
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{tick}×</text>')
    for place, row in enumerate(sorted(rows, key=speedup)):
        x = left + (place + 0.5) * PANEL / len(rows)
        parts.append(draw_dot(x, height_of(speedup(row)), row))
    return parts


def draw_dot(x: float, y: float, row: dict[str, Any]) -> str:
    look = f'fill="{colour_of(row)}"' if row.get("ratios") else f'fill="none" stroke="{INK}"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" {look}/>'


def draw_legend() -> list[str]:
    entries = (
        (f'fill="{WIN}"', "win"),
        (f'fill="{ALGORITHMIC}"', "win, algorithmic"),
        (f'fill="{INK}"', "no win"),
        (f'fill="none" stroke="{INK}"', "no result"),
    )
    parts, x = [], float(LEFT)
    for look, text in entries:
        parts += [
            f'<circle cx="{x + 4}" cy="256" r="3.4" {look}/>',
            f'<text x="{x + 13}" y="260">{text}</text>',
        ]
        x += 40 + 6.4 * len(text)
    note = "each dot a task; over the fastest of all baselines"
    return [*parts, f'<text x="{WIDTH - 8}" y="260" text-anchor="end">{note}</text>']


def speedup(row: dict[str, Any]) -> float:
    """The median ratio to the fastest baseline; 1 for a task without a confirmed result."""
    return min((ratio[0] for ratio in row.get("ratios", {}).values()), default=1.0)


def geometric_mean(rows: list[dict[str, Any]]) -> float:
    """Over all tasks; one without a win counts 1."""
    logs = [math.log(speedup(row)) for row in rows if row["status"] == "win"]
    return math.exp(sum(logs) / len(rows))


def colour_of(row: dict[str, Any]) -> str:
    if row["status"] != "win":
        return INK
    return ALGORITHMIC if "algorithmic" in row["labels"] else WIN


def height_of(ratio: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * math.log(ratio / LEAST) / math.log(MOST / LEAST)


def drawn() -> str:
    """The figure of the committed rows."""
    return figure([json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()])


if __name__ == "__main__":
    FIGURE.write_text(drawn(), encoding="utf-8")
    print(f"wrote {FIGURE.relative_to(ROOT)}")
