"""From what the user names to a `Task`: a KernelBench-format file or `package.module:Class`, exported in a
confined process.

In: a path or an import path, and overrides of the file's constants; or a task that a capture wrote (see `saved`). Out: a Task with its main variant and
its other shapes. This side never runs a line of the task and never imports torch; every way a file can be
bad ends in one TaskError of one line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import TaskError
from ..processes.buffers import Scratch
from ..records import Task, TaskSource, Variant
from .client import TaskHost
from .emptiness import refuse_empty
from .saved import ENDING, read_saved_task
from .source import parse
from .suite import load_suite
from .variants import derive_variants, read_declared_variants

MAX_FILE_BYTES = 1 << 20  # bytes of a task file


def load_task(
    spec: str,
    *,
    scratch: Scratch,
    overrides: dict[str, Any] | None = None,
    timeout: float = 60.0,
    memory_bytes: int | None = None,
) -> Task:
    """Export a task and its variants in one host process.

    `timeout` is in seconds, for each export. Raises TaskError.
    """
    base = dict(overrides or {})
    if spec.endswith(ENDING):
        if base:
            raise TaskError(f"{spec} is an exported module: it has no constants to override")
        return read_saved_task(Path(spec))
    with TaskHost(
        read_source(spec), scratch=scratch, timeout=timeout, memory_bytes=memory_bytes, exports=True
    ) as host:
        main = Variant(name="main", overrides=base, graph=host.export(base))
        refuse_empty(main.graph)
        note = host.note
        tree = parse(host.source.text, host.source.path)
        variants, skipped = read_declared_variants(host, tree, main), ""
        if variants is None:
            variants, skipped = derive_variants(host, tree, main)
    notes = "; ".join(n for n in (note, skipped) if n)
    return Task(name=task_name(host.source), source=host.source, variants=(main, *variants), note=notes)


def read_source(spec: str) -> TaskSource:
    """Tell a file from an import path, and read the file. Raises TaskError."""
    module, colon, entry = spec.partition(":")
    if colon and all(part.isidentifier() for part in [*module.split("."), entry]):
        return TaskSource(kind="module", path=spec, entry=entry)
    path = Path(spec)
    if path.is_dir():
        raise TaskError(f"{spec} is a folder; name one file, or run it as a suite: warpsmith suite {spec}")
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_FILE_BYTES else None
    except OSError as error:
        raise TaskError(f"cannot read {spec}: {(error.strerror or str(error)).lower()}") from error
    if data is None:
        raise TaskError(f"{spec} is larger than 1 MiB; a task is one Python file")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise TaskError(f"{spec} is not a Python file: it is not UTF-8 text") from error
    parse(text, spec)
    return TaskSource(kind="kernelbench", path=spec, text=text)


def task_name(source: TaskSource) -> str:
    return source.entry if source.kind == "module" else Path(source.path).stem


__all__ = ["TaskHost", "load_suite", "load_task", "read_source", "task_name"]
