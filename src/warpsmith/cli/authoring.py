"""Commands for authors from outside: `ask` writes what they need, `tell` judges their answers, `board`, `history`, `source` and `jobs`
show what came of them, `mcp` serves all of it to coding agents. Each works on this machine, or with `--server` on another.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..ahead import start_ahead
from ..errors import UsageError
from ..progress import observer_for
from . import options as o
from . import printing
from .author_connection import ServerOption, TokenFileOption, open_author

if TYPE_CHECKING:
    from ..authoring.author import Author
    from ..authoring.jobs import JobView

RegionOption = Annotated[
    str | None,
    typer.Option("--region", help="A proposed region's number, node names, or all; see graph.md."),
]
OntoOption = Annotated[
    str | None, typer.Option("--onto", metavar="ID|best", help="Add the units to this candidate's.")
]
AuthorOption = Annotated[str, typer.Option("--author", help="Who wrote it, for the archive and the board.")]
TaskArgument = Annotated[
    str, typer.Argument(help="A task file, package.module:Class, or a name of suite core.")
]
LastOption = Annotated[int, typer.Option("--last", min=1, max=200, help="How many, the newest.")]
How = Literal["verdict", "screen", "check"]


def register(app: typer.Typer) -> None:
    for command in (ask, tell, tune, board, history, source, jobs, mcp):
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
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    quiet: o.QuietOption = False,
) -> None:
    """Write a folder for whoever is to write kernels for each TASK; `warpsmith tell` takes the answers."""
    from ..authoring.folder import expect_free, write_folder
    from ..targets.machine_sheet import find_gpu

    changed = o.overrides(settings)
    if gpu is not None:
        target = "cuda"
        find_gpu(gpu)  # what is not known is told before any work
    if out is not None and len(task) == 1:
        expect_free(out)
    with (
        observer_for(quiet) as observer,
        open_author(server, token_file, archive, target, progress=observer.stage) as author,
    ):
        for spec in task:
            observer.stage(f"loading {spec}")
            name = author.open_task(spec, changed).name
            folder = out if out is not None and len(task) == 1 else (out or Path("ask")) / name
            print(write_folder(author, spec, folder, region or "", changed, gpu or ""))


def tell(
    answers: Annotated[list[Path], typer.Argument(help="Folders that `ask` wrote, or unit files.")],
    task: Annotated[str | None, typer.Option("--task", help="The task that unit files are for.")] = None,
    region: RegionOption = None,
    onto: OntoOption = None,
    author: AuthorOption = "author",
    note: Annotated[str, typer.Option("--note", help="Why it should be faster, in a line.")] = "",
    how: Annotated[
        How, typer.Option("--how", help="Judge each; screen them, seconds each; or only compile them.")
    ] = "verdict",
    confirm: Annotated[
        str,
        typer.Option("--confirm", metavar="none|best|all", help="Of what was screened: who gets a verdict."),
    ] = "none",
    target: Annotated[str | None, typer.Option("--target", help="As the answers say when none.")] = None,
    json: o.JsonOption = None,
    archive: o.ArchiveOption = None,
    settings: o.SetOption = None,
    baselines: o.BaselinesOption = None,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    quiet: o.QuietOption = False,
) -> None:
    """Judge answers and keep the verdicts; the exit code is 0 only when every one is correct (or passed, as asked)."""
    from ..authoring.folder import collect, target_of
    from .author_jobs import has_passed, make_requests, play_jobs, rows_of

    if server is None:
        start_ahead(baselines)
    printing.expect_writable(json)
    changed = o.overrides(settings)
    named_target = target or target_of(answers)
    with (
        observer_for(quiet) as observer,
        open_author(server, token_file, archive, named_target, baselines, observer.stage) as service,
    ):
        named = service.open_task(task, changed).task if task is not None else ""
        collected = collect(service, answers, named, region or "")
        requests = make_requests(collected, how, confirm, author, onto or "", note)
        ended = play_jobs(service, requests, observer, tell_rows=json != "-")
    if json is not None:
        printing.write_json([r.model_dump(mode="json") for job in ended for r in rows_of(job)], json)
    raise typer.Exit(0 if all(has_passed(job) for job in ended) else 1)


def tune(
    candidate: Annotated[str, typer.Argument(help="A candidate's id, as `tell` and `board` print it.")],
    tries: Annotated[int, typer.Option("--tries", min=1, max=256, help="Settings to try at the most.")] = 24,
    confirm: Annotated[
        str, typer.Option("--confirm", metavar="none|best|all", help="Who also gets a verdict.")
    ] = "best",
    target: o.TargetOption = "cpu",
    json: o.JsonOption = None,
    archive: o.ArchiveOption = None,
    baselines: o.BaselinesOption = None,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    quiet: o.QuietOption = False,
) -> None:
    """Screen a candidate at other values of the tunables that its units declare; the best gets a verdict."""
    from .author_jobs import make_tune_request, play_jobs, rows_of

    if server is None:
        start_ahead(baselines)
    printing.expect_writable(json)
    with (
        observer_for(quiet) as observer,
        open_author(server, token_file, archive, target, baselines, observer.stage) as service,
    ):
        request = make_tune_request(service, candidate, tries, confirm)
        job = play_jobs(service, [request], observer, tell_rows=json != "-")[0]
    if json is not None:
        printing.write_json([r.model_dump(mode="json") for r in rows_of(job)], json)
    if json != "-":
        print(f"best: {job.best}" if job.best else "no setting was right")
    raise typer.Exit(0 if job.best else 1)


def board(
    task: TaskArgument,
    target: o.TargetOption = "cpu",
    json: o.JsonOption = None,
    archive: o.ArchiveOption = None,
    settings: o.SetOption = None,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """The fastest correct candidates of a task, and who wrote them."""
    from ..authoring.prose import board_lines

    with open_author(server, token_file, archive, target) as author:
        rows = author.board(author.open_task(task, o.overrides(settings)).task)
    if json is not None:
        printing.write_json([r.model_dump(mode="json") for r in rows], json)
    if json != "-":
        print("\n".join(board_lines(rows)) or "nothing correct was judged for this task yet")


def history(
    task: TaskArgument,
    last: LastOption = 20,
    target: o.TargetOption = "cpu",
    json: o.JsonOption = None,
    archive: o.ArchiveOption = None,
    settings: o.SetOption = None,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """List what was screened and judged for a task, by whom, with which values, time and outcome, newest first."""
    from ..authoring.prose import attempt_line

    with open_author(server, token_file, archive, target) as author:
        rows = author.history(author.open_task(task, o.overrides(settings)).task, last)
    if json is not None:
        printing.write_json([r.model_dump(mode="json") for r in rows], json)
    if json != "-":
        print("\n".join(map(attempt_line, rows)) or "nothing was judged for this task yet")


def source(
    candidate: Annotated[str, typer.Argument(help="A candidate's id.")],
    target: o.TargetOption = "cpu",
    json: o.JsonOption = None,
    archive: o.ArchiveOption = None,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """A candidate's sources, the values of its tunables, its time, and how it differs from its parent."""
    from ..authoring.prose import source_lines

    with open_author(server, token_file, archive, target) as author:
        view = author.source(candidate)
    if json is not None:
        printing.write_json(view.model_dump(mode="json"), json)
    if json != "-":
        print("\n".join(source_lines(view)))


