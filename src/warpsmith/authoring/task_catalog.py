"""Tasks as authors name them: listed, found, loaded once.

In: a path, an import path, the name of a task of suite core, or `archive:ID`; from a client, who is not to see files of this machine, a
public name or a task's text. Out: a `Task`. Loading runs the task's Python in a confined process of its own; here none of it runs. Usable
from several threads.
"""

from __future__ import annotations

import ast
import secrets
import threading
from pathlib import Path
from typing import Any

from ..archive.store import Archive
from ..config import Config
from ..errors import TaskError, UsageError
from ..processes.buffers import Scratch
from ..records import Task, content_hash
from ..tasks.load import MAX_FILE_BYTES, load_suite, load_task
from ..tasks.suite import SUITES, suite_names
from .author_views import TaskRow

ARCHIVED = "archive:"  # and a task's id
MAX_PLAIN_NAME = 80  # characters of the name of a task that is handed in
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

    def public_rows(self, suite: str = "core") -> list[TaskRow]:
        """The tasks of a suite that comes with the package, by public names, and those of the archive. Raises UsageError."""
        paths = _list_public(suite)
        rows = [
            TaskRow(task=name, name=path.stem, where=f"suite {suite}", about=_about(path))
            for name, path in paths.items()
        ]
        return rows + [row for row in self.rows("core") if row.where == "archive"]

    def public_task(self, spec: str, overrides: dict[str, Any] | None = None) -> Task:
        """Raises TaskError for what is neither a public name nor an archived task."""
        _expect_name(spec)
        if spec.startswith(ARCHIVED):
            task = self._archive.task(spec.removeprefix(ARCHIVED))
            if task is None:
                raise TaskError(f"no task {spec.removeprefix(ARCHIVED)[:40]} in the archive")
            return task
        suite = spec.partition("/")[0] if "/" in spec else "core"
        path = _list_public(suite).get(spec) if suite in _list_suites() else None
        if path is None:
            raise TaskError(
                f"{spec[:80]!r} is no task of this service: name one of list_tasks, or hand in its file (add_task)"
            )
        return self.task(str(path), overrides)

    def load_text(self, name: str, text: str, overrides: dict[str, Any] | None = None) -> Task:
        """Load a task file from its text, which is kept alone in a folder of the cache. Raises TaskError."""
        if not name.isidentifier() or len(name) > MAX_PLAIN_NAME:
            raise TaskError(
                f"{name[:40]!r} names no task: give letters, digits and underscores, {MAX_PLAIN_NAME} at most"
            )
        if len(text.encode(errors="replace")) > MAX_FILE_BYTES:
            raise TaskError(f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB; a task is one Python file")
        path = self._config.cache / "handed-in" / content_hash([name, text]) / f"{name}.py"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_suffix(f".{secrets.token_hex(4)}")
            aside.write_text(text, encoding="utf-8")
            aside.replace(path)
        except (OSError, UnicodeEncodeError) as error:
            raise TaskError(f"{name} cannot be kept: {error}") from error
        try:
            return self.task(str(path), overrides)
        except TaskError as error:  # its path is nobody's business
            raise TaskError(str(error).replace(str(path), f"{name}.py")) from None

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


def _list_public(suite: str) -> dict[str, Path]:
    """Public name → path of a suite that comes with the package. Raises UsageError."""
    if suite not in _list_suites():
        names = ", ".join(_list_suites())
        raise UsageError(f"{suite[:40]!r} is no suite of this service; suites: {names}")
    files = load_suite(str(SUITES / suite))
    prefix = "" if suite == "core" else f"{suite}/"
    return {f"{prefix}{name}": file for name, file in zip(suite_names(files), files, strict=True)}


def _list_suites() -> list[str]:
    """List the suites that come with the package; what a client names is compared with these, never made a path."""
    return sorted(
        p.name for p in SUITES.iterdir() if p.is_dir() and p.name.isidentifier() and p.name[0] != "_"
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
