"""Queries of authors that need no judge: tasks, regions, headers, history, knowledge, the board.

In: the settings, a target, a task. Out: views. Usable from several threads.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from .. import machine, plugins
from ..archive.entries import Entry, RunRecord
from ..archive.store import Archive
from ..config import Config
from ..errors import UsageError
from ..judge.roofline.peaks import Peaks
from ..knowledge.exemplars import exemplars
from ..knowledge.index import Index, Passage
from ..records import Region, Task
from ..targets.target import Target
from ..targets.task_header import cuda_region_header
from . import outcomes, regions, rules
from .answers import add_covers
from .author_views import AttemptRow, BoardRow, HeaderView, RegionView, TaskRow, TaskView, VerdictView
from .describe import find_peaks, view_region, view_task
from .task_catalog import TaskCatalog

MOST_OTHERS = 2  # units of other tasks, as examples


class TaskQueries:
    """Raises UsageError for a target that nobody registered, ArchiveError."""

    def __init__(self, config: Config, target: str) -> None:
        if target not in plugins.names("targets"):
            plugins.load("targets", target)  # raises, and names the known ones
        self.config, self.target_name, self.archive = config, target, Archive(config.archive)
        self._catalog = TaskCatalog(config, self.archive)

    @cached_property
    def _index(self) -> Index:
        return Index()

    def tasks(self, suite: str = "core") -> list[TaskRow]:
        """See `TaskCatalog.rows`."""
        return self._catalog.rows(suite)

    def task(self, spec: str, overrides: dict[str, Any] | None = None) -> Task:
        """See `TaskCatalog.task`."""
        return self._catalog.task(spec, overrides)

    def read(self, task: Task, spec: str = "") -> TaskView:
        """Source, graph, roofline and regions of a task. `spec`: how it was named."""
        run = self._find_timed_run(task)
        baselines = {b.name: b.median_us for b in run.baselines if b.ok} if run is not None else {}
        return view_task(
            spec or task.name, task, self.target_name, self._propose_regions(task), self._rates(), baselines
        )

    def region(self, task: Task, reference: str = "") -> RegionView:
        """Raises UsageError for what is no region."""
        proposals = self._propose_regions(task)
        return self._view(task, regions.resolve(task.graph, reference, proposals), proposals)

    def header(self, task: Task, reference: str = "") -> HeaderView:
        """Return the header that a unit for the region includes. Raises UsageError for a region that no kernel can take."""
        proposals = self._propose_regions(task)
        region = regions.resolve(task.graph, reference, proposals)
        view = self._view(task, region, proposals)
        examples = exemplars(self.archive, region, self.target_name, MOST_OTHERS, without=task.id)
        return HeaderView(
            region=view, task_h=self._header(task, region), rules=rules.text(self.target_name),
            helpers=str(rules.helper(self.target_name) or ""), example=self._example(task, region),
            others=tuple(u.source for u in examples),
        )  # fmt: skip

    def history(self, task: Task, last: int = 20) -> list[AttemptRow]:
        """List what was judged for the task, whoever wrote it, newest first."""
        entries = self._entries(task)
        return [outcomes.attempt_row(e) for e in reversed(entries[-max(1, last) :])]

    def knowledge(self, query: str, most: int = 4) -> list[Passage]:
        """Passages of the written knowledge base for an operation, a bottleneck or an error."""
        return self._index.retrieve(query, self.target_name, most)

    def board(self, task: Task) -> list[BoardRow]:
        """The best so far, and by whom."""
        environment = machine.describe(self.config.compiler, self._device()).id
        run = self._find_timed_run(task)
        quarantined = run is not None and run.admission is not None and not run.admission.admitted
        return outcomes.board(self._entries(task), environment, self.archive.environment, quarantined)

    def verdict(self, candidate_id: str) -> VerdictView:
        """The last verdict on a candidate. Raises UsageError where there is none."""
        candidate = self.archive.candidate(candidate_id)
        task = self.archive.task(candidate.task_id) if candidate is not None else None
        if candidate is None or task is None:
            raise UsageError(f"no candidate {candidate_id[:40]!r} in {self.config.archive}")
        entries = self.archive.results(task.id, candidate.target)
        judged = [e for e in entries if e.result.content_key == candidate.content_key]
        if not judged:
            raise UsageError(f"candidate {candidate_id} was not judged yet")
        where = self.archive.environment(judged[-1].result.environment)
        device = where.hardware if where is not None else "unknown"
        return outcomes.view_verdict(task.name, candidate, judged[-1].result, device)

    def _entries(self, task: Task) -> list[Entry]:
        return self.archive.results(task.id, self.target_name)

    def _find_timed_run(self, task: Task) -> RunRecord | None:
        """The newest run on this machine that timed the baselines."""
        environment = machine.describe(self.config.compiler, self._device())
        runs = (r for r in self.archive.runs(task.id) if r.target == self.target_name and r.baselines)
        return next((r for r in runs if r.environment == environment), None)

    def _rates(self) -> Peaks | None:
        return find_peaks(self.config, self.target_name)

    def _propose_regions(self, task: Task) -> tuple[Region, ...]:
        return regions.propose_regions(task.graph, self.target_name)

    def _view(self, task: Task, region: Region, known: tuple[Region, ...]) -> RegionView:
        return view_region(task.graph, region, known, self._rates(), self.target_name)

    def _header(self, task: Task, region: Region) -> str:
        """No GPU and no nvcc is needed to write for one."""
        try:
            if self.target_name == "cuda":
                return cuda_region_header(task.graph, region)
            return self._target().header(task.graph, region)
        except ValueError as error:
            raise UsageError(f"no kernel can take this region: {error}") from error

    def _example(self, task: Task, region: Region) -> str:
        """Return a unit as the expert writes it for the target; empty where it does not."""
        unit = regions.example(task.graph, region, self.target_name)
        return add_covers(unit.source, ", ".join(region.nodes)) if unit is not None and unit.compiled else ""

    def _target(self) -> Target:
        c = self.config
        target: Target = plugins.load("targets", self.target_name)(c.cache, c.compiler, c.threads)
        return target

    def _device(self) -> str:
        return "cuda" if self.target_name == "cuda" else "cpu"
