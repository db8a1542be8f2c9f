"""The command `judge-files`: kernels whose files name their task, each judged; for pull requests and commit hooks.

In: files, of which those count that have a line `warpsmith-task: TASK` in a comment. Out: a line for each on standard output, a table in
Markdown, JSON. The exit code is 0 only if every one of them is correct.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from ..ahead import start_ahead
from ..config import Config
from ..errors import UsageError, WarpsmithError
from ..progress import Observer, observer_for
from . import options as o
from . import printing

TASK_LINE = re.compile(r"^[ \t]*(?:#|//)[ \t]*warpsmith-task:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
ERROR = "error"


def register(app: typer.Typer) -> None:
    app.command("judge-files")(judge_files)


def judge_files(
    files: Annotated[
        list[Path], typer.Argument(help="Kernels; those without a `warpsmith-task:` comment are left out.")
    ],
    target: o.TargetOption = "cpu",
    seed: o.SeedOption = None,
    json: o.JsonOption = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Append a table to this file, as a job's summary is.")
    ] = None,
    baselines: o.BaselinesOption = None,
    quiet: o.QuietOption = False,
) -> None:
    """Judge every file that names its task in a comment (`# warpsmith-task: task.py`)."""
    printing.expect_writable(json)
    printing.expect_writable(None if markdown is None else str(markdown))
    named = [(file, task) for file in files if (task := find_task(file))]
    rows: list[dict[str, Any]] = []
    if named:
        start_ahead(baselines)
    with observer_for(quiet) as observer:
        for number, (file, task) in enumerate(named, 1):
            observer.note(f"[{number}/{len(named)}] {file}")
            rows.append(judge_row(file, task, target, seed, o.config(None, baselines), observer))
            if json != "-":
                print(describe_row(rows[-1]))
    if json is not None:
        printing.write_json(rows, json)
    if markdown is not None and rows:
        with markdown.open("a", encoding="utf-8") as summary:
            summary.write(render_table(rows))
    if not rows and json != "-":
        print(
            f"none of {len(files)} files names its task (a comment `warpsmith-task: TASK`): nothing to judge"
        )
    raise typer.Exit(0 if all(row["verdict"] == "correct" for row in rows) else 1)


def find_task(file: Path) -> str:
    """Find the task that a file names, a path from the file's folder; empty where it names none. Raises UsageError."""
    try:
        match = TASK_LINE.search(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return ""
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if match is None:
        return ""
    is_module = not match[1].endswith(".py") and ":" in match[1]
    return match[1] if is_module else str(file.parent / match[1])


def judge_row(
    file: Path, task: str, target: str, seed: int | None, config: Config, observer: Observer
) -> dict[str, Any]:
    """Judge one file. An error that is about this file or its task is a row as well: the other files are judged all the same."""
    from .. import api

    try:
        verdict = api.judge_file(file, task, target=target, seed=seed, config=config, observer=observer)
    except WarpsmithError as error:
        return {"solution": str(file), "task": task, "verdict": ERROR, "reasons": [str(error)]}
    return {**verdict.model_dump(mode="json"), "task": task}


def describe_row(row: dict[str, Any]) -> str:
    """Describe a row in one line: the file, its verdict and the speedup, or the first reason."""
    return f"{row['solution']}: {row['verdict']}{_label(row)}: {_outcome(row)}"


def render_table(rows: list[dict[str, Any]]) -> str:
    """Render the rows as a table in Markdown."""
    lines = ["| kernel | task | verdict | over the fastest baseline, or why not |", "|---|---|---|---|"]
    for row in rows:
        cells = (row["solution"], row["task"], f"{row['verdict']}{_label(row)}", _outcome(row))
        lines.append(f"| {' | '.join(_escape(cell) for cell in cells)} |")
    return "\n".join([*lines, "", ""])


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _label(row: dict[str, Any]) -> str:
    return f" ({row['label']})" if row["verdict"] == "correct" else ""


def _outcome(row: dict[str, Any]) -> str:
    from ..records import Ratio

    best = (row.get("speedup") or {}).get("best")
    if best:
        return f"{printing.ratio_text(Ratio.model_validate(best))} over {best['baseline']}"
    return next(iter(row["reasons"]), "no baseline could be timed")
