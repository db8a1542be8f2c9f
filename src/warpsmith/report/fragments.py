"""The pieces that every HTML page is made of: a grid as a table, a card around it, the style."""

from __future__ import annotations

from html import escape
from importlib import resources

from pygments.formatters import HtmlFormatter

from .tables import Grid


def grid_html(grid: Grid) -> str:
    """A table with its heading; empty when it has no rows."""
    if not grid.rows:
        return ""
    kind = ['class="n"' if i in grid.numbers else "" for i in range(len(grid.columns))]
    head = "".join(f"<th {k}>{escape(c)}</th>" for k, c in zip(kind, grid.columns, strict=True))
    rows = "".join(
        f"<tr{' class=strong' if i in grid.strong else ''}>"
        + "".join(f"<td {k}>{escape(cell)}</td>" for k, cell in zip(kind, row, strict=True))
        + "</tr>"
        for i, row in enumerate(grid.rows)
    )
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<h2>{escape(grid.title)}</h2><div class="scroll">{body}</div>'


def card(inner: str) -> str:
    return f'<section class="card">{inner}</section>' if inner else ""


def style() -> str:
    css = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    light = HtmlFormatter(style="friendly").get_style_defs(".hl")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".hl")
    code = f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"
    return f"{code}\n{css}\npre.hl {{ background: var(--code); }}"
