"""The command `judge`: is somebody's kernel correct, really faster, and who does the work?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..ahead import start_ahead
from ..errors import UsageError
from ..progress import observer_for
from . import options as o
from . import printing

if TYPE_CHECKING:
    from ..solutions.verdict import SolutionVerdict


def judge(
    solution: Annotated[
        Path | None,
        typer.Argument(help="A Python file with ModelNew, or a unit file that covers the whole task."),
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="The task it claims to solve.")] = None,
    target: o.TargetOption = "cpu",
    seed: o.SeedOption = None,
    json: o.JsonOption = None,
    settings: o.SetOption = None,
    baselines: o.BaselinesOption = None,
    zoo: Annotated[
        bool, typer.Option("--zoo", help="Judge every known cheat, and its honest twin, instead.")
    ] = False,
    attack: Annotated[
        int | None,
        typer.Option(
            "--attack",
            min=1,
            max=o.MAX_COUNT,
            help="Judge so many composed candidates instead, three of four hostile.",
        ),
    ] = None,
    attack_only: Annotated[
        int | None,
        typer.Option(
            "--attack-only", min=0, max=o.MAX_COUNT, metavar="INDEX", help="Judge one of them, and print it."
        ),
    ] = None,
    lanes: Annotated[
        int, typer.Option("--lanes", min=1, max=64, help="Processes of an attack that judge side by side.")
    ] = 1,
    quiet: o.QuietOption = False,
) -> None:
    """Say whether somebody's kernel is correct, and really faster."""
    printing.expect_writable(json)
    if zoo:
        raise typer.Exit(judge_zoo(target, json, quiet))
    if attack is not None or attack_only is not None:
        from .attack import judge_attack

        raise typer.Exit(judge_attack(attack, attack_only, seed, lanes, target, json, quiet))
    if solution is None or task is None:
        raise UsageError(
            "judge needs a solution and its task: warpsmith judge SOLUTION --task TASK, or --zoo, or --attack N"
        )
    start_ahead(baselines)
    from ..api import judge_file

    config, changed = o.config(None, baselines), o.overrides(settings)
    with observer_for(quiet) as observer:
        verdict = judge_file(
            solution, task, target=target, seed=seed, config=config, observer=observer, overrides=changed
        )
    if json is not None:
        printing.write_json(verdict.model_dump(mode="json"), json)
    if json != "-":
        print_verdict(verdict)
    raise typer.Exit(0 if verdict.verdict == "correct" else 1)


def judge_zoo(target: str, json: str | None, quiet: bool) -> int:
    """Print the table of cheats; returns the exit code."""
    from ..zoo.rows import as_expected, rows_json, rows_text
    from ..zoo.table import zoo_table

    with observer_for(quiet) as observer:
        rows = zoo_table(o.config(), device=target, progress=observer.stage)
    if json is not None:
        printing.write_json(rows_json(rows), json)
    if json != "-":
        print(rows_text(rows))
    return 0 if as_expected(rows) else 1


def print_verdict(verdict: SolutionVerdict) -> None:
    """The verdict, its reasons, and every speedup with its interval, baseline and hardware."""
    print(f"{verdict.verdict}, label {verdict.label}" + (f" (rule: {verdict.rule})" if verdict.rule else ""))
    for reason in verdict.reasons:
        print(f"  {reason}")
    passed = sum(c.ok for c in verdict.checks)
    print(f"  {passed} of {len(verdict.checks)} checks passed; {', '.join(verdict.labels) or 'no labels'}")
    for check in (c for c in verdict.checks if not c.ok):
        print(f"  failed: {check.rule} at {check.variant}/{check.family}: {check.detail}")
    if verdict.parameters != "none":
        how = {"name": "taken over by name", "seed": "as the reference's seed gives them"}
        print(f"  parameters: {how[verdict.parameters]}")
    for name, ratio in verdict.speedup.items():
        if name != "best":
            best = " (the best baseline)" if verdict.speedup["best"].baseline == name else ""
            print(f"  {printing.ratio_text(ratio)} over {name}{best}")
    if verdict.timing is not None:
        t = verdict.timing
        interval = f"{t.median_us:.0f} us [{t.low_us:.0f}, {t.high_us:.0f}]"
        print(f"  {interval}, {printing.limit_text(t)}")
    print(f"  isolation: {verdict.isolation or 'none'}")
    print(f"  on {verdict.hardware}, seed {verdict.seed}")
