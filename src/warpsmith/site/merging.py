"""Several archives read as one, a task at a time: tasks, runs and results appear once.

A local result takes the place of an imported copy. Of two copies of a run the longer one is shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..archive import Entry, RunRecord
from ..archive.reading import ArchiveReader
from ..archive.rows import ArchiveWarning
from ..archive.walking import list_entries_without_run, list_tasks
from ..errors import ArchiveError
from ..records import Candidate, Environment, Result, Task
from ..records.record import content_hash


@dataclass(frozen=True)
class MergedRun:
    run: RunRecord
    entries: tuple[Entry, ...]  # in the order of the run
    archive: ArchiveReader  # that holds this copy


@dataclass(frozen=True)
class TaskRecords:
    """Everything that the archives hold of one task."""

    task: Task
    runs: tuple[MergedRun, ...]  # newest first
    entries: tuple[Entry, ...]  # each result once, oldest first
    environments: dict[str, Environment]  # by id

    @property
    def admitted(self) -> bool:
        """False if some run found that a wrong answer can pass."""
        return all(r.run.admission is None or r.run.admission.admitted for r in self.runs)


class MergedArchives:
    def __init__(self, archives: Sequence[ArchiveReader]) -> None:
        self.archives = archives

    def list_tasks(self) -> list[tuple[str, str]]:
        """(task id, name) of every task, by name."""
        names = {task_id: name for archive in self.archives for task_id, name in list_tasks(archive)}
        return sorted(names.items(), key=lambda item: (item[1], item[0]))

    def load(self, task_id: str) -> TaskRecords | None:
        """Load a task; None, with a warning, where no archive has a copy of it that can be read."""
        task = self._find_task(task_id)
        if task is None:
            return None
        copies = [copy for archive in self.archives for copy in _read_runs(archive, task_id)]
        loose = [e for archive in self.archives for e in list_entries_without_run(archive, task_id)]
        started = {copy.run.run_id: copy.run.started_at for copy in copies}
        placed = [e for copy in copies for e in copy.entries]
        entries = sorted(merge_entries([*placed, *loose]), key=lambda e: find_time(e, started))
        local = {find_result_key(e.result) for e in entries if e.verified_here}
        runs = sorted(
            _merge_runs(copies, local), key=lambda r: (r.run.started_at, r.run.run_id), reverse=True
        )
        return TaskRecords(task, tuple(runs), tuple(entries), self._load_environments(entries, runs))

    def find_candidate(self, candidate_id: str) -> Candidate | None:
        for archive in self.archives:
            try:
                candidate = archive.candidate(candidate_id)
            except ArchiveError:  # damaged in this archive
                continue
            if candidate is not None:
                return candidate
        return None

    def _find_task(self, task_id: str) -> Task | None:
        problem = "not there any more"
        for archive in self.archives:
            try:
                task = archive.task(task_id)
            except ArchiveError as error:
                problem = str(error)
                continue
            if task is not None:
                return task
        warnings.warn(f"task {task_id} is left out: {problem}", ArchiveWarning, stacklevel=2)
        return None

    def _load_environments(
        self, entries: Iterable[Entry], runs: Iterable[MergedRun]
    ) -> dict[str, Environment]:
        environments = {r.run.environment.id: r.run.environment for r in runs}
        for environment_id in sorted({e.result.environment for e in entries} - set(environments)):
            for archive in self.archives:
                try:
                    environment = archive.environment(environment_id)
                except ArchiveError:
                    continue
                if environment is not None:
                    environments[environment_id] = environment
                    break
        return environments


def find_result_key(result: Result) -> str:
    """Return what two copies of a result share. Its id is not: an imported copy has lost its paths of builds, and a share of
    the limit is of the limit that the archive knows.
    """
    stages = result.model_dump(mode="json", include={"verdict", "seconds"})
    timing = result.timing
    times = [timing.median_us, timing.low_us, timing.high_us, timing.confirmed] if timing is not None else []
    named = [
        result.candidate_id,
        result.environment,
        result.seed,
        result.judged_at,
        result.status,
        result.reason,
    ]
    return content_hash([named, stages, times])


def merge_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Each result once: rather a local copy than an imported one, rather where it was judged than where it was reused."""
    copies: dict[str, list[Entry]] = {}
    for entry in entries:
        copies.setdefault(find_result_key(entry.result), []).append(entry)
    return [
        max(same, key=lambda e: (e.verified_here, e.kind != "reused", bool(e.run_id)))
        for same in copies.values()
    ]


def find_time(entry: Entry, started: dict[str, str]) -> str:
    """Return when a result was judged, ISO 8601; where it does not say, when its run got it; else nothing."""
    begin = started.get(entry.run_id, "")
    if entry.result.judged_at or not begin:
        return entry.result.judged_at
    try:
        time = datetime.fromisoformat(begin) + timedelta(seconds=entry.elapsed)
    except (ValueError, OverflowError):  # an imported run may say anything
        return ""
    return time.isoformat(timespec="microseconds")


def _read_runs(archive: ArchiveReader, task_id: str) -> Iterator[MergedRun]:
    for run in reversed(archive.runs(task_id)):  # oldest first: results of one second stay in order
        yield MergedRun(run, tuple(archive.run_entries(run.run_id)), archive)


def _merge_runs(copies: Iterable[MergedRun], local: set[str]) -> Iterator[MergedRun]:
    groups: dict[str, list[MergedRun]] = {}
    for copy in copies:
        groups.setdefault(copy.run.run_id, []).append(copy)
    for same in groups.values():
        longest = max(same, key=lambda c: (len(c.entries), c.run.finished, c.run.origin == "local"))
        origin = "local" if any(c.run.origin == "local" for c in same) else "imported"
        entries = tuple(
            e.model_copy(update={"origin": "local"}) if find_result_key(e.result) in local else e
            for e in longest.entries
        )
        yield MergedRun(longest.run.model_copy(update={"origin": origin}), entries, longest.archive)
