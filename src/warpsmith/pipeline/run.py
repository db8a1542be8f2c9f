"""One run on one task: judge opened, search, confirmation, everything in the archive, a summary out.

The same call after a kill takes up where the last one was: the run keeps its id, its seed and what its agents reasoned
from; what was judged on this machine is taken from the archive instead of being judged again, and so is every answer of a
language model.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from .. import plugins
from ..agents.base import Attempt
from ..agents.llm.memory import Memory
from ..archive.entries import Entry, Kind
from ..archive.store import Archive, config_key
from ..archive.timings import list_timed_units
from ..config import Config
from ..errors import Interrupted
from ..executors.local import LocalExecutor
from ..facts import Facts
from ..judge.judge import Judge
from ..judge.screening import ScreeningJudge
from ..llm.chat import Chat
from ..llm.setup import check, open_chats
from ..machine import describe
from ..processes.buffers import Scratch
from ..progress import Observer, counted
from ..records import TOO_BUSY, Budget, Candidate, Result, Role, RunSummary, Task
from ..search.confirmation import confirm, describe_best
from ..search.loop import Search
from ..search.meter import Meter
from ..search.methods import make_methods
from ..search.remeasure import REMEASURE_SHARE
from ..targets.target import Target, unit_device
from ..wording import label
from .live import LiveActivity, tell_best
from .machine_code import MachineCode
from .replaying import replay
from .run_inbox import RunInbox
from .starting import START_FROM, list_adopted
from .summary import (
    Ground,
    Outcome,
    Spent,
    facts_record,
    load_ground,
    make_ground,
    settle_limit,
    stop_if_quarantined,
    summarize,
    was_quarantined,
    with_baselines,
)
from .team import make_memory, make_team
from .tracked import finish_tracking, list_tracked_settings
from .transfer_seeds import ArchiveTransferSeeds

NOISY = 0.3  # relative width of an interval above which an earlier run's timing is not relied on
# Seconds for the confirmation of winners beside the search's own time: a share of that, or this many.
CONFIRM_SHARE, CONFIRM_LEAST_S = 0.25, 30.0


@dataclass
class Run:
    """The ingredients of a run; `play` plays it. `live`: who tells others of it meanwhile, and brings what they ask for."""

    task: Task
    target: Target
    budget: Budget
    config: Config
    archive: Archive
    observer: Observer
    scratch: Scratch
    seed: int | None = None
    start_from: Sequence[Candidate] = ()  # kernels of authors that the search begins with
    search_s: float = 0.0  # that the search took, without set-up and confirmation
    live: LiveActivity | None = None
    judge_seconds: Mapping[str, float] = field(default_factory=dict)  # by stage, as its judge counts them

    def play(self) -> Outcome:
        """Raises UsageError when its models or its tuner cannot be had, ToolchainError, JudgeError, ArchiveError, Interrupted.

        A model that is lost on the way ends the search: what was reached is confirmed, the summary has the `fault`, and the
        run stays unfinished, so that the same command goes on from there.
        """
        check(self.config, self.budget)
        plugins.load("tuners", self.config.tuner)()  # what cannot be had is told before any work
        started = time.monotonic()
        run_id, seed = self._identity()
        meter = Meter(self.budget)
        judge = ScreeningJudge(
            self.task, self.target, scratch=self.scratch, workdir=self.scratch.new("run"), seed=seed,
            progress=self.observer.stage, baselines=self.config.baselines, peaks_cache=self.config.cache,
            memory_gb=self.config.judge_memory_gb, timed_on=self.config.timed_on,
        )  # fmt: skip
        self.judge_seconds = judge.seconds
        self._go_live(run_id, judge, meter)
        two_tiers = self.config.screens(unit_device(self.target))
        with judge:
            if two_tiers:
                judge.begin()
            else:
                judge.open()
            ground = self._begin(run_id, seed, judge, two_tiers)
            if not two_tiers:
                self._allow_confirmation(meter, judge)
                stop_if_quarantined(judge.admission, meter)
            with open_chats(self.config, meter, self.archive, run_id, seed) as chats:
                memory = (
                    make_memory(self.config, self.archive, run_id, self.task, self.target.name, ground.facts)
                    if chats
                    else None
                )
                executor = LocalExecutor(judge)
                search = self._search(run_id, seed, ground, executor, meter, chats, memory)
                search.remeasure_limit = judge.remeasure_limit
                if self.live is not None:
                    search.inbox = RunInbox(self.live, run_id)
                if two_tiers:
                    search.screener = executor
                    search.set_up = partial(self._complete, run_id, judge, ground, meter)
                stopped, best = self._search_and_confirm(run_id, search)
            baselines = tuple(judge.baselines.values())
            ground = replace(ground, baselines=baselines, admission=judge.admission)
            ground = settle_limit(ground, judge.limit, search.limit)
            self.archive.note_run(run_id, ground.baselines, ground.limit)
            spent = Spent(tuple(self.archive.exchanges(run_id)) if chats else ())
            summary = summarize(run_id, search, ground, best, stopped, spent, memory)
            changes = {"base_url": self.config.base_url or ""} if chats else {}
            times = _times(judge, search, self.search_s, time.monotonic() - started)
            summary = summary.model_copy(update=times | changes)
        if summary.fault:
            self.archive.release_run(run_id)
        else:
            self.archive.finish_run(summary)
        if self.live is not None:
            candidate = best.candidate if best is not None else None
            finish_tracking(self.live.tracking, self.archive, summary, candidate, self.scratch)
        self.observer.finish(summary)
        return Outcome(summary, best.restate(ground.limit) if best is not None else None)

    def replay(self, run_id: str) -> Outcome:
        """A recorded run of this task again, from its record alone. Raises UsageError when it cannot be."""
        self.archive.add_task(self.task)
        outcome = replay(self.archive, run_id, self.task, self.target, self.config, self.observer)
        self.observer.finish(outcome.summary)
        return outcome

    def find_finished(self) -> RunSummary | None:
        """The summary of the newest finished run with the same settings on this machine, if there is one that said anything."""
        environment = describe(getattr(self.target, "compiler", None), unit_device(self.target))
        settings = self._settings()
        for run in self.archive.runs(self.task.id):
            summary = run.summary if run.config == settings and run.environment == environment else None
            if summary is not None and summary.status != TOO_BUSY:
                return summary
        return None

    def _identity(self) -> tuple[str, int]:
        """Id and seed: those of an unfinished run with the same settings, or new ones."""
        self.archive.add_task(self.task)
        unfinished = self.archive.take_unfinished_run(
            self.task.id, self.target.name, config_key(self._settings())
        )
        if unfinished is not None:
            self.observer.note(f"resuming run {unfinished.run_id}")
            return unfinished.run_id, unfinished.seed
        seed = self.seed if self.seed is not None else secrets.randbits(31)
        return secrets.token_hex(6), seed

    def _settings(self) -> dict[str, Any]:
        """Return what decides how a run goes: a later run with the same settings may resume this one."""
        unset = {"tokens"} if self.budget.tokens is None else set()
        settings = {
            "budget": self.budget.model_dump(exclude=unset),
            "seed": self.seed,
            "config": self.config.identity(),
        }
        begun_with = {START_FROM: [c.id for c in self.start_from]} if self.start_from else {}
        return settings | begun_with

    def _begin(self, run_id: str, seed: int, judge: Judge, two_tiers: bool) -> Ground:
        """Begin the run; return what it stands on: what it began with, when it is resumed on the same machine. In two tiers
        nothing is known of the baselines yet.
        """
        for candidate in self.start_from:
            self.archive.add_candidate(candidate)
        self.archive.begin_run(run_id, self.task, self.target.name, seed, self._settings(), judge.environment)
        record, current = self.archive.run(run_id), make_ground(judge)
        recorded = load_ground(record) if record.environment == judge.environment else None
        if not two_tiers:
            self.archive.note_run(run_id, current.baselines, admission=current.admission)
        if recorded is None:
            self.archive.note_run(
                run_id, limit=current.limit, facts=facts_record(current.facts, current.limit)
            )
            return current
        return Ground(
            recorded.facts, recorded.limit, current.baselines, current.admission, current.environment
        )

    def _go_live(self, run_id: str, judge: Judge, meter: Meter) -> None:
        """Tell others of the run from now on, and let them stop it."""
        live = self.live
        if live is None:
            return

        def stop(why: str) -> None:
            meter.stopped = why

        live.on_stop, judge.moved = stop, live.move
        live.name_run(run_id, self.task.name, list_tracked_settings(self._settings()))
        live.change(budget=self.budget)
        if live.stopped:  # while the task was being loaded
            stop(live.stopped)

    def _complete(self, run_id: str, judge: ScreeningJudge, ground: Ground, meter: Meter) -> Facts:
        """The rest of the set-up; the facts with the best baseline."""
        judge.complete()
        self.archive.note_run(run_id, tuple(judge.baselines.values()), admission=judge.admission)
        self._allow_confirmation(meter, judge)
        stop_if_quarantined(judge.admission, meter)
        self.observer.stage("searching")
        return with_baselines(ground.facts, judge.baselines.values())

    def _allow_confirmation(self, meter: Meter, judge: Judge) -> None:
        """A confirmation starts and times the baselines afresh; before it the leaders are timed again."""
        afresh_s = (1 + REMEASURE_SHARE) * judge.seconds.get("baselines", 0.0)
        meter.confirmation = max(CONFIRM_LEAST_S, CONFIRM_SHARE * (self.budget.seconds or 0.0)) + afresh_s

    def _search(
        self,
        run_id: str,
        seed: int,
        ground: Ground,
        executor: LocalExecutor,
        meter: Meter,
        chats: Mapping[Role, Chat],
        memory: Memory | None,
    ) -> Search:
        entries = [e for e in self.archive.run_entries(run_id, as_judged=True) if e.kind != "confirmation"]
        began = self.archive.run(run_id).started_at
        transfer_seeds = ArchiveTransferSeeds(
            self.archive, self.target.name, before=began, task_id=self.task.id
        )
        elsewhere = list_timed_units(self.archive, self.target.name, before=began, without=self.task.id)
        # All that is screened is built side by side: to ask for machine code before that would build one after the other.
        code, screens = MachineCode(self.target, self.task), self.config.screens(unit_device(self.target))
        assembly, prepare = (None, None) if screens else (code, code.prepare)
        search = Search(
            self.task, self.target.name, ground.facts, ground.limit,
            make_team(self.config, chats, self.task, self.target, memory), executor, meter,
            lambda attempt: self._keep(run_id, search, attempt, memory),
            known=self._find_known_results(entries, ground.environment.id),
            own=frozenset(e.result.content_key for e in entries if e.kind == "search"), seed=seed,
            methods=make_methods(
                self.config, transfer_seeds, assembly, prepare, elsewhere, self._list_adopted(began, chats)
            ),
        )  # fmt: skip
        return search

    def _list_adopted(self, began: str, chats: Mapping[Role, Chat]) -> list[Candidate]:
        """List what the search begins with: the candidates that were named, then the best that others had written before it began."""
        return list_adopted(
            self.archive, self.task.id, self.target.name, began, self.config.authors, "synthesis" in chats, self.start_from
        )  # fmt: skip

    def _search_and_confirm(self, run_id: str, search: Search) -> tuple[str, Attempt | None]:
        """Why the search stopped, and the confirmed best."""
        try:
            self.observer.stage("searching")
            search.meter.start()
            self._tell_end(search.meter)
            stopped = search.run()
            search.finish_set_up()  # where nothing needed it, the summary does
            self.search_s = search.meter.seconds
            record = partial(self._record_confirmation, run_id)
            if was_quarantined(stopped):
                return stopped, None
            return stopped, confirm(search, self.config.confirm, record, self.observer)
        except KeyboardInterrupt:
            done = len(search.attempts)
            self.archive.release_run(run_id)
            raise Interrupted(
                f"interrupted: the archive holds {counted(done, 'result')} of this run; "
                "the same command goes on from there"
            ) from None

    def _find_known_results(self, entries: list[Entry], environment: str) -> dict[str, Result]:
        """Results that need no repeating: all of this run's own, and of earlier runs' those that would come out the same.

        A crash may have been the machine's, and a wide interval says that it was busy: those candidates are judged again.
        Of this run's own it is the result of the search, not of the confirmation, so that the search goes as it went.
        """
        judged = self.archive.index_judged_results
        judged_before = judged(self.task.id, self.target.name, environment) if self.config.reuse else {}
        results = {key: result for key, result in judged_before.items() if lasting(result)}
        own_results = {e.result.content_key: e.result for e in entries if e.result.status != "error"}
        return results | {key: r for key, r in own_results.items() if r.environment == environment}

    def _keep(self, run_id: str, search: Search, attempt: Attempt, memory: Memory | None) -> None:
        stored = search.known.get(attempt.candidate.content_key)
        kind: Kind = "reused" if stored is attempt.result else "search"
        self.archive.add_result(run_id, attempt.candidate, attempt.result, attempt.hypothesis, kind=kind)
        if memory is not None:
            before = max((a.worth for a in search.attempts if a is not attempt), default=0.0)
            memory.observe(attempt, before)
        judged = [a for a in search.attempts if not a.screened]
        meter, best = search.meter, max(judged, key=lambda a: a.rank, default=None)
        self._tell_live(search, attempt, best)
        text = "nothing faster yet" if meter.tokens else ""
        if best is not None and best.speedup > 0:
            text = describe_best(best.result)
        if meter.tokens:
            text += f"; {meter.tokens:,} tokens" + (f", ${meter.usd:.2f}" if meter.usd else "")
        self.observer.evaluated(
            meter.evaluations, self.budget.evaluations,
            attempt.result.status + (f", {meter.screened} screened" if meter.screened else ""), text, meter.seconds_left,
        )  # fmt: skip

    def _tell_end(self, meter: Meter) -> None:
        if self.live is not None and meter.seconds_left is not None:
            self.live.change(search_ends_at=time.time() + meter.seconds_left)

    def _tell_live(self, search: Search, attempt: Attempt, best: Attempt | None) -> None:
        """Tell others what was spent and reached so far."""
        if self.live is None:
            return
        meter = search.meter
        outcomes = dict(Counter(a.result.status for a in search.attempts))
        self.live.move(attempt.candidate, "")
        how = (
            describe_best(attempt.result)
            if attempt.speedup > 0 and not attempt.screened
            else attempt.result.reason
        )
        self.live.say(f"{label(attempt.candidate)}: {attempt.result.status}{f', {how}' if how else ''}"[:300])
        self.live.change(
            judged=meter.evaluations, screened=meter.screened, tokens=meter.tokens, usd=meter.usd, outcomes=outcomes,
            seconds_by_stage=_list_seconds(self.judge_seconds, search, meter.seconds),
        )  # fmt: skip
        if best is not None and best.speedup > 0:
            self.live.change(**tell_best(best))
        self._tell_end(meter)

    def _record_confirmation(self, run_id: str, attempt: Attempt) -> None:
        if self.live is not None and attempt.speedup > 0 and not attempt.screened:
            self.live.change(**tell_best(attempt))
        if attempt.result.status == "ok":
            self.archive.add_confirmation(run_id, attempt.candidate, attempt.result)
        else:
            self.archive.add_result(run_id, attempt.candidate, attempt.result, kind="confirmation")


def lasting(result: Result) -> bool:
    """Return whether judging the same candidate again on this machine would say the same."""
    ratio = result.speedup
    if result.status == "ok":
        return ratio is not None and ratio.high - ratio.low < NOISY * ratio.median
    return result.status in ("build-failed", "refused", "incorrect")


def _times(judge: Judge, search: Search, search_s: float, seconds: float) -> dict[str, Any]:
    by_stage = _list_seconds(judge.seconds, search, search_s)
    return {"seconds": round(seconds, 2), "seconds_by_stage": by_stage}


def _list_seconds(judge_seconds: Mapping[str, float], search: Search, search_s: float) -> dict[str, float]:
    """Return the seconds by stage. `search_s`: of the search, its judge's and its agents' work. The stages do not overlap."""
    spent = search.executor.spent if isinstance(search.executor, LocalExecutor) else defaultdict(float)
    searched = {k: spent[k] for k in ("screening", "judging") if spent[k] > 0 or k == "judging"}
    set_up = {k: v for k, v in dict(judge_seconds).items() if not k.startswith("confirm")}
    thought = {"proposing": max(0.0, search_s - sum(searched.values()))}
    by_stage = set_up | searched | thought | {"confirmation": spent["confirmation"]}
    return {k: round(v, 3) for k, v in by_stage.items()}
