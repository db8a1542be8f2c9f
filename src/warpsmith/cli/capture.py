"""`capture`: run a script, and see which layers of its model are worth a search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..progress import observer_for
from . import options as o
from . import printing

NAME_HELP = "The script's variable that holds the model, such as pipe.unet; else what ran longest."


def register(app: typer.Typer) -> None:
    app.command(context_settings={"allow_interspersed_args": False})(capture)


def capture(
    script: Annotated[Path, typer.Argument(help="A Python file that runs your model.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="The script's own arguments.")] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help=NAME_HELP)] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", metavar="FOLDER", help="Write a task file for each chosen region."),
    ] = None,
    json: o.JsonOption = None,
    quiet: o.QuietOption = False,
) -> None:
    """Run SCRIPT once and show which layers of its model ran, their time, their limits, and what they promise.

    Options stand before SCRIPT; what follows it is the script's. `warpsmith optimize FOLDER/NAME.task.json` searches a written task.
    """
    from ..workload.capturing import capture_script

    printing.expect_writable(json)
    recording = capture_script(script, arguments or [], o.config(), model, quiet=json == "-")
    with observer_for(quiet) as observer:
        recording.progress = observer.stage
        workload = recording.workload
        files = recording.write(write) if write is not None else []
    if json is not None:
        data = workload.model_dump(mode="json") | {"tasks": [str(path) for path in files]}
        printing.write_json(data, json)
    if json != "-":
        print(recording)
        for path in files:
            print(path)
