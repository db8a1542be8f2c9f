"""Commands for authors from outside: `ask` writes what they need, `tell` judges their answers, `board`
shows who leads, `mcp` serves all of it to coding agents.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..ahead import start_ahead
from ..progress import observer_for
from . import options as o
from . import printing

if TYPE_CHECKING:
    from ..authoring.author_views import VerdictView

RegionOption = Annotated[
    str | None,
    typer.Option("--region", help="A proposed region's number, node names, or all; see graph.md."),
]
OntoOption = Annotated[
    str | None, typer.Option("--onto", metavar="ID|best", help="Add the units to this candidate's.")
]
AuthorOption = Annotated[str, typer.Option("--author", help="Who wrote it, for the archive and the board.")]


def register(app: typer.Typer) -> None:
    for command in (ask, tell, board, mcp):
        app.command()(command)


def ask(
    task: Annotated[
        list[str], typer.Argument(help="Task files, package.module:Class, or names of suite core.")
    ],
    region: RegionOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder to write; ask/NAME when none.")
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="GPU",
            help="Write for a GPU that is not here: h100, h200 or a100. Sets the target to cuda.",
        ),
    ] = None,
    target: o.TargetOption = "cpu",
    archive: o.ArchiveOption = None,
    settings: o.SetOption = None,
    quiet: o.QuietOption = False,
) -> None:
    """Write a folder for whoever is to write kernels for each TASK; `warpsmith tell` takes the answers."""
    from ..authoring.folder import expect_free, write_folder
    from ..authoring.service import AuthoringService
    from ..targets.machine_sheet import find_gpu

    changed = o.overrides(settings)
    if gpu is not None:
        target = "cuda"
        find_gpu(gpu)  # what is not known is told before any work
    if out is not None and len(task) == 1:
        expect_free(out)
    with (
        observer_for(quiet) as observer,
        AuthoringService(o.config(archive), target, observer.stage) as service,
    ):
        for spec in task:
            observer.stage(f"loading {spec}")
            name = service.task(spec, changed).name
            folder = out if out is not None and len(task) == 1 else (out or Path("ask")) / name
            print(write_folder(service, spec, folder, region or "", changed, gpu or ""))


def tell(
    answers: Annotated[list[Path], typer.Argument(help="Folders that `ask` wrote, or unit files.")],
    task: Annotated[str | None, typer.Option("--task", help="The task that unit files are for.")] = None,
    region: RegionOption = None,
    onto: OntoOption = None,
    author: AuthorOption = "author",
    note: Annotated[str, typer.Option("--note", help="Why it should be faster, in a line.")] = "",
    target: Annotated[str | None, typer.Option("--target", help="As the answers say when none.")] = None,
    json: o.JsonOption = None,
    archive: o.ArchiveOption = None,
    settings: o.SetOption = None,
    baselines: o.BaselinesOption = None,
    quiet: o.QuietOption = False,
) -> None:
    """Judge answers and keep the verdicts; the exit code is 0 only when every one is correct."""
    start_ahead(baselines)
    from ..authoring.folder import collect, target_of
    from ..authoring.prose import verdict_lines
    from ..authoring.service import AuthoringService

    printing.expect_writable(json)
    config, changed = o.config(archive, baselines), o.overrides(settings)
    views: list[VerdictView] = []
    with (
        observer_for(quiet) as observer,
        AuthoringService(config, target or target_of(answers), observer.stage) as service,
    ):
        service.expect_device()
        named = service.task(task, changed) if task is not None else None
        collected = collect(service, answers, named, region or "")
        candidates = [
            (loaded, service.candidate(loaded, units, onto=onto or "", author=author, note=note))
            for loaded, units in collected
        ]
        for loaded, candidate in candidates:  # every answer was read before the first is judged
            views.append(service.submit(loaded, candidate).result())
            if json != "-":
                print("\n".join(verdict_lines(views[-1])))
    if json is not None:
        printing.write_json([s.model_dump(mode="json") for s in views], json)
    raise typer.Exit(0 if all(s.correct for s in views) else 1)


def board(
    task: Annotated[str, typer.Argument(help="A task file, package.module:Class, or a name of suite core.")],
    target: o.TargetOption = "cpu",
    json: o.JsonOption = None,
    archive: o.ArchiveOption = None,
    settings: o.SetOption = None,
) -> None:
    """The fastest correct candidates of a task, and who wrote them."""
    from ..authoring.prose import board_lines
    from ..authoring.service import AuthoringService

    with AuthoringService(o.config(archive), target) as service:
        rows = service.board(service.task(task, o.overrides(settings)))
    if json is not None:
        printing.write_json([r.model_dump(mode="json") for r in rows], json)
    if json != "-":
        print("\n".join(board_lines(rows)) or "nothing correct was judged for this task yet")


def mcp(
    http: Annotated[
        int | None,
        typer.Option("--http", metavar="PORT", help="Streamable HTTP on 127.0.0.1 instead of stdio."),
    ] = None,
    target: o.TargetOption = "cpu",
    archive: o.ArchiveOption = None,
    baselines: o.BaselinesOption = None,
) -> None:
    """Serve tasks, knowledge and the judge to a coding agent over the Model Context Protocol."""
    start_ahead(baselines)
    from ..mcp import serve

    serve(o.config(archive, baselines), target, http)
