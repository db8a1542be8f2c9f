"""A page of tables (`Page`) in every format: text, markdown, CSV, one self-contained HTML file, JSON.

In: paragraphs, grids of text, charts for HTML, and the same facts as data. Out: text. Names and reasons may come from another
machine's file, so each writer escapes them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from ..pages.rendering import make_environment, render_file
from .fragments import convert_grid
from .markdown import escape, table
from .tables import Grid

FORMULA = ("=", "+", "-", "@")  # what a spreadsheet would compute instead of show


@dataclass(frozen=True)
class Page:
    title: str
    lead: tuple[str, ...]  # paragraphs above the tables
    grids: tuple[Grid, ...]  # those without rows are left out
    rows: Grid  # for CSV: one row a task, numbers as such
    data: Any  # for JSON
    charts: tuple[tuple[str, Markup], ...] = ()  # for HTML: (title, drawing); empty ones are left out


def write(page: Page, format: str) -> str:
    """The page as "text", "markdown", "csv", "html" or "json"."""
    return WRITERS[format](page)


def format_of(path: Path) -> str:
    """By the file's ending; markdown for one that says nothing."""
    return SUFFIXES.get(path.suffix.lower(), "markdown")


def write_text(page: Page) -> str:
    return "\n\n".join([page.title, *page.lead, *(plain(g) for g in page.grids if g.rows)]) + "\n"


def plain(grid: Grid) -> str:
    """Columns side by side, a line a row, nothing wrapped or cut."""
    lines = [[" ".join(cell.split()) or "-" for cell in line] for line in (grid.columns, *grid.rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(grid.columns))]
    padded = [
        [c.rjust(w) if i in grid.numbers else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    ]  # fmt: skip
    return "\n".join([grid.title, *("  ".join(line).rstrip() for line in padded)])


def write_markdown(page: Page) -> str:
    parts = [f"# {escape(page.title)}", *(escape(p) for p in page.lead)]
    for grid in page.grids:
        parts += [f"## {escape(grid.title)}", table(grid)] if grid.rows else []
    return "\n\n".join(parts) + "\n"


def write_csv(page: Page) -> str:
    """RFC 4180, the tasks alone. A text that a spreadsheet would run as a formula gets an apostrophe before it."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(page.rows.columns)
    for row in page.rows.rows:
        guarded = enumerate(row)
        writer.writerow(
            f"'{c}" if i not in page.rows.numbers and c.startswith(FORMULA) else c for i, c in guarded
        )
    return out.getvalue()


def write_html(page: Page) -> str:
    """The page. It loads nothing and runs nothing: the content security policy forbids it."""
    tables = [convert_grid(grid, most=len(grid.rows), stacked=True) for grid in page.grids if grid.rows]
    charts = [(title, drawn) for title, drawn in page.charts if drawn]
    template = _load_environment().get_template("page.html")
    return render_file(
        page.title, Markup(template.render(page=page, tables=tables, charts=charts, contents=[]))
    )


@cache
def _load_environment() -> Environment:
    return make_environment(Path(__file__).parent / "templates")


def write_json(page: Page) -> str:
    return json.dumps(page.data, indent=2) + "\n"


WRITERS: dict[str, Callable[[Page], str]] = {
    "text": write_text, "markdown": write_markdown, "csv": write_csv, "html": write_html, "json": write_json,
}  # fmt: skip
SUFFIXES = {".txt": "text", ".md": "markdown", ".csv": "csv", ".html": "html", ".json": "json"}
