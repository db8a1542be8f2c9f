"""A report for the terminal: rich tables; plain text, without colour, in pipes."""

from __future__ import annotations

import io

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ..wording import speed
from . import chain, tables
from .blocks import Report, TreeNode
from .grids import grids, lines
from .tables import Grid

WIDTH = 120
COLOURS = {
    "win": "bold green",
    "no-win": "bold yellow",
    "too-busy": "bold yellow",
    "failed": "bold red",
    "unfinished": "bold yellow",
}


def render_text(report: Report, width: int = WIDTH) -> str:
    """The whole report as plain text."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=False, color_system=None)
    console.print(renderable(report, terminal=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def renderable(report: Report, terminal: bool = True) -> RenderableType:
    """The same for a console of the caller's; on a terminal the lineage is drawn as a tree."""
    parts: list[RenderableType] = [Text(report.headline, style=COLOURS.get(report.status, "bold"))]
    if report.claim is not None and report.claim.eager_text:
        parts.append(Text(f"against eager: {report.claim.eager_text}"))
    if report.claim is not None:
        parts.append(Text(f"labels: {', '.join(report.claim.labels) or 'none'}"))
    if report.reason:
        parts.append(Text(f"why: {report.reason}"))
    parts += [Text(f"note: {w}", style="yellow") for w in report.warnings]
    parts.append(Text(f"judged {report.evaluations}: {tables.stages(report)}; {tables.wall(report)}"))
    if report.stopped:
        parts.append(Text(f"stopped: {report.stopped}"))
    parts += [Text(line) for line in lines(report)]
    for grid in grids(report):
        parts += ["", _table(grid)]
    if report.lineage:
        parts += ["", _tree(report) if terminal else _lines(report), Text(tables.describe_comparison(report))]
    if report.evidence:
        parts += ["", _evidence(report)]
    if report.chain:
        parts += ["", _chain(report)]
    if report.uses:
        parts += ["", _uses(report)]
    parts += ["", _table(tables.environment(report)), "", Text("Commands", style="bold")]
    parts += [Text(f"  {c}") for c in report.commands]
    return Group(*parts)


def _table(grid: Grid) -> Table:
    table = Table(title=grid.title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for index, column in enumerate(grid.columns):
        table.add_column(column, justify="right" if index in grid.numbers else "left", overflow="fold")
    for index, row in enumerate(grid.rows):
        table.add_row(*(Text(cell) for cell in row), style="bold" if index in grid.strong else None)
    return table


def _tree(report: Report) -> RenderableType:
    root = Tree(Text("Lineage", style="bold"))
    branches: dict[str, Tree] = {}
    for node in report.lineage:
        parent = next((branches[p] for p in node.parents if p in branches), root)
        also = f" (also from {', '.join(p[:6] for p in node.parents[1:])})" if len(node.parents) > 1 else ""
        style = "bold" if node.on_path else ""
        branches[node.candidate_id] = parent.add(Text(_leaf(node) + also, style=style))
    return root


def _lines(report: Report) -> RenderableType:
    """The lineage without drawing: a line each in the order judged, which names its parents."""
    numbers = {n.candidate_id: f"#{n.number}" for n in report.lineage}
    lines = [Text("Lineage (*: the way to the winner)")]
    for node in report.lineage:
        parents = " and ".join(numbers[p] for p in node.parents if p in numbers)
        mark, origin = "*" if node.on_path else " ", f", from {parents}" if parents else ""
        lines.append(Text(f"{mark} {_leaf(node)}{origin}"))
    return Group(*lines)


def _leaf(node: TreeNode) -> str:
    outcome = f"{node.speedup:.2f}×" if node.speedup else node.status
    return f"#{node.number} {node.label} [{node.operator}] {outcome}"


def _evidence(report: Report) -> RenderableType:
    lines: list[RenderableType] = [Text("How the winner came about", style="bold")]
    for step in report.evidence:
        gain = f", expected {step.expected_gain:.2f}×" if step.expected_gain else ""
        measured = f", measured {speed(step.measured)}" if step.measured else ""
        bound = f" ({step.bottleneck}-bound)" if step.bottleneck else ""
        lines.append(Text(f"  {step.label} [{step.operator}, {step.model}]{bound}{gain}{measured}"))
        lines += [Padding(Text(line), (0, 0, 0, 6)) for line in (step.reason, *step.evidence) if line]
    return Group(*lines)


def _chain(report: Report) -> RenderableType:
    lines: list[RenderableType] = [Text(chain.TITLE, style="bold")]
    for step in report.chain:
        lines.append(Text(f"  {step.number}. {chain.heading(step)}"))
        lines += [Padding(Text(f"{label}: {text}"), (0, 0, 0, 6)) for label, text in chain.lines(step)]
    return Group(*lines)


def _uses(report: Report) -> RenderableType:
    lines: list[RenderableType] = [Text("Use it", style="bold")]
    for use in report.uses:
        lines += [
            Text(f"  {use.title}"),
            *(Padding(Text(c), (0, 0, 0, 6)) for c in (*use.shell, *use.python) if c),
        ]
    return Group(*lines)
