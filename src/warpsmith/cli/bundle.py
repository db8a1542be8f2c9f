"""The command `bundle`: author here, evaluate there. `create` packs, `run` judges where the GPU is, `import` brings results back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..progress import counted, observer_for
from . import options as o
from . import printing

if TYPE_CHECKING:
    from ..bundles.running import BundleOutcome
    from ..records import Candidate, Result

bundle_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Author candidates here, have them judged on another machine.",
)

BundleArgument = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="A folder or .tar.gz that `create` wrote.")
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        help="A secret of at least 16 bytes, the same for create, run and import: results count as ours.",
    ),
]


def register(app: typer.Typer) -> None:
    app.add_typer(bundle_app, name="bundle")


@bundle_app.command()
def create(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder, or a file that ends in .tar.gz.")],
    run: Annotated[
        list[str] | None, typer.Option("--run", metavar="RUN", help="Candidates of this run. Repeatable.")
    ] = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option("--candidate", metavar="ID", help="This candidate of the archive. Repeatable."),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            "--unit", metavar="TASK=FILE[,FILE]", help="Unit files as one candidate for a task. Repeatable."
        ),
    ] = None,
    answers: Annotated[
        list[Path] | None,
        typer.Option("--answers", metavar="DIR", help="A folder that `ask` wrote, filled in. Repeatable."),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task", metavar="TASK", help="A task of which only baselines are measured. Repeatable."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=1, max=o.MAX_COUNT, help="Candidates of each --run at the most.")
    ] = 5,
    canary: Annotated[
        int, typer.Option("--canary", min=0, help="Candidates to judge again at the end, to see drift.")
    ] = 0,
    author: Annotated[str, typer.Option("--author", help="Who wrote the unit files and answers.")] = "",
    target: o.TargetOption = "cpu",
    settings: o.SetOption = None,
    key_file: KeyOption = None,
    archive: o.ArchiveOption = None,
) -> None:
    """Write tasks and candidates as one signed bundle."""
    from ..bundles.bundle import make_bundle
    from ..bundles.gather import Gathered
    from ..bundles.manifest import read_key
    from .inspect import load
    from .results import existing

    key, gathered = read_key(key_file), Gathered(target)
    if run or candidate or answers:
        store = existing(archive)
        for folder in answers or ():
            gathered.add_answers(store, folder, author)
        for run_id in run or ():
            gathered.add_run(store, run_id, top)
        for candidate_id in candidate or ():
            gathered.add_candidate(store, candidate_id)
    tasks = {
        spec: load(spec, settings) for spec in [*(task or ()), *(s for s, _ in map(unit_files, unit or ()))]
    }
    for spec, files in map(unit_files, unit or ()):
        gathered.add_units(tasks[spec], files, author)
    for spec in task or ():
        gathered.add_task(tasks[spec])
    if not gathered.tasks:
        raise UsageError("nothing to pack: give --run, --candidate, --unit, --answers or --task")
    parts = gathered.tasks.values(), gathered.candidates.values(), gathered.hypotheses.values()
    bundle = make_bundle(target, *parts, canaries=canary, key=key)
    bundle.write(out)
    summary = f"{counted(len(bundle.tasks), 'task')}, {counted(len(bundle.candidates), 'candidate')}"
    print(f"wrote {out}: {summary}, root {bundle.root[:16]}, {'signed' if key else 'hashed, not signed'}")


@bundle_app.command()
def kit(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder, or a kit that is written anew.")],
    bundle: Annotated[
        list[Path] | None, typer.Option("--bundle", help="A bundle to judge there. Repeatable.")
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option("--work", metavar="FILE", help="A bash script to run there instead of judging bundles."),
    ] = None,
    include: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="PATH", help="A file or folder, to OUT/files. Repeatable."),
    ] = None,
    package: Annotated[
        list[str] | None,
        typer.Option(
            "--package", metavar="NAME", help="One more package, as it is installed here. Repeatable."
        ),
    ] = None,
    python: Annotated[str, typer.Option("--python", help="Version of Python there.")] = "3.12",
    no_wheels: Annotated[
        bool, typer.Option("--no-wheels", help="What Warpsmith needs is installed there.")
    ] = False,
) -> None:
    """Pack bundles, Warpsmith's source, wheels and a script for a machine without the internet."""
    from ..bundles.kit import pack_kit

    if not bundle and work is None:
        raise UsageError("nothing to do there: give --bundle or --work")
    count = pack_kit(out, bundle or (), work, include or (), None if no_wheels else python, package or ())
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file()) / 2**20
    print(
        f"wrote {out}: {counted(count, 'bundle')}, {size:.1f} MiB; there: bash {out.name}/run.sh start SECONDS"
    )


