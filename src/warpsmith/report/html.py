"""A report as one self-contained HTML file that opens offline, with the components of `pages/`.

Everything that comes from the archive is escaped, because an archive can hold another machine's text. A file stays below 800 kB:
where a part is cut, the page says how much is left out and where all of it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from ..pages.highlighting import (
    highlight_head,
    highlight_source,
    list_differences,
    mark_differences,
    mark_lines,
    take_lines,
)
from ..pages.rendering import make_environment, render_file
from ..pages.tables import Table
from ..progress import counted
from ..records.intervals import is_unknown
from ..wording import flops, interval, microseconds, share, speed
from . import chain, drawings, evolution, exchanges, profile_rows, tables
from .blocks import Evidence, Replaced, Report, Source
from .fragments import convert_grid
from .grids import lines
from .lineage_rows import list_rows

MAX_FILE_BYTES = 800_000


@dataclass(frozen=True)
class Room:
    """The most that parts of a page may take. `sources`: units whose source is shown; `lines`: of a step of the chain."""

    source_bytes: int
    diff_bytes: int
    rows: int
    sources: int
    steps: int
    lines: int


ROOMS = (
    Room(200_000, 60_000, 250, 60, 80, 16),
    Room(90_000, 30_000, 120, 30, 40, 10),
    Room(30_000, 8_000, 40, 10, 15, 5),
)


def render_html(report: Report) -> str:
    """The page. It loads nothing and runs nothing: the content security policy forbids it."""
    template, text = _load_environment().get_template("report.html"), ""
    for room in ROOMS:
        body = Markup(template.render(report=report, contents=[], **_describe(report, room)))
        text = render_file(f"{report.task}: {report.status}", body)
        if len(text.encode("utf-8", "replace")) <= MAX_FILE_BYTES:
            break
    return text


@cache
def _load_environment() -> Environment:
    return make_environment(Path(__file__).parent / "templates")


def _describe(report: Report, room: Room) -> dict[str, Any]:
    """Return what the template shows, as text, tables and charts."""

    def tabulate(grid: tables.Grid) -> Table:
        return convert_grid(grid, most=room.rows, stacked=True)

    return {
        "hero": _describe_hero(report), "facts": _list_facts(report), "summary": _summarise(report), "compared": tables.describe_comparison(report),
        "all_rows": f"warpsmith report {report.run_id} --format json",
        "times": drawings.draw_times(report), "speedups": drawings.draw_speedups(report), "baselines": tabulate(tables.baselines(report)),
        "progress": drawings.draw_progress(report), "stages": drawings.draw_stages(report), "attempts": tabulate(tables.attempts(report)),
        "search": [tabulate(make(report)) for make in (evolution.operators, evolution.islands, evolution.elites, exchanges.grid, tables.failures)],
        "shares": drawings.draw_shares(report), "roofline": drawings.draw_rates(report), "limit": _describe_limit(report),
        "profile": tabulate(profile_rows.profile(report)),
        "uses": [{"title": u.title, "shell": "\n".join(u.shell), "python": _highlight("\n".join(u.python))} for u in report.uses],
        "sources": _list_sources(report, room), "further_sources": max(0, len(report.sources) - room.sources),
        "change": take_lines(mark_differences(report.change.lines), room.diff_bytes) if report.change is not None else None,
        "replaced": [_describe_replaced(r, room) for r in report.replaced[: room.sources]], "reference": _mark_reference(report, room),
        "lineage": list_rows(report.lineage[: room.rows]), "further_nodes": max(0, len(report.lineage) - room.rows),
        "evidence": [_describe_evidence(step) for step in report.evidence[-room.steps :]],
        "chain": [(chain.heading(s), list(chain.lines(s))[: room.lines]) for s in report.chain[: room.steps]],
        "further_steps": max(0, len(report.chain) - room.steps),
        "proof": [tabulate(make(report)) for make in (tables.checks, tables.mutants)], "environment": tabulate(tables.environment(report)),
    }  # fmt: skip


def _highlight(python: str) -> Markup:
    return Markup("\n").join(highlight_source(python, "python")) if python else Markup("")


def _describe_hero(report: Report) -> str:
    return speed(report.claim.speedup) if report.claim is not None else ""


def _list_facts(report: Report) -> list[tuple[str, str]]:
    """(value, what it is)"""
    claim, facts = report.claim, []
    if claim is not None and not is_unknown(claim.speedup):
        facts += [
            (microseconds(claim.median_us), "median time"),
            (share(claim.limit_share), "of the machine's limit"),
        ]
    if claim is not None:
        facts.append(("yes" if claim.confirmed else "no", "confirmed in fresh processes"))
    return [*facts, (str(report.evaluations), "candidates judged"), (f"{report.seconds:.0f} s", "wall time")]


def _summarise(report: Report) -> str:
    text = f"Outcomes: {tables.stages(report)}. Time: {tables.wall(report)}."
    text += f" Stopped: {report.stopped}." if report.stopped else ""
    return text + "".join(f" {line[0].upper() + line[1:]}." for line in lines(report))


def _describe_limit(report: Report) -> str:
    limit = report.limit
    if limit is None:
        return ""
    moved = f"{_count_bytes(limit.least_bytes)} to move at {limit.bytes_per_second / 1e9:.1f} GB/s"
    work = f"{_count_flop(limit.flops)} at {flops(limit.flops_per_second)}"
    peaks = f" Measured {limit.peaks.text}." if limit.peaks is not None else ""
    return f"A call takes at least {microseconds(limit.seconds * 1e6)}: {moved}, {work}. It is {limit.bound}-bound.{peaks}"


def _count_bytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"


def _count_flop(count: int) -> str:
    return f"{count / 1e9:.3g} GFLOP" if count >= 1e9 else f"{count / 1e6:.3g} MFLOP"


def _list_sources(report: Report, room: Room) -> list[dict[str, Any]]:
    """List the units with their sources, which share the room."""
    shown, size, rows = report.sources[: room.sources], room.source_bytes, []
    for number, source in enumerate(shown):
        text, missing = highlight_head(source.source, source.language, size // (len(shown) - number))
        size -= len(text.encode())
        rows.append({"title": source.title, "about": _describe_source(source), "lines": text, "missing": missing,
                     "chips": [*(f"{k} = {v}" for k, v in source.values.items()), *(f"requires {r}" for r in source.requires)]})  # fmt: skip
    return rows


def _describe_source(source: Source) -> str:
    flags = f", built with {' '.join(source.compiler_flags)}" if source.compiler_flags else ""
    return f"covers {counted(len(source.nodes), 'graph node')}: {', '.join(source.nodes)}{flags}"


def _describe_replaced(replaced: Replaced, room: Room) -> dict[str, Any]:
    """Describe the operations that a unit stands for; where it states its own, the difference of both."""
    before, after = (
        "".join(f"{line}\n" for line in part) for part in (replaced.operations, replaced.rewrite)
    )
    size = room.diff_bytes // 2
    if after:
        text, missing = take_lines(mark_differences(list_differences(before, after)), size)
    else:
        text, missing = highlight_head(before, "python", size)
    alone = f", {microseconds(replaced.unit_us)} alone" if replaced.unit_us else ""
    return {
        "title": f"{replaced.technique}{alone}",
        "lines": text,
        "missing": missing,
        "rewritten": bool(after),
    }


def _mark_reference(report: Report, room: Room) -> tuple[Markup, int] | None:
    """Return the reference's text with the lines that the units stand for marked."""
    if not report.reference:
        return None
    numbers = {number for r in report.replaced for number in r.lines}
    lines, missing = highlight_head(report.reference, "python", room.diff_bytes)
    return Markup("\n").join(mark_lines(lines.split("\n"), numbers)), missing


def _describe_evidence(step: Evidence) -> tuple[str, str, list[str]]:
    facts = [f"{step.operator} by {step.agent or 'the search'} ({step.model})"]
    facts += [f"{step.bottleneck}-bound"] if step.bottleneck else []
    facts += [f"expected {step.expected_gain:.2f}×"] if step.expected_gain else []
    facts += (
        [f"measured {interval(step.measured)} over the best baseline"] if step.measured else [step.status]
    )
    about = " · ".join(f for f in facts if f)
    return step.label, about, [text for text in (step.reason, *step.evidence) if text]
