"""A recorded run again, from its record alone: no judge, no network, no key, the same candidates and the same best.

In: an archive, a run's id, its task. Out: an `Outcome`, with a `fault` in its summary when the run could not be followed to
the end of its record: prompts, rules or knowledge have changed since. Nothing is judged, and no result is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Never

from ..agents.base import Attempt
from ..archive.entries import Entry, RunRecord
from ..archive.inbox import Inbox
from ..archive.store import Archive
from ..archive.timings import list_timed_units
from ..config import Config
from ..errors import UsageError
from ..executors.replay import ReplayExecutor
from ..facts import Facts
from ..llm.setup import models_of, open_replayed_chats
from ..progress import Observer, counted
from ..records import Budget, Candidate, Result, Task
from ..search.confirmation import confirm
from ..search.loop import Search
from ..search.meter import Meter
from ..search.methods import Methods, make_methods
from ..search.novelty import Novelty
from ..targets.target import Target
from .run_inbox import RecordedInbox
from .starting import list_adopted, load_named
from .summary import (
    Ground,
    Outcome,
    Spent,
    load_ground,
    settle_limit,
    stop_if_quarantined,
    summarize,
    was_quarantined,
    with_baselines,
)
from .team import make_memory, make_team
from .transfer_seeds import ArchiveTransferSeeds

HERE = (
    "archive",
    "cache",
    "compiler",
    "threads",
    "load_timeout",
    "memory_gb",
    "judge_memory_gb",
    "timed_on",
)  # settings of this machine


class RecordEnds(Exception):
    """A candidate was proposed that the record does not hold."""


class RecordedResults(ReplayExecutor):
    """Also what confirmations measured, where there were any; of one that was repeated the last."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        searched = [e for e in entries if e.kind != "confirmation"]
        judged = {e.candidate.content_key: e.result for e in searched if e.result.status != "screened"}
        super().__init__(judged, missing=_ends)
        self.screened = {e.candidate.content_key: e.result for e in searched if e.result.status == "screened"}
        self.confirmations = {e.candidate.content_key: e.result for e in entries if e.kind == "confirmation"}

    def list_leaders(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """List the attempts that were confirmed, in that order."""
        by_key = {a.candidate.content_key: a for a in attempts}
        return [by_key[key] for key in self.confirmations if key in by_key]

    def screen(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        """Answer with what screening said; of a failure that is all that there is."""
        for candidate in candidates:
            yield self.screened.get(candidate.content_key) or next(iter(self.run([candidate])))

    def confirm(self, candidate: Candidate) -> Result:
        return self.confirmations.get(candidate.content_key) or super().confirm(candidate)


def _ends(candidate: Candidate) -> Never:
    raise RecordEnds(candidate.id)


def replay(
    archive: Archive, run_id: str, task: Task, target: Target, config: Config, observer: Observer
) -> Outcome:
    """Raises UsageError for a run of another task or target, or from before its facts were kept; ArchiveError."""
    record = archive.run(run_id)
    ground = _load_ground(record, task, target)
    config, budget = _settings(record, config), Budget.model_validate(record.config["budget"])
    meter = Meter(budget.model_copy(update={"seconds": None}))
    chats = open_replayed_chats(config, meter, archive, record.run_id, record.seed)
    memory = make_memory(config, archive, record.run_id, task, target.name, ground.facts) if chats else None
    entries = archive.run_entries(record.run_id, as_judged=True)
    reused = {e.candidate.content_key: e.result for e in entries if e.kind == "reused"}

    recorded = RecordedResults(entries)

    def set_up() -> Facts:
        if record.summary is not None and was_quarantined(record.summary.stopped):
            stop_if_quarantined(ground.admission, meter)
        return with_baselines(ground.facts, ground.baselines)

    def keep(attempt: Attempt) -> None:
        if memory is not None:
            before = max((a.worth for a in search.attempts if a is not attempt), default=0.0)
            memory.observe(attempt, before)

    search = Search(
        task, target.name, ground.facts, ground.limit, make_team(config, chats, task, target, memory),
        recorded, meter, keep, known=reused, seed=record.seed, methods=_methods(config, archive, record, entries),
        remeasure_limit=lambda: record.limit or ground.limit, screener=recorded if recorded.screened else None,
        set_up=set_up,
        inbox=RecordedInbox(Inbox(archive.database).list_taken_before(record.run_id)),
    )  # fmt: skip
    observer.stage(f"replaying run {record.run_id}")
    if not recorded.screened:
        set_up()
    stopped = _follow(search, record, entries, observer)
    leaders = recorded.list_leaders(
        search.attempts
    )  # as many as were confirmed: its time may have ended before
    best = (
        confirm(search, len(leaders) or config.confirm, lambda attempt: None, leaders=leaders or None)
        if not was_quarantined(stopped)
        else None
    )
    spent = Spent(tuple(archive.exchanges(record.run_id)) if chats else ())
    ground = settle_limit(ground, record.limit or ground.limit, search.limit)
    return Outcome(summarize(record.run_id, search, ground, best, stopped, spent, memory), best)


class RecordedNovelty(Novelty):
    """Without a compiler nobody knows which candidates had the machine code of others: those are not in the record."""

    recorded: frozenset[str] = frozenset()  # content keys

    def like(self, candidate: Candidate) -> str:
        return super().like(candidate) or (
            "" if candidate.content_key in self.recorded else "not in the record"
        )


def _methods(config: Config, archive: Archive, record: RunRecord, entries: Sequence[Entry]) -> Methods:
    transfer_seeds = ArchiveTransferSeeds(
        archive, record.target, before=record.started_at, task_id=record.task_id
    )
    elsewhere = list_timed_units(archive, record.target, before=record.started_at, without=record.task_id)
    adopted = list_adopted(
        archive, record.task_id, record.target, record.started_at, config.authors, "synthesis" in models_of(config),
        load_named(archive, record),
    )  # fmt: skip
    methods = make_methods(config, transfer_seeds, elsewhere=elsewhere, adopted=adopted)
    if config.novelty:
        methods.novelty = RecordedNovelty(config.novelty)
        methods.novelty.recorded = frozenset(e.candidate.content_key for e in entries)
    return methods


def _load_ground(record: RunRecord, task: Task, target: Target) -> Ground:
    if record.task_id != task.id or record.target != target.name:
        raise UsageError(
            f"run {record.run_id} is of {record.task_name} for {record.target}, as that task was then: "
            "it can only be replayed on the same"
        )
    ground = load_ground(record)
    if ground is None:
        raise UsageError(
            f"run {record.run_id} did not keep what its agents reasoned from: it cannot be replayed"
        )
    return ground


def _settings(record: RunRecord, config: Config) -> Config:
    """Return the settings as the run was made, but for what is this machine's own."""
    settings = {k: v for k, v in record.config["config"].items() if k not in HERE}
    return Config.model_validate({**settings, **{name: getattr(config, name) for name in HERE}})


def _follow(search: Search, record: RunRecord, entries: Sequence[Entry], observer: Observer) -> str:
    """Why the search stopped. Where the record ends (a run may end by its time, too), the replay ends well."""
    ids = {e.candidate.id for e in entries if e.kind != "confirmation"}
    try:
        stopped = search.run()
    except RecordEnds:
        stopped = ""
    missing = ids - {a.candidate.id for a in search.attempts}
    observer.note(f"{len(ids) - len(missing)} of {counted(len(ids), 'recorded candidate')} came out again")
    if missing:
        search.fault = search.fault or "the run went another way than its record: something was changed since"
        return stopped or search.fault
    search.fault = ""
    return record.summary.stopped if record.summary is not None else stopped or "the record ends here"
