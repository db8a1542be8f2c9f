"""`RunKeeper` puts what workers send into the suite's archive, and keeps on the disk what is not there yet.

In: runs that arrived, snapshots of runs that go on. Out: the archive. A snapshot is a file in the cache until its run is in the archive, so a driver that is
killed, or whose archive is locked or full, goes on from it the next time: nothing of it is in the archive before the whole run
was checked.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..archive.adopting import adopt_run, mark_imported, settle_run
from ..archive.store import Archive
from ..archive.transfer import aside, import_text
from ..errors import ArchiveError
from ..pipeline.suite import PlannedRun
from ..progress import Observer
from ..records import RunSummary, content_hash
from .shipping import ArrivedRun, export_finished

TRIES = 4  # at a write into the archive
NEWEST = 8  # finished runs of one task and seed that a worker is told of
PASSING = ("suite", "lane", "node")  # settings that say nothing of how a run goes

RunName = tuple[str, str, int | None]  # a task's name, a target, the seed that was asked for


class RunKeeper:
    """`settings`: of the suite's runs; with the task's text and the seed they name a snapshot's file."""

    def __init__(
        self, archive: Archive, cache: Path, settings: Mapping[str, Any], observer: Observer, retry_s: float
    ) -> None:
        self.archive, self._folder, self._observer = archive, cache / "ray", observer
        self._settings = {k: v for k, v in settings.items() if k not in PASSING}
        self._retry_s = retry_s
        self._finished: defaultdict[RunName, list[str]] | None = None

    def list_known(self, run: PlannedRun, source: str, with_finished: bool = True) -> list[str]:
        """List what is known of a run: its snapshot, and finished runs of its task, target and seed."""
        snapshot = self._snapshot(run, source)
        lines = [snapshot.read_text()] if snapshot.exists() else []
        if not with_finished:
            return lines
        if self._finished is None:
            self._finished = self._index_finished()
        ids = self._finished[run.path.stem, run.target, run.seed][:NEWEST]
        return lines + [text for i in ids if (text := export_finished(self.archive, self.archive.run(i)))]

    def _index_finished(self) -> defaultdict[RunName, list[str]]:
        """Index the ids of this archive's own finished runs by task, target and seed, newest first."""
        index: defaultdict[RunName, list[str]] = defaultdict(list)
        for run in self.archive.runs():
            if run.finished and run.origin == "local":
                index[run.task_name, run.target, run.config.get("seed")].append(run.run_id)
        return index

    def keep_snapshot(self, run: PlannedRun, source: str, text: str) -> None:
        """Keep a run as far as it is. A disk that is full costs the snapshot, not the run."""
        path = self._snapshot(run, source)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with aside(path) as aside_path:
                aside_path.write_text(text)
        except (OSError, ArchiveError) as error:
            self._observer.note(f"no snapshot of {run.name} is kept: {error}")

    def drop_snapshot(self, run: PlannedRun, source: str) -> None:
        with suppress(OSError):
            self._snapshot(run, source).unlink(missing_ok=True)

    def find_kept(self, run_id: str) -> RunSummary | None:
        """The summary of a finished run that is in the archive as its own; None: it is not."""
        with suppress(ArchiveError):
            run = self.archive.run(run_id)
            if run.run_id == run_id and run.origin == "local":
                return run.summary
        return None

    def keep(self, arrived: ArrivedRun, summary: RunSummary, without: Collection[str] = ()) -> None:
        """Put a run into the archive as its own; results `without`, by id, stay imported. Raises ArchiveError."""

        def write() -> None:
            import_text(self.archive, arrived.text, f"run {arrived.run.run_id}")
            if not summary.fault:
                settle_run(self.archive, summary)
            adopt_run(self.archive, summary.run_id, without)

        self.insist(write)

    def keep_unverified(self, arrived: ArrivedRun, summary: RunSummary) -> None:
        """Put a run into the archive as imported: nothing of it is a winner. Raises ArchiveError."""

        def write() -> None:
            import_text(self.archive, arrived.text, f"run {arrived.run.run_id}")
            settle_run(self.archive, summary)
            mark_imported(self.archive, summary.run_id)

        self.insist(write)

    def insist(self, write: Callable[[], None]) -> None:
        """Write, and try again where the archive is locked, full or restarting. Raises ArchiveError after the last try."""
        for attempt in range(TRIES):
            try:
                return write()
            except ArchiveError as error:
                if attempt == TRIES - 1:
                    raise ArchiveError(
                        f"{error}; what workers sent is kept in {self._folder}, and the same command takes it in"
                    ) from error
                wait_s = self._retry_s * 2**attempt
                self._observer.note(f"{error}: trying again in {wait_s:.0f} s")
                time.sleep(wait_s)

    def _snapshot(self, run: PlannedRun, source: str) -> Path:
        name = content_hash(
            {"task": source, "name": run.path.stem, "seed": run.seed, "settings": json.loads(json.dumps(self._settings))}
        )  # fmt: skip
        return self._folder / f"{name}.jsonl"