@bundle_app.command("run")
def run_command(
    bundle: BundleArgument,
    out: Annotated[
        Path,
        typer.Option("--out", help="A folder for the results; one that is there already is gone on with."),
    ],
    limit_time: Annotated[
        str, typer.Option("--limit-time", help="Wall time after which to end: 90, 9m, 1h; 0: no limit.")
    ] = "0",
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="A task or a candidate's id. Repeatable."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="First at the main shapes only; what may win is confirmed, and passes everything."
        ),
    ] = False,
    baselines: o.BaselinesOption = None,
    key_file: KeyOption = None,
    json: o.JsonOption = None,
    quiet: o.QuietOption = False,
) -> None:
    """Judge what is left of a bundle on this machine. No archive, no key for a model and no internet are needed."""
    from ..bundles.bundle import read_bundle
    from ..bundles.manifest import read_key
    from ..bundles.running import run_bundle

    printing.expect_writable(json)
    key = read_key(key_file)
    with observer_for(quiet) as observer:
        ended = run_bundle(
            read_bundle(bundle, key), out, config=o.config(None, baselines), observer=observer,
            seconds=o.seconds(limit_time, "--limit-time"), only=only or (), key=key, quick=quick,
        )  # fmt: skip
    if json is not None:
        printing.write_json(as_json(ended), json)
    if json != "-":
        print_ended(ended, out)
    raise typer.Exit(1 if ended.failed else 0)


@bundle_app.command("import")
def import_command(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The folder that `run` wrote.")],
    key_file: KeyOption = None,
    archive: o.ArchiveOption = None,
    json: o.JsonOption = None,
) -> None:
    """Put the results into the archive. Without the key they count as unverified until they are judged here."""
    from ..archive.store import Archive
    from ..bundles.importing import import_results
    from ..bundles.manifest import read_key

    if not results.is_dir():
        raise UsageError(f"{results} is not a folder: give the one that `warpsmith bundle run` wrote")
    config = o.config(archive)
    counts = import_results(Archive(config.archive), results, read_key(key_file), config.confirm)
    if json is not None:
        runs = [r.model_dump(mode="json", exclude={"config"}) for r in counts.runs.values()]
        drift = {candidate: str(how) for candidate, how in counts.drift.items()}
        printing.write_json(
            {"runs": runs, "drift": drift, "trusted": counts.trusted, "new_results": counts.new_results}, json
        )
    if json == "-":
        return
    for run_id, run in counts.runs.items():
        outcome = f"{run.summary.status} {run.summary.reason}".strip() if run.summary else "unfinished"
        if run.summary and run.summary.best:
            best = run.summary.best
            outcome += (
                f", {printing.ratio_text(best.speedup)} over {best.speedup.baseline}, {best.candidate_id}"
            )
        print(f"run {run_id} {run.task_name}: {outcome}; on {run.environment.hardware}")
    for candidate, how in counts.drift.items():
        print(f"canary {candidate}: {how}")
    trust = "sealed with the key" if counts.trusted else "unverified until they are judged here"
    print(f"{counted(counts.new_results, 'new result')} from {results}, {trust}")


def unit_files(text: str) -> tuple[str, list[Path]]:
    """ "softmax.py=a.cpp,b.cpp" → the task and its files. Raises UsageError."""
    task, equals, files = text.partition("=")
    if not equals or not task or not all(files.split(",")):
        raise UsageError(f"--unit {text}: give TASK=FILE, for instance --unit softmax.py=softmax.cpp")
    return task, [Path(f) for f in files.split(",")]


def print_ended(ended: BundleOutcome, out: Path) -> None:
    """A row for each candidate, what the canaries say, and what is left."""
    rows = [candidate_row(ended, c) for c in ended.candidates]
    columns = (
        "task",
        "candidate",
        "technique",
        "status",
        "over the best baseline",
        "limit",
        "confirmed",
        "reason",
    )
    printing.print_rows(columns, rows)
    for task, reason in ended.unopened.items():
        print(f"{task}: given up: {reason}")
    for candidate, how in ended.standing.measure_drift().items():
        print(f"canary {candidate}: {how}")
    for task, why in ended.left.items():
        print(f"left of {task}: {', '.join(why)}")
    print(f"on {ended.environment.hardware}")
    print("the same command goes on" if ended.left else f"warpsmith bundle import {out}")


def candidate_row(ended: BundleOutcome, candidate: Candidate) -> tuple[str, ...]:
    first, confirmation = ended.standing.find_first(candidate), ended.standing.find_confirmation(candidate)
    shown: Result | None = confirmation or first
    limit_known = ended.standing.find_limit(candidate.task_id)
    shown = shown.restate(limit_known) if shown is not None and limit_known is not None else shown
    technique = " + ".join(u.technique or u.family for u in candidate.units)
    name = ended.label(candidate.task_id)
    if shown is None:
        return name, candidate.id, technique, "not judged", "", "", "", ""
    speedup = f"{printing.ratio_text(shown.speedup)} {shown.speedup.baseline}" if shown.speedup else ""
    limit = f"{shown.timing.limit_share:.0%}" if shown.timing else ""
    return (
        name,
        candidate.id,
        technique,
        shown.status,
        speedup,
        limit,
        "yes" if confirmation else "",
        shown.reason,
    )


def as_json(ended: BundleOutcome) -> dict[str, Any]:
    """Return what `--json` writes: the latest result of each candidate, and what is left."""
    results = [ended.standing.find_confirmation(c) or ended.standing.find_first(c) for c in ended.candidates]
    return {
        "root": ended.bundle.root, "environment": ended.environment.model_dump(mode="json"),
        "results": [r.model_dump(mode="json") for r in results if r is not None], "unopened": ended.unopened,
        "canaries": ended.standing.measure_drift(), "left": ended.left, "in_time": ended.in_time,
    }  # fmt: skip
