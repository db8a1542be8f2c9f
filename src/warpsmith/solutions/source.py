"""A solution's file, read but not run.

In: a path. Out: its text, once it is certain that it defines `ModelNew`, and those of a variant's overrides
that the file itself assigns. Raises UsageError for what is no solution at all.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from ..errors import TaskError, UsageError
from ..tasks.load import MAX_FILE_BYTES
from ..tasks.source import constants, parse

ENTRY = "ModelNew"


def read_solution(path: Path) -> str:
    """The file's text. Raises UsageError in one line."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} is larger than 1 MiB; a solution is one Python file")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a Python file: it is not UTF-8 text") from error
    try:
        tree = parse(text, str(path))
    except TaskError as error:
        raise UsageError(str(error)) from error
    if not _defines(tree, ENTRY):
        raise UsageError(
            f"{path} defines no class {ENTRY}(torch.nn.Module): that is what is judged against the task's Model"
        )
    return text


def find_own_overrides(text: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """The overrides whose names the solution's own file assigns: it may have copied the task's constants."""
    names = constants(ast.parse(text))
    return {name: value for name, value in overrides.items() if name in names}


def _defines(tree: ast.Module, name: str) -> bool:
    """Return whether the text defines the name: as a class, or by assignment or import (a file may be built so); anywhere but inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == name for a in node.names):
            return True
    return False
