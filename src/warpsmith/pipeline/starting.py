"""The kernels that a search begins with: those that its user names, and the best that others wrote for the task before.

In: an archive, a task, when the run began, who writes in this run. Out: candidates, those that were named first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..archive.authored import list_authored
from ..archive.entries import RunRecord
from ..archive.reading import ArchiveReader
from ..errors import UsageError
from ..records import Candidate
from ..records.candidate import EXPERT

START_FROM = "from"  # where a run's settings keep the ids of the candidates that were named


def list_adopted(
    archive: ArchiveReader, task_id: str, target: str, before: str, authors: bool, asks: bool, named: Sequence[Candidate]
) -> list[Candidate]:  # fmt: skip
    """`authors`: whether others' kernels join without being named. `asks`: a model writes, so that the expert's own are others', too."""
    without = "" if asks else EXPERT
    best = list_authored(archive, task_id, target, before, without) if authors else []
    by_key = {c.content_key: c for c in reversed([*named, *best])}
    return [by_key[key] for key in dict.fromkeys(c.content_key for c in [*named, *best])]


def load_named(archive: ArchiveReader, run: RunRecord) -> list[Candidate]:
    """The candidates that a recorded run was told to begin with. Raises UsageError where one is lost."""
    candidates: list[Candidate] = []
    for candidate_id in run.config.get(START_FROM, ()):
        candidate = archive.candidate(candidate_id)
        if candidate is None:
            raise UsageError(
                f"run {run.run_id} began with candidate {candidate_id}, which is not in the archive"
            )
        candidates.append(candidate)
    return candidates
