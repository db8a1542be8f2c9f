"""One run on one task: judge opened, search, confirmation, everything in the archive, a summary out.

The same call after a kill takes up where the last one was: the run keeps its id and seed, and what was judged on this
machine is taken from the archive instead of being judged again.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from . import plugins
from .agents.base import Attempt, Brain
from .agents.compile import CompileAgent
from .agents.correctness import CorrectnessAgent
from .agents.expert.facts import Facts, local_facts
from .agents.orchestrator import OrchestratorAgent
from .agents.reasoning import ReasoningAgent
from .agents.synthesis import SynthesisAgent
from .archive.entries import Kind
from .archive.store import Archive, config_key
from .config import Config
from .errors import Interrupted
from .executors.local import LocalExecutor
from .judge.judge import Judge
from .machine import describe
from .processes.buffers import Scratch
from .progress import Observer, counted
from .records import BaselineTiming, Best, Budget, Ratio, Result, RunSummary, Task
from .search.loop import Search, Team, confirm
from .search.meter import Meter
from .targets.base import Target

NOISY = 0.3  # relative width of an interval above which an earlier run's timing is not relied on
CONFIRM_SHARE = 0.2  # of the time budget, kept for the confirmation of winners


@dataclass
class Outcome:
    """A finished run: its summary, and the attempt that was confirmed (None when nothing valid was produced)."""

    summary: RunSummary
    best: Attempt | None


@dataclass
class Run:
    """What a run is made of; `run_task` plays it."""

    task: Task
    target: Target
    budget: Budget
    config: Config
    archive: Archive
    observer: Observer
    scratch: Scratch
    seed: int | None = None

    def play(self) -> Outcome:
        started = time.monotonic()
        run_id, seed = self._identity()
        workdir = self.scratch.new("run")
        judge = Judge(
            self.task, self.target, scratch=self.scratch, workdir=workdir, seed=seed, progress=self.observer.stage,
            baselines=self.config.baselines, peaks_cache=self.config.cache,
        )  # fmt: skip
        with judge:
            judge.open()
            self._begin(run_id, seed, judge)
            search = self._search(run_id, seed, judge)
            search.meter.started = started
            try:
                self.observer.stage("searching")
                stopped = search.run()
                self.observer.stage("confirming the fastest in fresh processes")
                best = confirm(search, self.config.confirm, lambda a: self._confirmed(run_id, a))
            except KeyboardInterrupt:
                done = len(search.attempts)
                self.archive.release_run(run_id)
                raise Interrupted(
                    f"interrupted: the archive holds {counted(done, 'result')} of this run; "
                    "the same command goes on from there"
                ) from None
            summary = self._summary(run_id, seed, judge, search, best, stopped, time.monotonic() - started)
        self.archive.finish_run(summary)
        self.observer.finish(summary)
        return Outcome(summary, best)

    def finished(self) -> RunSummary | None:
        """The summary of the newest finished run with the same settings on this machine, if there is one."""
        here, settings = describe(getattr(self.target, "compiler", None)), self._settings()
        for run in self.archive.runs(self.task.id):
            if run.summary is not None and run.config == settings and run.environment == here:
                return run.summary
        return None

    def _identity(self) -> tuple[str, int]:
        """Id and seed: those of an unfinished run with the same settings, or new ones."""
        self.archive.add_task(self.task)
        old = self.archive.unfinished_run(self.task.id, self.target.name, config_key(self._settings()))
        if old is not None:
            self.observer.note(f"resuming run {old.run_id}")
            return old.run_id, old.seed
        seed = self.seed if self.seed is not None else secrets.randbits(31)
        return secrets.token_hex(6), seed

    def _settings(self) -> dict[str, Any]:
        """What decides how a run goes: a later run with the same settings may resume this one."""
        return {
            "budget": self.budget.model_dump(),
            "seed": self.seed,
            "config": self.config.model_dump(mode="json"),
        }

    def _begin(self, run_id: str, seed: int, judge: Judge) -> None:
        self.archive.begin_run(run_id, self.task, self.target.name, seed, self._settings(), judge.environment)
        self.archive.note_run(run_id, tuple(judge.baselines.values()), judge.limit, judge.admission)

    def _search(self, run_id: str, seed: int, judge: Judge) -> Search:
        meter = Meter(self.budget, reserve=CONFIRM_SHARE * (self.budget.seconds or 0.0))
        known = self._known(run_id, judge.environment.id)
        search = Search(
            self.task, self.target.name, facts_of(judge), judge.limit, self._team(), LocalExecutor(judge), meter,
            lambda attempt: self._keep(run_id, search, attempt), known=known, seed=seed,
        )  # fmt: skip
        return search

    def _known(self, run_id: str, environment: str) -> dict[str, Result]:
        """Results that need no repeating: all of this run's own, and of earlier runs' those that would come out the same.

        A crash may have been the machine's, and a wide interval says that it was busy: those candidates are judged again.
        """
        own = {e.result.content_key for e in self.archive.run_entries(run_id)}
        found = self.archive.judged_keys(self.task.id, self.target.name, environment)
        return {key: result for key, result in found.items() if key in own or lasting(result)}

    def _team(self) -> Team:
        brain: Brain = plugins.load("brains", "expert")()
        c = self.config
        return Team(
            ReasoningAgent(brain), SynthesisAgent(brain), CompileAgent(brain), CorrectnessAgent(brain),
            OrchestratorAgent(c.branches, c.variants, c.patience, c.near_limit), plugins.load("tuners", c.tuner)(),
        )  # fmt: skip

    def _keep(self, run_id: str, search: Search, attempt: Attempt) -> None:
        known = search.known.get(attempt.candidate.content_key)
        kind: Kind = "reused" if known is attempt.result else "search"
        self.archive.add_result(run_id, attempt.candidate, attempt.result, attempt.hypothesis, kind=kind)
        meter, best = search.meter, search.situation().best
        text = ""
        if best is not None and best.result.speedup is not None:
            text = f"{best.speedup:.2f}x {best.result.speedup.baseline}"
        self.observer.evaluated(
            meter.evaluations, self.budget.evaluations, attempt.result.status, text, meter.seconds_left
        )

    def _confirmed(self, run_id: str, attempt: Attempt) -> None:
        if attempt.result.status == "ok":
            self.archive.add_confirmation(run_id, attempt.candidate, attempt.result)
        else:
            self.archive.add_result(run_id, attempt.candidate, attempt.result, kind="confirmation")

    def _summary(
        self,
        run_id: str,
        seed: int,
        judge: Judge,
        search: Search,
        best: Attempt | None,
        stopped: str,
        seconds: float,
    ) -> RunSummary:
        stages: Counter[str] = Counter(a.result.status for a in search.attempts)
        judging = search.executor.seconds if isinstance(search.executor, LocalExecutor) else 0.0
        by_stage = {k: v for k, v in judge.seconds.items() if not k.startswith("confirm")} | {
            "judging": judging
        }
        status, reason = status_of(search, best, judge.admission.admitted)
        return RunSummary(
            run_id=run_id, task=self.task.name, target=self.target.name, status=status, reason=reason,
            best=best_of(best) if best is not None else None,
            baselines={b.name: b.median_us for b in (*judge.baselines.values(), *_rewritten(best)) if b.ok},
            evaluations=search.meter.evaluations, stages=dict(stages), seconds=round(seconds, 2),
            seconds_by_stage={k: round(v, 3) for k, v in by_stage.items()}, limit_us=judge.limit.seconds * 1e6, seed=seed,
            stopped=stopped, admitted=judge.admission.admitted, hardware=judge.environment.cpu,
        )  # fmt: skip


def lasting(result: Result) -> bool:
    """Whether judging the same candidate again on this machine would say the same."""
    ratio = result.speedup
    if result.status == "ok":
        return ratio is not None and ratio.high - ratio.low < NOISY * ratio.median
    return result.status in ("build-failed", "refused", "incorrect")


def facts_of(judge: Judge) -> Facts:
    """What the agents reason from: this machine's measured rates and where the reference spends its time."""
    node_us = dict(judge.node_us)
    fastest = min((b.median_us for b in judge.baselines.values() if b.ok), default=sum(node_us.values()))
    return replace(
        local_facts(), threads=judge.environment.threads, bandwidth=judge.limit.bytes_per_second,
        flop_rate=judge.limit.flops_per_second, node_us=node_us,
        total_us=fastest, limit_us=judge.limit.seconds * 1e6,
    )  # fmt: skip


