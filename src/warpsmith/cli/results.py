"""Commands on what was found: `report`, `export`, `archive`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ..errors import ArchiveError, UsageError
from ..records import Ratio
from . import options as o
from . import printing
from .result_table import Kind, print_entries
from .winners import offer, winner

if TYPE_CHECKING:
    from ..archive.entries import Entry, RunRecord
    from ..archive.store import Archive

archive_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Look into, copy and merge archives."
)

RunArgument = Annotated[
    str | None, typer.Argument(help="A run's id or its beginning; the latest when not given.")
]


class Format(StrEnum):
    text = "text"
    markdown = "markdown"
    html = "html"
    json = "json"


class Form(StrEnum):
    kernelbench = "kernelbench"
    package = "package"
    source = "source"


def register(app: typer.Typer) -> None:
    app.command()(report)
    app.command()(export)
    app.add_typer(archive_app, name="archive")


def report(
    run: RunArgument = None,
    format: Annotated[Format, typer.Option("--format", help="text, markdown, html or json.")] = Format.text,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write here instead of to standard output.")
    ] = None,
    archive: o.ArchiveOption = None,
    json: o.JsonOption = None,
) -> None:
    """Report what a run tried, measured and found, with all that is needed to check it."""
    from ..report import build_report, render
    from ..report.text import renderable

    if json is not None:
        printing.write_text(render(existing(archive), run, "json"), None if json == "-" else Path(json))
    if json == "-":
        return
    shown = out is None and sys.stdout.isatty()
    if shown and format is Format.html:
        raise UsageError("an HTML report is long and for a browser: give --out report.html")
    store = existing(archive)
    if shown and format is Format.text:
        Console(highlight=False).print(renderable(build_report(store, run)))
        return
    printing.write_text(render(store, run, format.value), out)


def export(
    what: Annotated[
        str | None, typer.Argument(metavar="RUN|TASK", help="A run's id, or a task; else the latest run.")
    ] = None,
    form: Annotated[Form, typer.Option("--as", help="kernelbench, package or source.")] = Form.kernelbench,
    out: Annotated[Path | None, typer.Option("--out", help="File (kernelbench) or folder to write.")] = None,
    archive: o.ArchiveOption = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Judge the win here first, when it was confirmed elsewhere.")
    ] = False,
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="Write it for the machine where it was confirmed.")
    ] = False,
    force: o.ForceOption = False,
) -> None:
    """Write a verified winner as a KernelBench file, an importable package, or bare source."""
    from ..export import export_winner
    from ..export.files import expect_free
    from ..report.usage import make_module_name

    store = existing(archive)
    run, entry = winner(store, what)
    name = make_module_name(run.task_name)
    default = {
        Form.kernelbench: f"{name}_new.py",
        Form.package: f"{name}_fast",
        Form.source: f"{name}_source",
    }
    path = out or Path(default[form])
    if not force:
        expect_free(path)
    run, entry = offer(store, run, entry, o.config(archive), confirm, elsewhere)
    export_winner(store, run, entry, form.value, path)
    print(f"wrote {path}")


@archive_app.command("list")
def list_runs(
    archive: o.ArchiveOption = None,
    json: o.JsonOption = None,
    kind: Annotated[Kind | None, typer.Option("--kind", help="Results of this kind instead.")] = None,
    most: Annotated[
        int, typer.Option("--most", min=1, max=o.MAX_COUNT, help="Results with --kind at the most.")
    ] = 50,
) -> None:
    """Every run, newest first; with --kind the newest results that are winners, stones, quarantined or failed."""
    if kind is not None:
        store = existing(archive)
        return print_entries(store, store.list_kind(kind.value, limit=most), json)
    runs = existing(archive).runs()
    if json is not None:
        printing.write_json([r.model_dump(mode="json", exclude={"config"}) for r in runs], json)
    if json == "-":
        return
    columns = (
        "run", "task", "target", "status", "over the best baseline", "limit", "judged", "started", "on",
    )  # fmt: skip
    printing.print_rows(columns, [run_row(run) for run in runs])


@archive_app.command("find")
def find_kernels(
    text: Annotated[str, typer.Argument(help="Words of a kernel: of its source, technique or operations.")],
    archive: o.ArchiveOption = None,
    json: o.JsonOption = None,
    most: Annotated[int, typer.Option("--most", min=1, max=o.MAX_COUNT, help="Kernels at the most.")] = 10,
) -> None:
    """Correct kernels that a text fits, those with all of its words first."""
    store = existing(archive)
    print_entries(store, store.find(text, limit=most), json)


@archive_app.command("show")
def show_run(run: RunArgument = None, archive: o.ArchiveOption = None, json: o.JsonOption = None) -> None:
    """List what a run judged, in order."""
    store = existing(archive)
    record = store.run(run)
    if json is not None:
        entries = [e.model_dump(mode="json") for e in store.run_entries(record.run_id)]
        printing.write_json(
            {"run": record.model_dump(mode="json", exclude={"config"}), "entries": entries}, json
        )
    if json == "-":
        return
    print(f"{record.run_id} {record.task_name} on {record.environment.hardware}, seed {record.seed}")
    columns = ("#", "candidate", "kind", "status", "over the best baseline", "limit", "technique", "reason")
    printing.print_rows(columns, [entry_row(entry) for entry in store.run_entries(record.run_id)])


@archive_app.command("path")
def archive_path(archive: o.ArchiveOption = None, json: o.JsonOption = None) -> None:
    """Print where the archive is."""
    location = str(o.config(archive).archive)
    if json is not None:
        printing.write_json({"archive": location}, json)
    if json != "-":
        print(location)


def existing(path: Path | str | None) -> Archive:
    """The archive to read from. Raises ArchiveError for a file that was named and is not there: a typo
    must not make an empty archive.
    """
    from ..archive.store import Archive

    archive_path = o.config(path).archive
    if path is not None and isinstance(archive_path, Path) and not archive_path.exists():
        raise ArchiveError(
            f"no archive at {archive_path}: `warpsmith archive path` says where the usual one is"
        )
    return Archive(archive_path)


def run_row(run: RunRecord) -> list[str]:
    s = run.summary
    status, judged = (s.status, str(s.evaluations)) if s else ("unfinished", "")
    best = s.best if s else None
    return [
        run.run_id, run.task_name, run.target, _mark_origin(status, run.origin == "imported"),
        _over(best.speedup if best else None), f"{best.limit_share:.0%}" if best else "", judged,
        run.started_at[:19], run.environment.hardware,
    ]  # fmt: skip


def entry_row(entry: Entry) -> list[str]:
    result, timing = entry.result, entry.result.timing
    technique = " + ".join(u.technique or u.family for u in entry.candidate.units)
    return [
        str(entry.number), entry.candidate.id, _mark_origin(entry.kind, not entry.verified_here), result.status,
        _over(result.speedup), f"{timing.limit_share:.0%}" if timing else "", technique, result.reason,
    ]  # fmt: skip


def _mark_origin(text: str, imported: bool) -> str:
    """Another machine's word is unverified until the candidate is judged here."""
    return f"{text} (imported)" if imported else text


def _over(ratio: Ratio | None) -> str:
    return f"{printing.ratio_text(ratio)} {ratio.baseline}" if ratio else ""
