"""`site`: archives as a website of static pages."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from ..progress import counted, observer_for
from . import options as o
from . import printing
from .results import existing

if TYPE_CHECKING:
    from ..archive.reading import ArchiveReader

site_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show archives as a website.")


def register(app: typer.Typer) -> None:
    app.add_typer(site_app, name="site")


@site_app.callback()
def _site() -> None: ...


@site_app.command("build")
def build(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write: empty, or not there yet.")],
    archive: Annotated[
        list[str] | None,
        typer.Option(
            "--archive", metavar="FILE|URL", help="An archive to show; several are merged. Repeatable."
        ),
    ] = None,
    records: Annotated[
        list[Path] | None,
        typer.Option(
            "--records",
            metavar="PATH",
            help="A folder or a file of recorded results: exports as JSON lines, bundles with results, rows of campaigns. Repeatable.",
        ),
    ] = None,
    force: o.ForceOption = False,
    quiet: o.QuietOption = False,
    json: o.JsonOption = None,
) -> None:
    """Write a static website: leaderboard, map, tasks, kernels, runs, findings, methods, a search, and the same as data."""
    from ..archive import Archive
    from ..bundles.recorded import Recorded, import_recorded
    from ..site import build_site, read_findings, read_suites
    from ..site.folder import expect_place

    printing.expect_writable(json)
    expect_place(out, force)
    locations: list[str | None] = [*archive] if archive else [] if records else [None]
    recorded = Recorded()
    with ExitStack() as stack, observer_for(quiet) as observer:
        archives: list[ArchiveReader] = [
            stack.enter_context(closing(existing(location))) for location in locations
        ]
        if records:
            folder = stack.enter_context(TemporaryDirectory(prefix="warpsmith-site-"))
            store = stack.enter_context(closing(Archive(Path(folder) / "records.db")))
            recorded = import_recorded(store, records, observer.stage)
            archives.append(store)
        findings, suites = read_findings(recorded.rows, archives), read_suites(recorded.rows)
        counts = build_site(archives, out, force, observer.stage, findings, suites)
    for problem in recorded.problems:
        typer.echo(f"warning: {problem}", err=True)
    if json is not None:
        printing.write_json({"site": str(out), **asdict(counts)}, json)
    if json != "-":
        kinds = [counted(getattr(counts, f"{noun}s"), noun) for noun in ("task", "kernel", "run")]
        print(
            f"wrote {out}: {', '.join(kinds)} in {counted(counts.pages, 'page')}, {counts.bytes / 1e6:.1f} MB"
        )
        print(f"open {out / 'index.html'}, or put the folder on any static host")
