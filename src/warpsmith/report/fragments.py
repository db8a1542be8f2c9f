"""Tables of reports as the tables of pages."""

from __future__ import annotations

from ..pages.tables import MAX_ROWS, Cell, Row, Table
from .tables import Grid

LONG = 24  # characters from which on a cell gets more room


def convert_grid(grid: Grid, source: str = "", most: int = MAX_ROWS, stacked: bool = False) -> Table:
    """Convert a table to that of a page, with its first rows. `source`: the page's file that has all."""
    rows = [
        Row(
            tuple(Cell(text, kind=_find_kind(text, i in grid.numbers)) for i, text in enumerate(row)),
            strong=number in grid.strong,
        )
        for number, row in enumerate(grid.rows[:most])
    ]
    return Table(grid.title, grid.columns, tuple(rows), len(grid.rows), source, stacked)


def _find_kind(text: str, number: bool) -> str:
    return "n" if number else "long" if len(text) > LONG else ""
