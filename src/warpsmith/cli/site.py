"""`site`: archives as a website of static pages."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..progress import counted, observer_for
from . import options as o
from . import printing
from .results import existing

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
    force: o.ForceOption = False,
    quiet: o.QuietOption = False,
    json: o.JsonOption = None,
) -> None:
    """Write a static website: leaderboard, tasks, kernels, runs, methods, a search, and the same as JSON files."""
    from ..site import build_site

    printing.expect_writable(json)
    locations: list[str | None] = [*archive] if archive else [None]
    with ExitStack() as stack, observer_for(quiet) as observer:
        archives = [stack.enter_context(closing(existing(location))) for location in locations]
        counts = build_site(archives, out, force, observer.stage)
    if json is not None:
        printing.write_json({"site": str(out), **asdict(counts)}, json)
    if json != "-":
        kinds = [counted(getattr(counts, f"{noun}s"), noun) for noun in ("task", "kernel", "run")]
        print(
            f"wrote {out}: {', '.join(kinds)} in {counted(counts.pages, 'page')}, {counts.bytes / 1e6:.1f} MB"
        )
        print(f"open {out / 'index.html'}, or put the folder on any static host")
