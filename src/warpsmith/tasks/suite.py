"""From a suite's name, or a folder, to its task files and their names.

A folder is one of task files (`*.py`; `_*` are helpers), or of such folders, as KernelBench is laid out
(`KernelBench/level1/1_Square.py`): then a task's name tells its folder, `level1/1_Square`. Numbers order as numbers.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import UsageError

SUITES = Path(__file__).parent / "suites"
KERNELBENCH = "KernelBench"  # in a checkout of it, the folder that holds the levels


def load_suite(name_or_dir: str) -> list[Path]:
    """The task files of a folder, or of a suite that comes with the package, in order. Raises UsageError."""
    folder = Path(name_or_dir)
    if not folder.is_dir():
        folder = SUITES / name_or_dir
        if not name_or_dir.isidentifier() or not folder.is_dir():
            names = ", ".join(sorted(p.name for p in _folders(SUITES)))
            raise UsageError(f"{name_or_dir} is neither a folder nor a suite; suites: {names}")
    files = _benchmark(folder / KERNELBENCH) or _files(folder) or _benchmark(folder)
    if not files:
        raise UsageError(f"{folder} holds no task files (*.py), and no folders of such")
    return files


def suite_names(files: list[Path]) -> list[str]:
    """List what tasks are called: by their file, and its folder where there are several."""
    several = len({f.parent for f in files}) > 1
    return [f"{f.parent.name}/{f.stem}" if several else f.stem for f in files]


def _benchmark(folder: Path) -> list[Path]:
    return [file for level in _folders(folder) for file in _files(level)]


def _files(folder: Path) -> list[Path]:
    return sorted((p for p in folder.glob("*.py") if not p.name.startswith("_")), key=_order)


def _folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    inside = (p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(("_", ".")))
    return sorted(inside, key=_order)


def _order(path: Path) -> tuple[tuple[int, str], ...]:
    """2_b before 10_a."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.stem))
