"""Cells of the site's tables: links to pages, outcomes, speedups; with the tables of `pages/` that they go into."""

from __future__ import annotations

from ..pages.safety import make_file_id
from ..pages.tables import Cell, Row, Table, make_table
from ..records import Ratio
from ..records.intervals import find_worth
from ..wording import baseline_name, interval


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


__all__ = [
    "Cell", "Row", "Table", "link_kernel", "link_run", "make_table", "mark_outcome", "show_ratio",
]  # fmt: skip