def jobs(
    job: Annotated[str | None, typer.Argument(help="A job's id: only this one, with its rows.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Give the job up.")] = False,
    last: LastOption = 20,
    target: o.TargetOption = "cpu",
    json: o.JsonOption = None,
    archive: o.ArchiveOption = None,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Jobs of the authors' service, newest first; or one of them."""
    from .author_jobs import describe_job, describe_rows

    if cancel and job is None:
        raise UsageError("--cancel: which job? `warpsmith jobs` lists them")
    with open_author(server, token_file, archive, target) as author:
        views = _list_jobs(author, job, cancel, last)
    if json is not None:
        printing.write_json([v.model_dump(mode="json") for v in views], json)
    if json != "-":
        lines = [describe_job(v) for v in views] + (describe_rows(views[0]) if job is not None else [])
        print("\n".join(lines) or "there are no jobs yet")


def _list_jobs(author: Author, job: str | None, cancel: bool, last: int) -> list[JobView]:
    if job is None:
        return author.jobs(last)
    return [author.cancel(job) if cancel else author.job(job)]


def mcp(
    http: Annotated[
        int | None,
        typer.Option("--http", metavar="PORT", help="Streamable HTTP on 127.0.0.1 instead of stdio."),
    ] = None,
    target: o.TargetOption = "cpu",
    archive: o.ArchiveOption = None,
    baselines: o.BaselinesOption = None,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Serve tasks, knowledge and the judge to a coding agent over the Model Context Protocol; with --server, another machine's."""
    from ..mcp import expect_startable, serve

    expect_startable(http)
    if server is None:
        start_ahead(baselines)
    with open_author(server, token_file, archive, target, baselines, resume=True) as author:
        serve(author, http)
