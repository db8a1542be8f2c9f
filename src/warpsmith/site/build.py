"""Build a site: everything is read once to know which kernels are alike, and once more to write a task at a time; then the pages of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import __version__
from ..archive.reading import ArchiveReader
from ..pages.safety import make_file_id, show_controls
from ..progress import counted
from ..records.intervals import find_worth
from ..wording import label
from .downloads import Downloads, write_tables
from .findings import Finding, write_findings
from .folder import GENERATOR, replace_folder
from .json_records import dump_ratio
from .kernel_pages import Kernel, KernelWriter, list_kernels
from .leaderboard import FIRST_ROWS, Leaderboard
from .map_page import write_map
from .merging import MergedArchives, TaskRecords
from .methods import write_methods
from .neighbours import Neighbourhood
from .run_pages import write_run
from .search_index import SearchIndex
from .standing import list_standings
from .suite_pages import Suite, write_suites
from .tables import Cell, make_table
from .task_pages import write_task
from .writing import Writer

__all__ = ["FIRST_ROWS", "SiteCounts", "build_site"]
API_FILES = (
    ("api/index.json", "the list of these files"),
    ("api/leaderboard.json", "the rows of the leaderboard, best first"),
    ("api/tasks.json", "a line for each task; api/tasks/ID.json has its records, results and runs"),
    (
        "api/kernels.json",
        "a line for each kernel; api/kernels/ID.json has the records of the candidate and its results",
    ),
    ("api/runs.json", "a line for each run; api/runs/ID.json has the run and its attempts in order"),
    ("api/map.json", "the points of the map"),
    ("api/findings.json", "claims of others, and what the judge says of them"),
)


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

    board: Leaderboard = field(default_factory=Leaderboard)
    index: SearchIndex = field(default_factory=SearchIndex)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    kernels: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)


def build_site(
    archives: Sequence[ArchiveReader],
    out: Path,
    force: bool = False,
    tell: Callable[[str], None] = lambda text: None,
    findings: Sequence[Finding] = (),
    suites: Sequence[Suite] = (),
) -> SiteCounts:
    """Write a site of the archives, of claims that were judged, and of recorded suites.

    Raises UsageError where `out` holds other files, or a site and `force` is not given.
    """
    merged, lines = MergedArchives(archives), Lines()
    with replace_folder(out, force) as folder, Downloads() as downloads:
        writer, listing = Writer(folder), merged.list_tasks()
        neighbours = _survey(merged, listing, tell)
        kernels = KernelWriter(writer, merged, neighbours, downloads)
        for number, (task_id, name) in enumerate(listing, 1):
            tell(f"task {number} of {len(listing)}: {show_controls(name)}")
            records = merged.load(task_id)
            if records is not None:
                _write_task(writer, kernels, records, lines)
        tell("pages of all tasks")
        _write_overviews(writer, lines, neighbours, findings, suites)
        write_tables(writer, archives)
        _write_data_page(writer)
        writer.write_static()
        sizes = writer.count_bytes()
    return SiteCounts(len(lines.tasks), len(lines.kernels), len(lines.runs), writer.pages, sizes)


def _survey(
    merged: MergedArchives, listing: Sequence[tuple[str, str]], tell: Callable[[str], None]
) -> Neighbourhood:
    """Read every kernel, to know which are alike."""
    neighbours = Neighbourhood()
    for number, (task_id, name) in enumerate(listing, 1):
        tell(f"reading task {number} of {len(listing)}: {show_controls(name)}")
        records = merged.load(task_id)
        for kernel in list_kernels(records) if records is not None else ():
            result = kernel.shown.result
            low = find_worth(result.speedup) if result.status == "ok" else 0.0
            neighbours.add(kernel.candidate, name, kernel.outcome, low)
    tell(f"neighbours of {counted(len(neighbours.dots), 'kernel')}")
    neighbours.finish()
    return neighbours


def _write_task(writer: Writer, kernel_writer: KernelWriter, records: TaskRecords, lines: Lines) -> None:
    standings, kernels = list_standings(records), list_kernels(records)
    kernel_writer.write_all(kernels, records)
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
    lines.board.add(records, standings)
    lines.index.add_task(task, page)
    for kernel in kernels:
        lines.index.add_kernel(kernel.candidate, records.task.name, kernel.outcome)
    lines.kernels += [_make_kernel_line(k, records) for k in kernels]
    for run in records.runs:
        where = f"runs/{make_file_id(run.run.run_id)}.html"
        lines.runs.append(
            {"id": run.run.run_id, "task": task.id, "started_at": run.run.started_at, "page": where}
        )


def _make_kernel_line(kernel: Kernel, records: TaskRecords) -> dict[str, Any]:
    candidate, result = kernel.candidate, kernel.shown.result
    return {
        "id": candidate.id, "task": records.task.id, "target": candidate.target, "label": label(candidate), "outcome": kernel.outcome,
        "speedup": dump_ratio(result.speedup if result.status == "ok" else None), "page": f"kernels/{make_file_id(candidate.id)}.html",
    }  # fmt: skip


def _write_overviews(
    writer: Writer,
    lines: Lines,
    neighbours: Neighbourhood,
    findings: Sequence[Finding],
    suites: Sequence[Suite],
) -> None:
    counts = f"{counted(len(lines.tasks), 'task')}, {counted(len(lines.kernels), 'kernel')}, {counted(len(lines.runs), 'run')}."
    lines.board.write(writer, counts)
    for name, data in (("tasks", lines.tasks), ("kernels", lines.kernels), ("runs", lines.runs)):
        writer.write_json(f"api/{name}.json", data)
    files = {Path(path).stem: path for path, _ in API_FILES}
    patterns = {kind: f"api/{kind}/ID.json" for kind in ("tasks", "kernels", "runs")}
    writer.write_json(
        "api/index.json", {"generator": f"{GENERATOR} {__version__}", "files": files, "records": patterns}
    )
    lines.index.write(writer)
    write_map(writer, neighbours)
    write_findings(writer, findings)
    write_suites(writer, suites)
    write_methods(writer)


def _write_data_page(writer: Writer) -> None:
    cells = [(Cell(path, href=path), text) for path, text in API_FILES]
    files = make_table("JSON files", ("file", "what it holds"), cells)
    tables = sorted(p.name for p in (writer.folder / "data").glob("*.parquet"))
    writer.write_page(
        "json.html",
        "json.html",
        table=files,
        parquet=tables,
        card=(writer.folder / "data" / "README.md").is_file(),
    )
