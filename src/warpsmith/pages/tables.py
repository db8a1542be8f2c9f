"""Tables of pages as plain data, which one template lays out: cells with links, keys to sort by, and a caption."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

MAX_ROWS = 200  # of a table on a page; the JSON file has all


@dataclass(frozen=True)
class Cell:
    text: str
    href: str = ""  # from the site's root
    kind: str = ""  # class of the style: "n" lines up on the right, "long" gets more room, "badge …"
    sort: str = ""  # what it is sorted by, where that is not its text
    note: str = ""  # smaller, below


@dataclass(frozen=True)
class Row:
    cells: tuple[Cell, ...]
    facets: dict[str, str] = field(default_factory=dict)  # what the script filters by
    strong: bool = False  # it stands out


@dataclass(frozen=True)
class Table:
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    total: int  # rows that there are
    source: str = ""  # the file that has all rows, from the site's root
    stacked: bool = False  # on a phone a row becomes a block with a line for each cell


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
