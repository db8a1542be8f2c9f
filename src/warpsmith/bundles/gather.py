"""Tasks and candidates for a bundle, from where authors leave them.

In: runs and candidates of an archive, unit files for a task, or folders of `warpsmith ask` with their answers. Out: a `Gathered`, which `make_bundle` takes. Of a run come
the fastest that were correct, or all that it judged where none was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..archive import Archive, Entry
from ..authoring.answers import Answer, make_candidate, read_answer
from ..authoring.folder import read_folder
from ..records import Candidate, Hypothesis, Task
from ..records.intervals import find_worth
from .manifest import BundleError


@dataclass
class Gathered:
    """Records by id, each once."""

    target: str
    tasks: dict[str, Task] = field(default_factory=dict)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    hypotheses: dict[str, Hypothesis] = field(default_factory=dict)

    def add_task(self, task: Task) -> None:
        self.tasks[task.id] = task

    def add_units(self, task: Task, files: Sequence[Path], author: str = "") -> None:
        """Add unit files as one candidate for the task. Raises UsageError, which names the file."""
        self._add_answer(task, [read_answer(f) for f in files], author)

    def add_answers(self, archive: Archive, folder: Path, author: str = "") -> None:
        """Add every answer in a folder of `warpsmith ask`. The task is the archive's, not the folder's, which may have been edited.

        Raises UsageError, BundleError.
        """
        order, answers = read_folder(folder)
        self._expect_target(order.target, f"{folder} was asked")
        task = self._find_task(archive, order.task)
        for units in answers:
            self._add_answer(task, units, author)

    def add_run(self, archive: Archive, run_id: str, top: int) -> None:
        """Add the fastest `top` contents of a run. Raises ArchiveError, BundleError."""
        run = archive.run(run_id)
        self._expect_target(run.target, f"run {run.run_id} is")
        best: dict[str, Entry] = {}
        for entry in sorted(archive.run_entries(run.run_id), key=lambda e: -_speed(e)):
            best.setdefault(entry.candidate.content_key, entry)
        correct = [e for e in best.values() if e.result.status == "ok"]
        for entry in (correct or list(best.values()))[:top]:
            self._add(archive, entry.candidate)
        self.add_task(self._find_task(archive, run.task_id))

    def add_candidate(self, archive: Archive, candidate_id: str) -> None:
        candidate = archive.candidate(candidate_id)
        if candidate is None:
            raise BundleError(
                f"no candidate {candidate_id} in the archive: `warpsmith archive show RUN` lists them"
            )
        self._expect_target(candidate.target, f"candidate {candidate_id} is")
        self._add(archive, candidate)
        self.add_task(self._find_task(archive, candidate.task_id))

    def _add(self, archive: Archive, candidate: Candidate) -> None:
        self.candidates[candidate.id] = candidate
        hypothesis = archive.hypothesis(candidate.lineage.hypothesis)
        if hypothesis is not None:
            self.hypotheses[hypothesis.id] = hypothesis

    def _add_answer(self, task: Task, answers: Sequence[Answer], author: str) -> None:
        candidate = make_candidate(task, self.target, answers, author=author)
        self.add_task(task)
        self.candidates[candidate.id] = candidate

    def _find_task(self, archive: Archive, task_id: str) -> Task:
        task = archive.task(task_id)
        if task is None:
            raise BundleError(
                f"task {task_id} is not in {archive.name}: name the archive that it was asked or run with"
            )
        return task

    def _expect_target(self, target: str, subject: str) -> None:
        if target != self.target:
            raise BundleError(
                f"{subject} for {target}, and a bundle has one target, here {self.target}: give --target {target}"
            )


def _speed(entry: Entry) -> float:
    return find_worth(entry.result.speedup) if entry.result.status == "ok" else 0.0
