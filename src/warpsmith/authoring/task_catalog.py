"""Tasks as authors name them: listed, found, loaded once.

In: a path, an import path, the name of a task of suite core, or `archive:ID`. Out: a `Task`. Loading runs
the task's Python in a confined process of its own; here none of it runs. Usable from several threads.
"""

from __future__ import annotations

import ast
import threading
from pathlib import Path
from typing import Any

from ..archive.store import Archive
from ..config import Config
from ..errors import TaskError
from ..processes.buffers import Scratch
from ..records import Task
from ..tasks.load import load_suite, load_task
from .author_views import TaskRow

ARCHIVED = "archive:"  # and a task's id
MAX_NAME_CHARACTERS, MAX_NAME_PART_BYTES = 1000, 255  # characters of a name, bytes between its slashes


class TaskCatalog:
    def __init__(self, config: Config, archive: Archive) -> None:
        self._config, self._archive = config, archive
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, str], Task] = {}

    def rows(self, suite: str = "core") -> list[TaskRow]:
        """The tasks of a suite or folder, and those that the archive has runs of. Raises UsageError."""
        _expect_name(suite)
        rows = [
            TaskRow(task=str(path), name=path.stem, where=f"suite {suite}", about=_about(path))
            for path in load_suite(suite)
        ]
        tasks = dict.fromkeys((r.task_id, r.task_name) for r in self._archive.runs())
        return rows + [TaskRow(task=f"{ARCHIVED}{i}", name=n, where="archive") for i, n in tasks]

    def task(self, spec: str, overrides: dict[str, Any] | None = None) -> Task:
        """Raises TaskError, one line."""
        _expect_name(spec)
        if spec.startswith(ARCHIVED):
            task = self._archive.task(spec.removeprefix(ARCHIVED))
            if task is None:
                raise TaskError(f"no task {spec.removeprefix(ARCHIVED)[:40]} in {self._config.archive}")
            return task
        path = _in_suite(spec)
        key = (path, f"{_version(path)} {overrides}")
        with self._lock:  # one export at a time
            if key not in self._loaded:
                self._loaded[key] = self._load(path, overrides)
            return self._loaded[key]

    def _load(self, spec: str, overrides: dict[str, Any] | None) -> Task:
        config = self._config
        memory = int(config.memory_gb * 2**30) if config.memory_gb is not None else None
        with Scratch() as scratch:
            return load_task(
                spec, scratch=scratch, overrides=overrides, timeout=config.load_timeout, memory_bytes=memory
            )


def _expect_name(text: str) -> None:
    """Raises TaskError for a name that no path can have: the system would end in errors of its own."""
    parts = (
        (len(part.encode()) for part in text.split("/")) if text.isprintable() else (MAX_NAME_CHARACTERS + 1,)
    )
    if len(text) > MAX_NAME_CHARACTERS or max(parts) > MAX_NAME_PART_BYTES:
        raise TaskError(f"{text[:40]!r} names no task: it is too long, or holds what no name does")


def _in_suite(spec: str) -> str:
    """The path of suite core's task of this name, where no such file is here."""
    if not spec.isidentifier() or Path(spec).exists():
        return spec
    return next((str(p) for p in load_suite("core") if p.stem == spec), spec)


def _version(spec: str) -> str:
    """Tells a file that was written anew from what it was."""
    try:
        status = Path(spec).stat()
    except (OSError, ValueError):
        return ""
    return f"{status.st_mtime_ns} {status.st_size}"


def _about(path: Path) -> str:
    """First line of a file's docstring, read without running it."""
    try:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    except (OSError, ValueError, SyntaxError):
        return ""
    return text.partition("\n")[0]
