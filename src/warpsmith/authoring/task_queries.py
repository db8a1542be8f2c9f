"""Queries of authors that need no judge: tasks, regions, headers, sources, history, knowledge, the board.

In: the settings, a target, a task, and who asks (`owner`; "": the operator, who sees all). Out: views. Usable from several threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from .. import machine, plugins
from ..archive.entries import Entry, RunRecord
from ..archive.store import Archive
from ..config import Config
from ..errors import TaskError, UsageError
from ..judge.roofline.peaks import Peaks
from ..knowledge.exemplars import exemplars
from ..knowledge.index import Index, Passage
from ..records import BaselineTiming, Candidate, Region, Result, Task
from ..targets.target import Target
from ..targets.task_header import cuda_region_header
from . import outcomes, regions, rules
from .actions import offer_schedules
from .answers import add_covers
from .author_views import (
    AttemptRow,
    BoardRow,
    HeaderView,
    RegionView,
    SourceView,
    TaskRow,
    TaskView,
    VerdictView,
)
from .describe import find_peaks, name_hardware, view_region, view_task
from .fixed_baseline import choose_fixed_baseline
from .job_journal import JobJournal, OwnedKind, find_journal
from .machine_page import write_machine_page
from .observing import Observation, make_observation
from .task_catalog import ARCHIVED, TaskCatalog

MOST_OTHERS = 2  # units of other tasks, as examples
MOST_SEARCHED = 50  # of which some may be hidden


class TaskQueries:
    """Raises UsageError for a target that nobody registered, ArchiveError."""

    def __init__(self, config: Config, target: str) -> None:
        if target not in plugins.names("targets"):
            plugins.load("targets", target)  # raises, and names the known ones
        self.config, self.target_name, self.archive = config, target, Archive(config.archive)
        self._catalog = TaskCatalog(config, self.archive)

    @cached_property
    def journal(self) -> JobJournal:
        return JobJournal(find_journal(self.config.archive, self.config.cache))

    @cached_property
    def _index(self) -> Index:
        return Index()

    def tasks(self, suite: str = "core", owner: str = "") -> list[TaskRow]:
        """See `TaskCatalog.rows`. A client sees no paths of this machine."""
        hidden = {f"{ARCHIVED}{i}" for i in self._hidden("task", owner)}
        rows = self._catalog.rows(suite) if not owner else self._catalog.public_rows(suite)
        return [row for row in rows if row.task not in hidden]

    def task(self, spec: str, overrides: dict[str, Any] | None = None, owner: str = "") -> Task:
        """See `TaskCatalog.task`; a client names no paths of this machine."""
        if not owner:
            return self._catalog.task(spec, overrides)
        if spec.removeprefix(ARCHIVED) in self._hidden("task", owner):
            raise TaskError(f"no task {spec.removeprefix(ARCHIVED)[:40]} in the archive")
        return self._catalog.public_task(spec, overrides)

    def add_task(
        self, name: str, source: str, overrides: dict[str, Any] | None = None, owner: str = ""
    ) -> TaskRow:
        """Load a task from its text and keep it, for its owner alone. Raises TaskError."""
        task = self._catalog.load_text(name, source, overrides)
        is_there = self.archive.task(task.id) is not None
        if owner and (not is_there or self.journal.list_owners("task", task.id)):
            self.journal.own("task", [task.id], owner)
        self.archive.add_task(task)
        return TaskRow(task=f"{ARCHIVED}{task.id}", name=task.name, where="archive")

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

    def header(self, task: Task, reference: str = "", owner: str = "") -> HeaderView:
        """Return the header that a unit for the region includes. Raises UsageError for a region that no kernel can take."""
        proposals = self._propose_regions(task)
        region = regions.resolve(task.graph, reference, proposals)
        view = self._view(task, region, proposals)
        hidden = self._hidden("source", owner)
        count = MOST_OTHERS if not hidden else MOST_SEARCHED
        units = exemplars(self.archive, region, self.target_name, count, without=task.id)
        examples = [u for u in units if u.code_key not in hidden][:MOST_OTHERS]
        return HeaderView(
            region=view, task_h=self._header(task, region), rules=rules.text(self.target_name),
            helpers=str(rules.helper(self.target_name) or ""), example=self._example(task, region),
            others=tuple(u.source for u in examples),
        )  # fmt: skip

    def observe(self, task: Task, spec: str = "", owner: str = "") -> Observation:
        """Return what a policy may see of a task. `spec`: how it was named."""
        try:
            header = self.header(task, regions.WHOLE, owner)
        except UsageError:
            header = None  # the graph is no single region, or none that a kernel can take
        sheet = write_machine_page(self.config, self.target_name)
        offers = offer_schedules(task.graph, self.target_name)
        return make_observation(self.read(task, spec), task.graph, sheet, header, offers)

    def history(self, task: Task, last: int = 20, owner: str = "") -> list[AttemptRow]:
        """List what was screened and judged for the task, whoever wrote it, newest first."""
        entries, fixed = self._entries(task, owner), self.find_fixed_baseline(task)
        return [outcomes.attempt_row(e, fixed) for e in reversed(entries[-max(1, last) :])]

    def knowledge(self, query: str, most: int = 4) -> list[Passage]:
        """Passages of the written knowledge base for an operation, a bottleneck or an error."""
        return self._index.retrieve(query, self.target_name, most)

    def board(self, task: Task, owner: str = "") -> list[BoardRow]:
        """The best so far, and by whom."""
        run = self._find_timed_run(task)
        quarantined = run is not None and run.admission is not None and not run.admission.admitted
        return outcomes.board(
            self._entries(task, owner), self._environment, self.archive.environment, quarantined, self.find_fixed_baseline(task)
        )  # fmt: skip

    def read_candidate(self, candidate_id: str, owner: str = "") -> Candidate:
        """Raises UsageError where there is none, or none that the owner may see."""
        candidate = self.archive.candidate(candidate_id)
        if candidate is None or candidate.id in self._hidden("candidate", owner):
            raise UsageError(f"no candidate {candidate_id[:40]!r} in {self._archive_name(owner)}")
        return candidate

    def verdict(self, candidate_id: str, owner: str = "") -> VerdictView:
        """The last word on a candidate. Raises UsageError where there is none."""
        candidate, task = self._read_with_task(candidate_id, owner)
        result = self._find_last_result(candidate)
        if result is None:
            raise UsageError(f"candidate {candidate_id} was not judged yet")
        where = self.archive.environment(result.environment)
        device = where.hardware if where is not None else "unknown"
        fixed = self.find_fixed_baseline(task) if result.environment == self._environment else None
        return outcomes.view_verdict(task.name, candidate, result, device, fixed=fixed)

    def source(self, candidate_id: str, owner: str = "") -> SourceView:
        """A candidate's sources and values, and how they differ from its parent's. Raises UsageError where there is none."""
        candidate, task = self._read_with_task(candidate_id, owner)
        parent = self.find_parent(candidate, owner)
        result = self._find_last_result(candidate)
        return outcomes.view_source(candidate, parent, result, self.find_fixed_baseline(task))

    def find_parent(self, candidate: Candidate, owner: str = "") -> Candidate | None:
        """Find the first parent that the owner may see and the archive has."""
        hidden = self._hidden("candidate", owner)
        parents = [p for p in candidate.lineage.parents if p not in hidden]
        return self.archive.candidate(parents[0]) if parents else None

    def find_fixed_baseline(self, task: Task) -> BaselineTiming | None:
        """The baseline that every time of this task on this machine is compared with; None: none was timed yet."""
        runs = (r for r in self.archive.runs(task.id) if r.target == self.target_name and r.baselines)
        return choose_fixed_baseline(r for r in runs if r.environment.id == self._environment)

    def index_known_results(self, task: Task) -> dict[str, Result]:
        """Content key → the latest result on this machine."""
        return self.archive.index_judged_results(task.id, self.target_name, self._environment)

    def view_result(
        self, task: Task, candidate: Candidate, result: Result, notes: Sequence[str] = (), run: str = ""
    ) -> VerdictView:
        hardware = name_hardware(self.target_name)
        return outcomes.view_verdict(
            task.name, candidate, result, hardware, notes, run, self.find_fixed_baseline(task)
        )

    def _read_with_task(self, candidate_id: str, owner: str) -> tuple[Candidate, Task]:
        candidate = self.read_candidate(candidate_id, owner)
        task = self.archive.task(candidate.task_id)
        if task is None:
            raise UsageError(f"no task of candidate {candidate_id[:40]!r} in {self._archive_name(owner)}")
        return candidate, task

    def _find_last_result(self, candidate: Candidate) -> Result | None:
        entries = self.archive.results(candidate.task_id, candidate.target)
        judged = [e.result for e in entries if e.result.content_key == candidate.content_key]
        return judged[-1] if judged else None

    def _entries(self, task: Task, owner: str = "") -> list[Entry]:
        hidden = self._hidden("candidate", owner)
        entries = self.archive.results(task.id, self.target_name)
        return [e for e in entries if e.candidate.id not in hidden]

    def _hidden(self, kind: OwnedKind, owner: str) -> frozenset[str]:
        return self.journal.list_hidden(kind, owner) if owner else frozenset()

    def _archive_name(self, owner: str) -> str:
        return "the archive" if owner else str(self.config.archive)

    @cached_property
    def _environment(self) -> str:
        return machine.describe(self.config.compiler, self._device()).id

    def _find_timed_run(self, task: Task) -> RunRecord | None:
        """The newest run on this machine that timed as many of the baselines as any."""
        runs = (r for r in self.archive.runs(task.id) if r.target == self.target_name and r.baselines)
        of_machine = [r for r in runs if r.environment.id == self._environment]
        return max(of_machine, key=lambda r: sum(b.ok for b in r.baselines), default=None)

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
            return self.open_target().header(task.graph, region)
        except ValueError as error:
            raise UsageError(f"no kernel can take this region: {error}") from error

    def _example(self, task: Task, region: Region) -> str:
        """Return a unit as the expert writes it for the target; empty where it does not."""
        unit = regions.example(task.graph, region, self.target_name)
        return add_covers(unit.source, ", ".join(region.nodes)) if unit is not None and unit.compiled else ""

    def open_target(self) -> Target:
        """Raises ToolchainError."""
        c = self.config
        target: Target = plugins.load("targets", self.target_name)(c.cache, c.compiler, c.threads)
        return target

    def _device(self) -> str:
        return "cuda" if self.target_name == "cuda" else "cpu"
