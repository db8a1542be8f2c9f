"""Candidates as a user names them: by id in the archive, as a unit file, or as a folder of unit files.

In: a task and what was named. Out: candidates of that task. Raises UsageError, one line that says what is wrong with which.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..archive.reading import ArchiveReader
from ..errors import UsageError
from ..records import Candidate, Task
from .answers import is_of_target, make_candidate, read_answer


def read_candidates(
    task: Task, target: str, archive: ArchiveReader, names: Sequence[str | Path]
) -> list[Candidate]:
    return [_read(task, target, archive, name) for name in names]


def _read(task: Task, target: str, archive: ArchiveReader, name: str | Path) -> Candidate:
    path = Path(name)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if is_of_target(p, target))
        if not files:
            raise UsageError(f"{path} holds no unit file for {target}")
        return make_candidate(task, target, [read_answer(p) for p in files], note=path.name)
    if path.is_file():
        return make_candidate(task, target, [read_answer(path)], note=path.name)
    candidate = archive.candidate(str(name))
    if candidate is None:
        raise UsageError(f"{str(name)[:80]!r} is neither a file nor a candidate in {archive.name}")
    if candidate.task_id != task.id or candidate.target != target:
        raise UsageError(
            f"candidate {candidate.id} is of another task or target: kernels of other tasks are found without being named"
        )
    return candidate
