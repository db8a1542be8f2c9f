"""Tables of pages as plain data, which one template lays out: cells with links, keys to sort by, and a caption."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..records import Ratio
from ..records.intervals import find_worth
from ..report.tables import Grid
from ..report.wording import baseline_name, interval
from .safety import make_file_id

MAX_ROWS = 200  # of a table on a page; the JSON file has all


@dataclass(frozen=True)
class Cell:
    text: str
    href: str = ""  # from the site's root
    kind: str = ""  # class of the style: "n" lines up on the right, "badge …"
    sort: str = ""  # what it is sorted by, where that is not its text
    note: str = ""  # smaller, below


@dataclass(frozen=True)
class Row:
    cells: tuple[Cell, ...]
    facets: dict[str, str] = field(default_factory=dict)  # what the script filters by


@dataclass(frozen=True)
class Table:
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    total: int  # rows that there are
    source: str = ""  # the file that has all rows, from the site's root


def make_table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell | str]],
    source: str = "",
    most: int = MAX_ROWS,
) -> Table:
    """Make a table of its first rows."""
    lines = [Row(tuple(c if isinstance(c, Cell) else Cell(c) for c in row)) for row in rows]
    return Table(caption, tuple(columns), tuple(lines[:most]), len(lines), source)


def convert_grid(grid: Grid, source: str = "", most: int = MAX_ROWS) -> Table:
    """Convert a table of a report."""
    rows = [
        [Cell(text, kind="n" if i in grid.numbers else "") for i, text in enumerate(row)] for row in grid.rows
    ]
    return make_table(grid.title, grid.columns, rows, source, most)


def link_kernel(text: str, candidate_id: str, note: str = "") -> Cell:
    return Cell(text, href=f"kernels/{make_file_id(candidate_id)}.html", note=note)


def link_run(run_id: str) -> Cell:
    return Cell(run_id, href=f"runs/{make_file_id(run_id)}.html")


def mark_outcome(outcome: str, note: str = "") -> Cell:
    return Cell(outcome, kind=f"badge {outcome.replace(' ', '-')}", note=note)


def show_ratio(ratio: Ratio | None, name: bool = True) -> Cell:
    """Show a speedup with its interval, and its baseline below it; it is sorted by its low end."""
    if ratio is None:
        return Cell("", kind="n", sort="0")
    note = f"over {baseline_name(ratio.baseline)}" if name else ""
    return Cell(interval(ratio), kind="n", sort=f"{find_worth(ratio):.6f}", note=note)
