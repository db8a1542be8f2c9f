"""What the canaries of campaigns took when these began and when they ended: whether the machine changed meanwhile, or from one to the next.

In: folders of campaigns (`h200_campaign.py`), rows of earlier ones. Out: a row for each canary that was judged, and a table with a line for
each canary of each campaign.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpsmith.bundles.bundle import read_bundle
from warpsmith.bundles.journal import ResultRow, TaskRow, read_rows
from warpsmith.errors import WarpsmithError
from warpsmith.report.tables import Grid

Row = dict[str, Any]
FIRST, LAST = "first", "last"
# Bound by memory, and by a product of the library; their units by hand stay as they are.
CANARIES = ("level1/95", "level2/29")


def judged(campaigns: Sequence[Path]) -> list[Row]:
    """{"campaign", "when", "canary", "us", "eager_us", "machine"}: `us` as confirmed, else as searched."""
    folders = [f for c in campaigns for f in sorted((c / "canaries").glob("*-*-*"))]
    return [row for folder in folders if (row := _row(folder)) is not None]


def _row(folder: Path) -> Row | None:
    campaign, when, place = folder.name.split("-", 2)
    try:
        rows = read_rows(folder, read_bundle(folder / "bundle").root)
    except WarpsmithError:
        return None  # it was not begun, or not written to its end
    timed = [r.result.timing for r in rows if isinstance(r, ResultRow) and r.result.status == "ok"]
    opened = [r for r in rows if isinstance(r, TaskRow) and r.status == "opened"]
    if not timed or timed[-1] is None or not opened:
        return None
    eager = next((b.median_us for b in opened[-1].baselines if b.name == "eager" and b.ok), None)
    return {
        "campaign": campaign, "when": when, "canary": place.replace("_", "/"), "us": round(timed[-1].median_us, 2),
        "eager_us": eager and round(eager, 2), "machine": opened[-1].environment.device,
    }  # fmt: skip


def kept(file: Path, found: Sequence[Row]) -> list[Row]:
    """With what the file already holds, which is written anew; nothing where there is nothing."""
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    rows = {(r["campaign"], r["canary"], r["when"]): r for r in (*known, *found)}
    made = [rows[key] for key in sorted(rows)]
    if made:
        file.write_text("".join(json.dumps(r) + "\n" for r in made))
    return made


def drift(rows: Sequence[Row]) -> Grid:
    by = {(r["campaign"], r["canary"], r["when"]): r for r in rows}
    lines = [_line(campaign, canary, by) for campaign, canary in sorted({key[:2] for key in by})]
    head = ("campaign", "canary", "first µs", "last µs", "last / first", "eager, first µs", "eager, last µs")
    return Grid("", head, tuple(lines), frozenset(range(2, 7)))


def _line(campaign: str, canary: str, by: dict[tuple[str, str, str], Row]) -> tuple[str, ...]:
    first, last = (by.get((campaign, canary, when), {}) for when in (FIRST, LAST))
    ratio = f"{last['us'] / first['us']:.2f}" if first and last else ""
    times = [f"{r[name]:.0f}" if r.get(name) else "" for name in ("us", "eager_us") for r in (first, last)]
    return (campaign, canary, *times[:2], ratio, *times[2:])
