"""A report as GitHub-flavoured markdown. Whatever the archive holds is escaped: it may come from another
machine.
"""

from __future__ import annotations

import re

from ..progress import counted
from ..wording import speed
from . import chain, tables
from .blocks import Report, Source
from .grids import grids, lines
from .tables import Grid


def render_markdown(report: Report) -> str:
    parts = [f"# {escape(report.task)}: {report.status}", f"**{escape(report.headline)}**"]
    if report.claim is not None and report.claim.eager_text:
        parts.append(f"Against eager: {escape(report.claim.eager_text)}.")
    if report.claim is not None:
        parts.append(f"Labels: {escape(', '.join(report.claim.labels)) or 'none'}.")
    if report.reason:
        parts.append(f"Why: {escape(report.reason)}.")
    parts += [f"> {escape(w)}" for w in report.warnings]
    parts.append(f"Judged {report.evaluations}: {tables.stages(report)}. Time: {tables.wall(report)}.")
    if report.stopped:
        parts.append(f"Stopped: {escape(report.stopped)}.")
    parts += [f"{escape(line[0].upper() + line[1:])}." for line in lines(report)]
    for grid in grids(report):
        parts += _section(grid)
    parts += [*_evidence(report), *_chain(report)]
    if report.sources:
        parts.append("## Winning source")
        parts += [_source(source) for source in report.sources]
    parts += [*_change(report), *_uses(report)]
    parts += _section(tables.environment(report))
    parts += ["## Commands", fence_code("\n".join(report.commands), "sh")]
    return "\n\n".join(parts) + "\n"


def table(grid: Grid) -> str:
    """The grid as a markdown table; rows that stand out are bold."""
    rule = ["---:" if i in grid.numbers else "---" for i in range(len(grid.columns))]
    lines = [_row([escape(c) for c in grid.columns]), _row(rule)]
    for index, row in enumerate(grid.rows):
        cells = [escape(cell) for cell in row]
        lines.append(_row([f"**{c}**" if c else c for c in cells] if index in grid.strong else cells))
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text that markdown and the HTML in it leave alone."""
    flat = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", flat).replace("\\<", "&lt;").replace("\\>", "&gt;")


def fence_code(text: str, language: str) -> str:
    """A code block whose fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _section(grid: Grid) -> list[str]:
    return [f"## {grid.title}", table(grid)] if grid.rows else []


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _evidence(report: Report) -> list[str]:
    if not report.evidence:
        return []
    lines = ["## How the winner came about"]
    for number, step in enumerate(report.evidence, 1):
        measured = f", measured {speed(step.measured)}" if step.measured else ""
        expected = f", expected {step.expected_gain:.2f}×" if step.expected_gain else ""
        items = [
            f"{number}. **{escape(step.label)}** ({step.operator}, {escape(step.model)}{expected}{measured})"
        ]
        items += [f"   - {escape(line)}" for line in (step.reason, *step.evidence) if line]
        lines.append("\n".join(items))
    return lines


def _chain(report: Report) -> list[str]:
    steps = []
    for step in report.chain:
        items = [f"   - {label}: {escape(text)}" for label, text in chain.lines(step)]
        steps.append("\n".join([f"{step.number}. **{escape(chain.heading(step))}**", *items]))
    return [f"## {chain.TITLE}", *steps] if steps else []


def _change(report: Report) -> list[str]:
    change = report.change
    if change is None or not change.lines:
        return []
    parent = f"#{change.number} {change.label}" if change.number else change.label
    heading = "## Difference from its parent"
    return [heading, f"Parent: {escape(parent)}", fence_code("\n".join(change.lines), "diff")]


def _uses(report: Report) -> list[str]:
    parts = []
    for use in report.uses:
        parts += [f"### {escape(use.title)}", fence_code("\n".join(use.shell), "sh")]
        parts += [fence_code("\n".join(use.python), "python")] if use.python else []
    return ["## Use it", *parts] if parts else []


def _source(source: Source) -> str:
    values = " ".join(f"{k}={v}" for k, v in source.values.items())
    about = f"`{escape(source.title)}` covers {counted(len(source.nodes), 'node')}" + (
        f", {escape(values)}" if values else ""
    )
    return about + "\n\n" + fence_code(source.source, "cpp")
