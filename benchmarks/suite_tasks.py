"""Tasks as a benchmark's command line names them: files, or names of tasks in the suites that come with the package."""

from __future__ import annotations

from pathlib import Path

from warpsmith.tasks.suite import SUITES


def find_task(name: str) -> Path:
    """Return the file of a task. Ends the program where there is none."""
    files = [Path(name), *(folder / f"{name}.py" for folder in sorted(SUITES.iterdir()))]
    file = next((f for f in files if f.is_file()), None)
    if file is None:
        raise SystemExit(
            f"{name} is neither a file nor a task of a suite (`warpsmith tasks list` shows them)"
        )
    return file
