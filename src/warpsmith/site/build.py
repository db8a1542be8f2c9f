"""Build a site: a task at a time, then the pages that have a line of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import __version__
from ..archive.reading import ArchiveReader
from ..pages.safety import clip, make_file_id, show_controls
from ..progress import counted
from ..wording import label
from .folder import GENERATOR, replace_folder
from .json_records import dump_ratio, dump_standing
from .kernel_pages import Kernel, list_kernels, write_kernel
from .merging import MergedArchives, TaskRecords
from .methods import write_methods
from .run_pages import write_run
from .standing import Standing, list_standings, rank
from .tables import Cell, Row, Table, make_table
from .task_pages import describe_best, write_task
from .writing import Writer

FIRST_ROWS = 100  # of the leaderboard, on its page; the script brings the others
API_FILES = (
    ("api/index.json", "the list of these files"),
    ("api/leaderboard.json", "the rows of the leaderboard, best first"),
    ("api/tasks.json", "a line for each task; api/tasks/ID.json has its records, results and runs"),
    (
        "api/kernels.json",
        "a line for each kernel; api/kernels/ID.json has the records of the candidate and its results",
    ),
    ("api/runs.json", "a line for each run; api/runs/ID.json has the run and its attempts in order"),
)
COLUMNS = ("task", "outcome", "over the baselines", "of the limit", "kernel", "machine", "target", "judged")


@dataclass(frozen=True)
class SiteCounts:
    tasks: int
    kernels: int
    runs: int
    pages: int
    bytes: int


@dataclass
class Lines:
    """A line of everything, for the pages of all tasks."""

    rows: list[tuple[tuple[Any, ...], Row, dict[str, Any]]] = field(
        default_factory=list
    )  # (order, row, JSON)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    kernels: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    search: list[tuple[str, str, str, str]] = field(default_factory=list)  # (kind, page, title, words)


def build_site(
    archives: Sequence[ArchiveReader],
    out: Path,
    force: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> SiteCounts:
    """Write a site of the archives. Raises UsageError where `out` holds other files, or a site and `force` is not given."""
    merged, lines = MergedArchives(archives), Lines()
    with replace_folder(out, force) as folder:
        writer = Writer(folder)
        listing = merged.list_tasks()
        for number, (task_id, name) in enumerate(listing, 1):
            tell(f"task {number} of {len(listing)}: {show_controls(name)}")
            records = merged.load(task_id)
            if records is not None:
                _write_task(writer, merged, records, lines)
        _write_overviews(writer, lines)
        writer.write_static()
        sizes = writer.count_bytes()
    return SiteCounts(len(lines.tasks), len(lines.kernels), len(lines.runs), writer.pages, sizes)


def _write_task(writer: Writer, merged: MergedArchives, records: TaskRecords, lines: Lines) -> None:
    standings, kernels = list_standings(records), list_kernels(records)
    titles = {k.candidate.id: label(k.candidate) for k in kernels}
    for kernel in kernels:
        write_kernel(writer, kernel, records, titles, merged)
    for run in records.runs:
        write_run(writer, run)
    write_task(writer, records, standings, kernels)
    task = records.task
    page = f"tasks/{make_file_id(task.id)}.html"
    lines.tasks.append(
        {
            "id": task.id,
            "name": task.name,
            "suite": task.suite,
            "admitted": records.admitted,
            "kernels": len(kernels),
            "page": page,
        }
    )
    operators = " ".join(
        dict.fromkeys(n.op.removeprefix("aten.").removesuffix(".default") for n in task.graph.nodes)
    )
    lines.search.append(("task", page, clip(task.name, 120), clip(f"{task.suite} {operators}", 400)))
    lines.rows += [
        (_find_order(s, task.name), _make_row(s, records), dump_standing(s, records)) for s in standings
    ]
    if not standings:
        lines.rows.append(_make_empty_row(records))
    lines.kernels += [_make_kernel_line(k, records) for k in kernels]
    lines.search += [_make_search_line(k, records) for k in kernels]
    for run in records.runs:
        where = f"runs/{make_file_id(run.run.run_id)}.html"
        lines.runs.append(
            {"id": run.run.run_id, "task": task.id, "started_at": run.run.started_at, "page": where}
        )


def _find_order(standing: Standing, name: str) -> tuple[Any, ...]:
    """Order rows: wins first, then by what is sure; those without a kernel last."""
    best = rank(standing.entry) if standing.entry is not None else (False, False, False, 0.0)
    counts = standing.outcome not in ("quarantined", "unexplained", "nothing judged")
    return (
        not counts,
        standing.outcome != "win",
        *(-float(part) for part in best),
        name,
        standing.target,
        standing.machine,
    )


def _make_row(standing: Standing, records: TaskRecords) -> Row:
    kernel, outcome, speedup, limit = describe_best(standing)
    judged = Cell(
        str(standing.kernels), kind="n", note=f"{standing.failed} failed" if standing.failed else ""
    )
    name = Cell(
        records.task.name, href=f"tasks/{make_file_id(records.task.id)}.html", note=records.task.suite
    )
    facets = {
        "outcome": standing.outcome,
        "machine": show_controls(clip(standing.machine)),
        "target": show_controls(clip(standing.target)),
    }
    cells = (name, outcome, speedup, limit, kernel, Cell(standing.machine), Cell(standing.target), judged)
    return Row(cells, facets)


def _make_empty_row(records: TaskRecords) -> tuple[tuple[Any, ...], Row, dict[str, Any]]:
    """Make the row of a task that nobody has run."""
    standing = Standing("", "", "nothing judged", None, 0, 0)
    return (
        _find_order(standing, records.task.name),
        _make_row(standing, records),
        dump_standing(standing, records),
    )


def _make_kernel_line(kernel: Kernel, records: TaskRecords) -> dict[str, Any]:
    candidate, result = kernel.candidate, kernel.shown.result
    return {
        "id": candidate.id, "task": records.task.id, "target": candidate.target, "label": label(candidate), "outcome": kernel.outcome,
        "speedup": dump_ratio(result.speedup if result.status == "ok" else None), "page": f"kernels/{make_file_id(candidate.id)}.html",
    }  # fmt: skip


def _make_search_line(kernel: Kernel, records: TaskRecords) -> tuple[str, str, str, str]:
    candidate = kernel.candidate
    families = " ".join(dict.fromkeys(f"{u.family} {u.language}" for u in candidate.units))
    words = f"{kernel.outcome} {records.task.name} {candidate.target} {families} {candidate.lineage.operator} {candidate.id}"
    return (
        "kernel",
        f"kernels/{make_file_id(candidate.id)}.html",
        clip(label(candidate), 120),
        clip(words, 300),
    )


def _write_overviews(writer: Writer, lines: Lines) -> None:
    rows = sorted(lines.rows, key=lambda row: row[0])
    _write_leaderboard(writer, lines, [row for _, row, _ in rows])
    writer.write_json("api/leaderboard.json", [data for _, _, data in rows])
    for name, data in (("tasks", lines.tasks), ("kernels", lines.kernels), ("runs", lines.runs)):
        writer.write_json(f"api/{name}.json", data)
    files = {Path(path).stem: path for path, _ in API_FILES}
    patterns = {kind: f"api/{kind}/ID.json" for kind in ("tasks", "kernels", "runs")}
    writer.write_json(
        "api/index.json", {"generator": f"{GENERATOR} {__version__}", "files": files, "records": patterns}
    )
    cells = [(Cell(path, href=path), text) for path, text in API_FILES]
    writer.write_page("json.html", "json.html", table=make_table("Files", ("file", "what it holds"), cells))
    search = [
        (kind, page, show_controls(title), show_controls(words)) for kind, page, title, words in lines.search
    ]
    writer.write_script("data/search.js", "addEntries", search)
    writer.write_page("search.html", "search.html")
    write_methods(writer)


def _write_leaderboard(writer: Writer, lines: Lines, rows: list[Row]) -> None:
    first, further = (Table("Best kernel of each task on each machine", COLUMNS, tuple(part), len(part)) for part in (rows[:FIRST_ROWS], rows[FIRST_ROWS:]))  # fmt: skip
    if further.rows:
        writer.write_script("data/leaderboard.js", "addRows", writer.render_rows(further))
    facets = {
        name: sorted({row.facets[name] for row in rows} - {""}) for name in ("outcome", "machine", "target")
    }
    wins = sum(row.facets["outcome"] == "win" for row in rows)
    counts = f"{counted(len(lines.tasks), 'task')}, {counted(len(lines.kernels), 'kernel')}, {counted(len(lines.runs), 'run')}."
    summary = f"{counts} {counted(wins, 'win')} in {counted(len(rows), 'row')}."
    writer.write_page(
        "index.html",
        "leaderboard.html",
        table=first,
        further=len(further.rows),
        facets=facets,
        summary=summary,
    )