def status_of(search: Search, best: Attempt | None, admitted: bool) -> tuple[Any, str]:
    """("win" | "no-win" | "failed", why)."""
    if not any(a.speedup > 0 for a in search.attempts):
        why = Counter(a.result.reason for a in search.attempts if a.result.reason).most_common(1)
        return (
            "failed",
            f"nothing valid was produced: {why[0][0]}" if why else "the expert covers no part of this graph",
        )
    if best is None:
        return "failed", "no candidate passed the confirmation"
    if not admitted:
        return "no-win", "the task is quarantined: a mutant passes on it, so no speedup counts"
    if best.result.win:
        return "win", ""
    return "no-win", "no candidate is faster than the best baseline with its interval above 1"


def _rewritten(best: Attempt | None) -> tuple[BaselineTiming, ...]:
    """The baseline that belongs to the confirmed attempt alone."""
    timing = best.result.timing if best is not None else None
    return (timing.rewritten,) if timing is not None and timing.rewritten is not None else ()


def best_of(attempt: Attempt) -> Best:
    """The confirmed attempt as the summary prints it."""
    timing, verdict = attempt.result.timing, attempt.result.verdict
    if timing is None or verdict is None or timing.best is None:
        raise ValueError("a confirmed attempt was verified and timed")
    eager: Ratio = timing.ratio("eager") or timing.best
    return Best(
        label=attempt.candidate.lineage.branch, candidate_id=attempt.candidate.id, labels=verdict.labels,
        speedup=timing.best, speedup_eager=eager, median_us=timing.median_us, limit_share=timing.limit_share,
        confirmed=timing.confirmed, speedup_rewritten=timing.ratio("rewritten"),
    )  # fmt: skip
