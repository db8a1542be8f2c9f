"""The map of all kernels: points whose neighbours have similar sources, coloured by family, technique or speedup; the same as a table."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Any

from ..pages.safety import clip, make_file_id, show_controls
from .neighbours import Dot, Neighbourhood
from .tables import Cell, Table, link_kernel, make_table
from .writing import Writer

SCALE = 1000  # of coordinates, whole numbers in the file


def write_map(writer: Writer, near: Neighbourhood) -> None:
    names: dict[str, dict[str, int]] = {"family": {}, "technique": {}, "task": {}, "outcome": {}, "label": {}}
    points = [_make_point(dot, xy, names) for dot, xy in zip(near.dots, near.points, strict=True)]
    lists = {kind: [show_controls(clip(n, 80)) for n in table] for kind, table in names.items()}
    writer.write_script("data/map.js", "addPoints", {"names": lists, "points": points})
    writer.write_json(
        "api/map.json",
        [
            {"kernel": d.id, "x": round(float(x), 4), "y": round(float(y), 4), "family": d.family, "technique": d.technique, "low": d.low}
            for d, (x, y) in zip(near.dots, near.points, strict=True)
        ],
    )  # fmt: skip
    writer.write_page("map.html", "map.html", table=_tabulate(near), total=len(near.dots))


def _make_point(dot: Dot, xy: Any, names: dict[str, dict[str, int]]) -> list[Any]:
    """Make [x, y, family, technique, task, outcome, label, low end, file]; names as numbers of their lists."""
    numbers = [
        names[kind].setdefault(getattr(dot, kind), len(names[kind]))
        for kind in ("family", "technique", "task", "outcome", "label")
    ]
    return [
        round(float(xy[0]) * SCALE),
        round(float(xy[1]) * SCALE),
        *numbers,
        round(dot.low, 2),
        make_file_id(dot.id),
    ]


def _tabulate(near: Neighbourhood) -> Table:
    """Tabulate the techniques of each family: the map in words."""
    groups: dict[tuple[str, str], list[Dot]] = defaultdict(list)
    for dot in near.dots:
        groups[dot.family, dot.technique].append(dot)
    rows = []
    for (family, technique), dots in sorted(
        groups.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1])
    ):
        best = max(dots, key=lambda d: (d.outcome == "win", d.low, d.id))
        lows = [d.low for d in dots if d.low > 0]
        middle = f"{median(lows):.2f}×" if lows else ""
        low = f"low end {best.low:.2f}×, {best.outcome}" if best.low > 0 else best.outcome
        kernels, wins = (
            Cell(str(len(dots)), kind="n"),
            Cell(str(sum(d.outcome == "win" for d in dots)), kind="n"),
        )
        rows.append(
            (family, technique, kernels, wins, Cell(middle, kind="n"), link_kernel(best.task, best.id, low))
        )
    columns = ("family", "technique", "kernels", "wins", "middle low end", "best")
    return make_table("The same in words: techniques of each family", columns, rows, "api/map.json")
