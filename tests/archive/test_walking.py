"""What the site reads of an archive beside runs: its tasks, and results that no run asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpsmith.archive import Archive
from warpsmith.archive.walking import list_entries_without_run, list_tasks


def test_tasks_are_listed_by_name(archive: Archive, make: Any) -> None:
    second = make.task.model_copy(update={"name": "abs"})
    for task in (make.task, second):
        archive.add_task(task)
    assert list_tasks(archive) == [(second.id, "abs"), (make.task.id, "relu")]


def test_results_without_a_run_are_told_from_those_of_runs(begun: Callable[..., Archive], make: Any) -> None:
    archive, candidates = begun(), [make.candidate(n) for n in range(3)]
    for run_id, candidate in zip((None, "run-1", None), candidates, strict=True):
        archive.add_result(run_id, candidate, make.ok(candidate))
    entries = list_entries_without_run(archive, make.task.id)
    assert [e.candidate.id for e in entries] == [candidates[0].id, candidates[2].id]
    assert list_entries_without_run(archive, "no-task") == []
