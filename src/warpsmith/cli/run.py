"""Commands that do work: `optimize`, `suite`, `demo`, `judge`.

Progress goes to standard error, outcomes to standard output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ModelError, UsageError, WarpsmithError
from ..progress import observer_for
from ..records import RunSummary
from . import options as o
from . import printing
from .judge import judge

DEMO_TASKS = ("softmax.py", "mlp_epilogue.py", "layernorm.py")


def register(app: typer.Typer) -> None:
    for command in (optimize, suite, demo, judge):
        app.command()(command)


def optimize(
    task: Annotated[list[str], typer.Argument(help="KernelBench-format files or package.module:Class.")],
    target: o.TargetOption = "cpu",
    budget: o.BudgetOption = 60,
    time: o.TimeOption = "120s",
    seed: o.SeedOption = None,
    json: o.JsonOption = None,
    archive: o.ArchiveOption = None,
    settings: o.SetOption = None,
    baselines: o.BaselinesOption = None,
    model: o.ModelOption = None,
    reasoner: o.ReasonerOption = None,
    synthesizer: o.SynthesizerOption = None,
    mender: o.MenderOption = None,
    checker: o.CheckerOption = None,
    orchestrator: o.OrchestratorOption = None,
    base_url: o.BaseUrlOption = None,
    usd: o.UsdOption = None,
    tokens: o.TokensOption = None,
    replay: Annotated[
        str | None,
        typer.Option("--replay", metavar="RUN", help="Search again from the record of a run alone."),
    ] = None,
    quiet: o.QuietOption = False,
) -> None:
    """Search for a faster, verified implementation of each TASK."""
    from ..api import optimize_task

    printing.expect_writable(json)
    if replay is not None and len(task) > 1:
        raise UsageError("--replay repeats one run: name its task alone")
    config = o.config(
        archive, baselines, model=model, reasoner=reasoner, synthesizer=synthesizer, mender=mender, checker=checker,
        orchestrator=orchestrator, base_url=base_url,
    )  # fmt: skip
    limit, changed = o.budget(budget, time, usd, tokens), o.overrides(settings)
    summaries: list[RunSummary] = []
    with kept(summaries, json, as_list=len(task) > 1), observer_for(quiet) as observer:
        for spec in task:
            done = optimize_task(
                spec,
                target=target,
                budget=limit,
                seed=seed,
                config=config,
                observer=observer,
                overrides=changed,
                replay=replay,
            )
            summaries.append(done)
            if done.fault:
                break
    _show(summaries, json, as_list=len(task) > 1)
    _fail_on_fault(summaries)
    raise typer.Exit(1 if any(s.status == "failed" for s in summaries) else 0)


def suite(
    name: Annotated[str, typer.Argument(help="A suite's name (core) or a folder of task files.")],
    target: o.TargetOption = "cpu",
    budget: o.BudgetOption = 60,
    time: o.TimeOption = "120s",
    seed: o.SeedOption = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N tasks.")] = None,
    json: o.JsonOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write a markdown report here.")] = None,
    archive: o.ArchiveOption = None,
    baselines: o.BaselinesOption = None,
    model: o.ModelOption = None,
    reasoner: o.ReasonerOption = None,
    synthesizer: o.SynthesizerOption = None,
    mender: o.MenderOption = None,
    checker: o.CheckerOption = None,
    orchestrator: o.OrchestratorOption = None,
    base_url: o.BaseUrlOption = None,
    usd: o.UsdOption = None,
    tokens: o.TokensOption = None,
    quiet: o.QuietOption = False,
) -> None:
    """Run every task of a suite; a suite that was interrupted goes on where it stopped."""
    from ..api import run_suite
    from ..report import suite_json, suite_table

    for path in (json, out):
        printing.expect_writable(path)
    config = o.config(
        archive, baselines, model=model, reasoner=reasoner, synthesizer=synthesizer, mender=mender, checker=checker,
        orchestrator=orchestrator, base_url=base_url,
    )  # fmt: skip
    per_task = o.budget(budget, time, usd, tokens)
    with observer_for(quiet) as observer:
        summaries = run_suite(
            name, target=target, budget=per_task, seed=seed, config=config, observer=observer, limit=limit
        )
    if out is not None:
        printing.write_text(suite_table(summaries), out)
    if json is not None:
        printing.write_text(suite_json(summaries), None if json == "-" else Path(json))
    if json != "-":
        printing.print_table(summaries)
    _fail_on_fault(summaries)
    raise typer.Exit(1 if all(s.status == "failed" for s in summaries) else 0)


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
    from ..api import optimize_task

    printing.expect_writable(json)
    folder, config, limit = examples_folder(examples), o.config(archive), o.budget(budget, time)
    summaries: list[RunSummary] = []
    with kept(summaries, json, as_list=True), observer_for(quiet) as observer:
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
    """The folder given, `examples/` here, or that of this package's checkout. Raises UsageError."""
    checkout = Path(__file__).resolve().parents[3]
    places = [given] if given is not None else [Path("examples"), checkout / "examples"]
    for folder in places:
        if all((folder / name).is_file() for name in DEMO_TASKS):
            return folder
    raise UsageError(f"{', '.join(DEMO_TASKS)} not found: run in a checkout, or name the examples folder")


@contextmanager
def kept(summaries: Sequence[RunSummary], json: str | None, as_list: bool) -> Iterator[None]:
    """Shows the tasks that were finished when a later one ends in an error, which must not hide them."""
    try:
        yield
    except (WarpsmithError, KeyboardInterrupt):
        if summaries:
            _show(summaries, json, as_list)
        raise


def _fail_on_fault(summaries: Sequence[RunSummary]) -> None:
    """Raises ModelError when a language model ended a run: what was reached is shown, and is not all there was to reach."""
    for summary in summaries:
        if summary.fault:
            raise ModelError(summary.fault)


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
