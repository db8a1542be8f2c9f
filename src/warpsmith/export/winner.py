"""From an entry of the archive to an export of it, in any form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .. import plugins
from ..archive import Entry, RunRecord
from ..archive.reading import ArchiveReader
from ..config import Config
from ..errors import ArchiveError, UsageError
from ..targets.native_target import NativeTarget
from .files import proof, write
from .hf_kernel import to_hf_kernel
from .kernelbench import to_kernelbench
from .package import to_package
from .patch import to_patch
from .source import to_source

FORMS = ("kernelbench", "package", "source", "hf-kernel", "patch")


def export_winner(
    archive: ArchiveReader,
    run: RunRecord,
    entry: Entry,
    form: str,
    path: Path,
    target: NativeTarget | None = None,
    archs: Sequence[str] = (),
    source: Path | None = None,
) -> Path:
    """Write `entry` as "kernelbench" (a file), "package", "source", "hf-kernel" or "patch" (a folder) to `path`, and return
    what was written. `archs`: GPU architectures to build for; `source`: the file that a patch changes, the task's own when None.

    Raises UsageError for an unknown form or a place that cannot be written, ArchiveError when the task is
    not stored, ToolchainError when a package's kernels do not build here.
    """
    if form not in FORMS:
        raise UsageError(f"unknown export {form!r}: choose one of {', '.join(FORMS)}")
    task = archive.task(entry.candidate.task_id)
    if task is None:
        raise ArchiveError(f"task {entry.candidate.task_id} of this candidate is not in the archive")
    config = Config.load()
    target = target or _target(entry.candidate.target, config)
    words = proof(entry, run)
    if form == "kernelbench":
        write(path, to_kernelbench(task, entry.candidate, target, words))
        return path
    if form == "source":
        return to_source(task, entry.candidate, target, path, words)
    if form == "patch":
        return to_patch(task, entry.candidate, target, path, words, source, archs)
    name = path.resolve().name.replace("-", "_")
    write_form = to_package if form == "package" else to_hf_kernel
    return write_form(task, entry.candidate, target, path, name, words, archs)


def _target(name: str, config: Config) -> NativeTarget:
    """Raises ToolchainError where its tools are missing."""
    target: NativeTarget = plugins.load("targets", name)(config.cache, config.compiler, config.threads)
    return target
