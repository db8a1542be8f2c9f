"""The page of a run: its report's blocks as pages of the site, with links to kernels."""

from __future__ import annotations

import warnings
from typing import Any

from ..archive.rows import ArchiveWarning
from ..errors import ArchiveError
from ..pages.charts import Point, choose_points, draw_attempts
from ..pages.safety import make_file_id
from ..report import chain, tables
from ..report.blocks import Report
from ..report.build import assemble_report
from ..report.fragments import convert_grid
from ..report.grids import AFTER, MAIN, lines
from ..report.lineage_rows import list_rows
from ..wording import label, share
from .json_records import dump_run_file
from .merging import MergedRun
from .standing import get_ratios
from .tables import Cell, Table, link_kernel, make_table, show_ratio
from .writing import Writer

MAX_STEPS, MAX_LINES, MAX_NODES = 60, 12, 200  # of the chain, of a step, of the lineage


def write_run(writer: Writer, merged: MergedRun) -> None:
    """Write the page and the JSON file."""
    run, file_id = _leave_out_settings(merged), make_file_id(merged.run.run_id)
    source = f"api/runs/{file_id}.json"
    writer.write_json(source, dump_run_file(merged))
    report = _assemble(run)
    grids = [grid for make in (*MAIN, *AFTER) if make is not tables.attempts and (grid := make(report)).rows]
    nodes = report.lineage[:MAX_NODES]
    writer.write_page(
        f"runs/{file_id}.html", "run.html", run=run.run, report=report, lines=_describe(report), chart=_draw(merged),
        attempts=_tabulate_attempts(report, source), chain=_list_steps(report), further_steps=max(0, len(report.chain) - MAX_STEPS),
        lineage=list_rows(nodes), further_nodes=len(report.lineage) - len(nodes),
        tables=[convert_grid(g, source) for g in [*grids, tables.environment(report)]],
    )  # fmt: skip


def _assemble(merged: MergedRun) -> Report:
    """Assemble the report; where a row that it tells of is damaged, without attempts and with a warning."""
    try:
        return assemble_report(merged.archive, merged.run, list(merged.entries))
    except ArchiveError as error:
        warnings.warn(
            f"run {merged.run.run_id} is shown without its attempts: {error}", ArchiveWarning, stacklevel=2
        )
        return assemble_report(merged.archive, merged.run, [])


def _leave_out_settings(merged: MergedRun) -> MergedRun:
    """Leave the run's budget alone of its settings, which may name servers and paths."""
    budget = {k: v for k, v in merged.run.config.items() if k == "budget"}
    summary = merged.run.summary
    update = {
        "config": budget,
        "summary": summary.model_copy(update={"base_url": ""}) if summary is not None else None,
    }
    return MergedRun(merged.run.model_copy(update=update), merged.entries, merged.archive)


def _describe(report: Report) -> list[str]:
    ends = [f"Stopped: {report.stopped}"] if report.stopped else []
    return [
        f"Outcomes: {tables.stages(report)}. Time: {tables.wall(report)}.",
        *(f"{t}." for t in [*ends, *lines(report)]),
    ]


def _tabulate_attempts(report: Report, source: str) -> Table:
    rows = []
    for a in report.attempts:
        status = a.status if a.kind == "search" else f"{a.status} ({a.kind})"
        limit = Cell(share(a.limit_share) if a.limit_share else "", kind="n")
        speedup = show_ratio(a.speedup if a.status == "ok" else None)
        kernel = link_kernel(a.label, a.candidate_id, "" if a.origin == "local" else "imported")
        rows.append(
            (Cell(str(a.number), kind="n"), kernel, a.operator, status, speedup, limit, a.reason or a.detail)
        )
    columns = ("#", "kernel", "operator", "outcome", "over the fastest baseline", "of the limit", "detail")
    return make_table("Attempts in order", columns, rows, source)


def _list_steps(report: Report) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(chain.heading(step), list(chain.lines(step))[:MAX_LINES]) for step in report.chain[:MAX_STEPS]]


def _draw(merged: MergedRun) -> Any:
    points = [
        Point(
            e.number,
            label(e.candidate),
            e.result.status,
            e.result.speedup if get_ratios(e) else None,
            e.result.confirmed,
        )
        for e in merged.entries
    ]
    return draw_attempts(choose_points(points), len(points))
