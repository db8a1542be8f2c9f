"""Commands that do work: `optimize`, `demo`, and `suite`, `compare`, `judge` from their modules.

Progress goes to standard error, outcomes to standard output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..ahead import start_ahead
from ..errors import UsageError, WarpsmithError
from ..progress import observer_for
from ..records import RunSummary
from ..tasks.suite import SUITES
from . import options as o
from . import printing
from .compare import compare
from .judge import judge
from .ray_flags import RayFlags
from .search_flags import SearchFlags, spread
from .suite import fail_on_fault, suite

DEMO_TASKS = ("softmax.py", "mlp_epilogue.py", "layernorm.py")


def register(app: typer.Typer) -> None:
    for command in (optimize, suite, compare, demo, judge):
        app.command()(command)


@spread
def optimize(
    task: Annotated[list[str], typer.Argument(help="KernelBench-format files or package.module:Class.")],
    flags: SearchFlags,
    cluster_flags: RayFlags,
    json: o.JsonOption = None,
    settings: o.SetOption = None,
    replay: Annotated[
        str | None,
        typer.Option("--replay", metavar="RUN", help="Search again from the record of a run alone."),
    ] = None,
    start_from: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="CANDIDATE|FILE",
            help="A kernel to begin with: a candidate's id, a unit file, or a folder of them. Repeat for several.",
        ),
    ] = None,
) -> None:
    """Search for a faster, verified implementation of each TASK.

    Ends with 0 where every task was verified, won or not. Where the machine was too busy to tell (status too-busy, exit code 0 as for
    no-win) the same command tries again.
    """
    cluster = cluster_flags.make_cluster()
    if cluster is None:
        start_ahead(flags.baselines)
    from ..api import optimize_task

    printing.expect_writable(json)
    if replay is not None and len(task) > 1:
        raise UsageError("--replay repeats one run: name its task alone")
    if start_from and (replay is not None or len(task) > 1):
        raise UsageError("--from begins one search on one task: name that task alone, without --replay")
    config = flags.config()
    limit, changed = flags.limits(config), o.overrides(settings)
    summaries: list[RunSummary] = []
    with (
        show_finished_on_error(summaries, json, as_list=len(task) > 1),
        observer_for(flags.quiet) as observer,
    ):
        for spec in task:
            done = optimize_task(
                spec,
                target=flags.target,
                budget=limit,
                seed=flags.seed,
                config=config,
                observer=observer,
                overrides=changed,
                replay=replay,
                start_from=start_from or (),
                ray=cluster,
            )
            summaries.append(done)
            if done.fault:
                break
    _show(summaries, json, as_list=len(task) > 1)
    fail_on_fault(summaries)
    raise typer.Exit(1 if any(s.status == "failed" for s in summaries) else 0)


def demo(
    examples: Annotated[Path | None, typer.Argument(help="The folder with the example files.")] = None,
    budget: o.BudgetOption = 30,
    time: o.TimeOption = "45s",
    seed: o.SeedOption = 0,
    json: o.JsonOption = None,
    archive: o.ArchiveOption = None,
    quiet: o.QuietOption = False,
) -> None:
    """Optimize three example modules on this machine, in a few minutes."""
    start_ahead()
    from ..api import optimize_task

    printing.expect_writable(json)
    folder, config, limit = examples_folder(examples), o.config(archive), o.budget(budget, time)
    summaries: list[RunSummary] = []
    with show_finished_on_error(summaries, json, as_list=True), observer_for(quiet) as observer:
        for number, name in enumerate(DEMO_TASKS, 1):
            observer.note(f"[{number}/{len(DEMO_TASKS)}] {name}")
            summaries.append(
                optimize_task(str(folder / name), budget=limit, seed=seed, config=config, observer=observer)
            )
    _show(summaries, json, as_list=True)
    wins = sum(s.status == "win" for s in summaries)
    verified = sum(s.status != "failed" for s in summaries)
    if json != "-":
        print(f"{verified} of {len(summaries)} verified, {wins} faster than the best baseline")
    raise typer.Exit(0 if verified == len(summaries) else 1)


def examples_folder(given: Path | None) -> Path:
    """The folder given, `examples/` here, or the package's own copy of it. Raises UsageError."""
    folders = [given] if given is not None else [Path("examples"), SUITES / "demo"]
    for folder in folders:
        if all((folder / name).is_file() for name in DEMO_TASKS):
            return folder
    raise UsageError(f"{', '.join(DEMO_TASKS)} not found: name a folder that has them, or none")


@contextmanager
def show_finished_on_error(
    summaries: Sequence[RunSummary], json: str | None, as_list: bool
) -> Iterator[None]:
    """Shows the tasks that were finished when a later one ends in an error, which must not hide them."""
    try:
        yield
    except (WarpsmithError, KeyboardInterrupt):
        if summaries:
            _show(summaries, json, as_list)
        raise


def _show(summaries: Sequence[RunSummary], json: str | None, as_list: bool) -> None:
    """JSON where it was asked for; for people, a block for one task and a table for several."""
    if json is not None:
        dumped = [s.model_dump(mode="json") for s in summaries]
        printing.write_json(dumped if as_list else dumped[0], json)
    if json == "-":
        return
    if len(summaries) == 1:
        printing.print_summary(summaries[0])
    else:
        printing.print_table(summaries)
