"""Tasks of live modules as files: `NAME.task.json` beside the exported program and its values.

In: a task whose source is an exported program, or the path of such a file. Out: the file, or the task. The files may be moved together.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from ..errors import TaskError
from ..records import Task

ENDING = ".task.json"


def save_task(task: Task, folder: Path) -> Path:
    """Write the task beside its exported program, which lies in the folder. Raises TaskError."""
    path = folder / f"{Path(task.source.export_file).stem}{ENDING}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(task.model_dump_json())
    except OSError as error:
        raise TaskError(f"{path} cannot be written: {error.strerror or error}") from error
    return path


def read_saved_task(path: Path) -> Task:
    """Read a task that `save_task` wrote. Raises TaskError."""
    try:
        task = Task.model_validate_json(path.read_text())
    except OSError as error:
        raise TaskError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except (ValidationError, UnicodeDecodeError) as error:
        raise TaskError(f"{path} is no task that a capture wrote: capture the model again") from error
    program = path.absolute().parent / Path(task.source.export_file).name
    if task.source.kind != "memory" or not program.is_file():
        raise TaskError(f"{path} lacks its exported program {program.name} beside it: move both together")
    source = task.source.model_copy(update={"export_file": str(program)})
    return task.model_copy(update={"source": source})
