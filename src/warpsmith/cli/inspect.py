"""Commands that look: `tasks`, `doctor`, `version`."""

from __future__ import annotations

import ast
import platform
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from ..errors import OutOfTime
from ..progress import counted, observer_for
from ..records import Admission, Graph, Task, TensorSpec
from . import options as o
from . import printing

tasks = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List, show and check tasks.")

SuiteArgument = Annotated[str, typer.Argument(help="A suite's name or a folder.")]
TaskArgument = Annotated[str, typer.Argument(help="A KernelBench-format file or package.module:Class.")]
TimeOption = Annotated[str, typer.Option("--time", help="Time for the check: 90, 120s, 5m; 0: no limit.")]


def register(app: typer.Typer) -> None:
    app.add_typer(tasks, name="tasks")
    app.command()(doctor)
    app.command()(version)


@tasks.command("list")
def list_tasks(suite: SuiteArgument = "core", json: o.JsonOption = None) -> None:
    """The tasks of a suite, each with the first line of its documentation."""
    from ..tasks.load import load_suite

    rows = [{"task": path.stem, "path": str(path), "about": about(path)} for path in load_suite(suite)]
    if json is not None:
        printing.write_json(rows, json)
    if json != "-":
        for row in rows:
            print(f"{row['task']:34s} {row['about']}")
        print(counted(len(rows), "task"))


@tasks.command("show")
def show_task(task: TaskArgument, settings: o.SetOption = None, json: o.JsonOption = None) -> None:
    """Shapes, operations, FLOPs and least bytes of a task."""
    loaded = load(task, settings)
    if json is not None:
        printing.write_json(loaded.model_dump(mode="json"), json)
    if json != "-":
        print_task(loaded)


@tasks.command("check")
def check_task(
    task: TaskArgument, time: TimeOption = "120s", settings: o.SetOption = None, json: o.JsonOption = None
) -> None:
    """Check whether a task loads, and admits no cheat: zeros, a constant, its input, a stale or sloppy answer."""
    from ..api import check_task as check

    limit, overrides = o.seconds(time), o.overrides(settings)
    with observer_for(quiet=False) as observer:
        loaded, admission = check(
            task, config=o.config(), overrides=overrides, observer=observer, seconds=limit
        )
    if json is not None:
        printing.write_json(admission.model_dump(mode="json"), json)
    if json != "-":
        print_admission(loaded, admission)
    if admission.unchecked:
        missing = "; ".join(admission.unchecked)
        raise OutOfTime(f"{loaded.name}: not checked within {time}: {missing}; give it more with --time")
    raise typer.Exit(0 if admission.admitted else 1)


def doctor(
    archive: o.ArchiveOption = None,
    target: o.TargetOption = "cpu",
    measure: Annotated[
        bool,
        typer.Option(
            "--peaks", help="Measure the target's peak rates, unless they are known from a quiet machine."
        ),
    ] = False,
    json: o.JsonOption = None,
) -> None:
    """Check whether this machine can run Warpsmith, and what to do where it cannot; show its measured peak rates."""
    from ..doctor import describe_peaks, findings, list_peaks, make_peaks_data, measure_missing_peaks

    config = o.config(archive)
    checks = findings(config, target)
    if measure:
        with observer_for(quiet=json == "-") as observer:
            measure_missing_peaks(config, target, observer.stage)
    rates = {f"peaks of {device}": peaks for device, peaks in list_peaks(config, target).items()}
    checks += [(name, True, describe_peaks(peaks)) for name, peaks in rates.items()]
    if json is not None:
        data = {name: {"peaks": make_peaks_data(peaks)} for name, peaks in rates.items() if peaks is not None}
        rows = [{"what": w, "ok": ok, "detail": text, **data.get(w, {})} for w, ok, text in checks]
        printing.write_json(rows, json)
    if json != "-":
        for name, ok, text in checks:
            print(f"{'ok ' if ok else 'NOT'}  {name}: {text}")
    raise typer.Exit(0 if all(ok for _, ok, _ in checks) else 1)


def version(json: o.JsonOption = None) -> None:
    """The version of Warpsmith."""
    if json is not None:
        printing.write_json({"warpsmith": __version__, "python": platform.python_version()}, json)
    if json != "-":
        print(f"warpsmith {__version__} (python {platform.python_version()})")


def load(spec: str, settings: list[str] | None) -> Task:
    """A task at its variants, loaded in a process of its own."""
    from ..processes.buffers import Scratch
    from ..tasks.load import load_task

    config = o.config()
    memory = int(config.memory_gb * 2**30) if config.memory_gb is not None else None
    with Scratch() as scratch:
        return load_task(
            spec,
            scratch=scratch,
            overrides=o.overrides(settings),
            timeout=config.load_timeout,
            memory_bytes=memory,
        )


def about(path: Path) -> str:
    """First line of a file's docstring, read without running it; empty when there is none."""
    try:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    except (OSError, ValueError, SyntaxError):
        return ""
    return text.partition("\n")[0]


def print_task(task: Task) -> None:
    print(task.name + (f" ({task.note})" if task.note else ""))
    columns = ("variant", "inputs", "outputs", "parameters", "FLOPs", "least bytes")
    printing.print_rows(columns, [(v.name, *facts(v.graph)) for v in task.variants])
    for node in task.graph.nodes:
        shapes = ", ".join(spec_text(v.spec) for v in node.outputs if v is not None)
        print(f"  {node.name:24s} {node.op:44s} {shapes:28s} {node.where}")


def facts(graph: Graph) -> list[str]:
    """Inputs, outputs, parameters, FLOPs and least bytes (each input and output moved once)."""
    inputs = [i.spec for i in graph.inputs if i.role == "input"]
    state = [i.spec for i in graph.inputs if i.role != "input"]
    outputs = [graph.specs[o.value] for o in graph.outputs if o.value is not None]
    minimum = sum(s.nbytes for s in [*inputs, *state, *outputs])
    flops = sum(n.flops for n in graph.nodes)
    texts = (" ".join(map(spec_text, specs)) for specs in (inputs, outputs))
    return [*texts, f"{sum(s.numel for s in state):,}", f"{flops:,}", f"{minimum:,}"]


def spec_text(spec: TensorSpec) -> str:
    return f"{spec.dtype}[{','.join(map(str, spec.shape))}]"


def print_admission(task: Task, admission: Admission) -> None:
    failed = "not finished" if admission.unchecked else "quarantined"
    print(f"{task.name}: {'admitted' if admission.admitted else failed}")
    for mutant, rule in admission.mutants.items():
        print(f"  {mutant}: {rule}")
    for reason in admission.reasons:
        print(f"  {reason}")
    for unchecked_rule in admission.unchecked:
        print(f"  not checked: {unchecked_rule}")
