"""The ground that a run stands on (`Ground`), and its summary at the end.

In: an opened judge or a recorded run; a finished search. Out: the facts that agents reason from, a `RunSummary`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from ..agents.base import Attempt
from ..agents.llm.memory import Memory
from ..agents.llm.translation import translation
from ..archive.entries import RunRecord
from ..facts import Facts, local_facts
from ..judge.judge import Judge
from ..records import (
    TOO_BUSY,
    Admission,
    BaselineTiming,
    Best,
    Environment,
    Exchange,
    Limit,
    Ratio,
    RunSummary,
)
from ..records.result import NO_WIN_QUARANTINED
from ..search.loop import NO_NEW_IDEA, Search
from ..search.meter import Meter
from .left import explain_nothing_offered, left_to_aten

NOT_ADMITTED_YET = Admission(admitted=False, mutants={}, reasons=("not looked at yet",))


@dataclass(frozen=True)
class Ground:
    """The measurements of the task before anything was written."""

    facts: Facts
    limit: Limit
    baselines: tuple[BaselineTiming, ...]
    admission: Admission
    environment: Environment


@dataclass
class Outcome:
    """A finished run: its summary, and the attempt that was confirmed (None when nothing valid was produced)."""

    summary: RunSummary
    best: Attempt | None


def make_ground(judge: Judge) -> Ground:
    """Take what a judge knows; one that has only begun knows nothing of baselines and admission."""
    baselines, admission = tuple(judge.baselines.values()), getattr(judge, "admission", NOT_ADMITTED_YET)
    return Ground(facts_of(judge), judge.limit, baselines, admission, judge.environment)


def settle_limit(ground: Ground, *limits: Limit) -> Ground:
    """The ground with the lowest of the limits, since rates are the best ever seen, and with every share by that one."""
    limit = min(limits, key=lambda limit: limit.seconds)
    baselines = tuple(b.restate(limit) for b in ground.baselines)
    return replace(ground, limit=limit, baselines=baselines)


def load_ground(run: RunRecord) -> Ground | None:
    """None for a run that did not keep all of it: an earlier version's, or one that was killed before."""
    facts = facts_from(run.facts)
    if facts is None or run.limit is None or run.admission is None:
        return None
    limit = Limit.model_validate(run.facts[BEGAN_WITH]) if BEGAN_WITH in run.facts else run.limit
    return Ground(facts, limit, run.baselines, run.admission, run.environment)


def facts_of(judge: Judge) -> Facts:
    """Return what the agents reason from: this machine's measured rates and where the reference spends its time."""
    node_us = dict(judge.node_us)
    facts = replace(
        local_facts(), target=judge.target.name, arch=getattr(judge.target, "arch", ""), device=judge.environment.device,
        threads=judge.environment.threads, node_us=node_us, total_us=sum(node_us.values()),
    ).by_limit(judge.limit)  # fmt: skip
    return with_baselines(facts, judge.baselines.values())


def with_baselines(facts: Facts, baselines: Iterable[BaselineTiming]) -> Facts:
    """The facts with the time of the best baseline, where there is one."""
    return replace(facts, total_us=min((b.median_us for b in baselines if b.ok), default=facts.total_us))


LATER_FACTS = {"target", "arch", "device", "registers"}  # which older runs did not record


BEGAN_WITH = "limit"  # which the run began with: its record has the one that it ended with


def facts_record(facts: Facts, limit: Limit | None = None) -> dict[str, Any]:
    """Write down what agents reason from. `limit`: the one that a run begins with, for whoever resumes or replays it."""
    return asdict(facts) | ({BEGAN_WITH: limit.model_dump(mode="json")} if limit is not None else {})


def facts_from(record: dict[str, Any]) -> Facts | None:
    names, values = {f.name for f in fields(Facts)}, {k: v for k, v in record.items() if k != BEGAN_WITH}
    return Facts(**values) if names - LATER_FACTS <= set(values) <= names else None


@dataclass(frozen=True)
class Spent:
    """The cost of a run's models."""

    exchanges: tuple[Exchange, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(e.usage.input_tokens + e.usage.output_tokens for e in self.exchanges)

    @property
    def usd(self) -> float | None:
        """None where a price is not known."""
        paid = [e.usd for e in self.exchanges if e.usd is not None]
        return round(sum(paid), 9) if len(paid) == len(self.exchanges) else None


def summarize(
    run_id: str, search: Search, ground: Ground, best: Attempt | None, stopped: str, spent: Spent, memory: Memory | None
) -> RunSummary:  # fmt: skip
    """Without what only a judge knows: `seconds`, `seconds_by_stage`. `ground` has the limit that the run ended with."""
    best = best.restate(ground.limit) if best is not None else None
    stages: Counter[str] = Counter(a.result.status for a in search.attempts if search.is_judged_here(a))
    exchange_count = len(spent.exchanges)
    nothing = _nothing(
        memory, stopped, exchange_count, explain_nothing_offered(search.task.graph, ground.facts.node_us)
    )
    status, reason = status_of(search, best, ground.admission.admitted, nothing)
    return RunSummary(
        run_id=run_id, task=search.task.name, target=search.target, status=status, reason=reason,
        best=best_of(best) if best is not None else None,
        baselines={b.name: b.median_us for b in (*ground.baselines, *_rewritten(best)) if b.ok},
        evaluations=search.meter.evaluations, screened=search.meter.screened, stages=dict(stages), limit_us=ground.limit.seconds * 1e6, peaks=ground.limit.peaks, seed=search.seed,
        stopped=stopped, admitted=ground.admission.admitted, hardware=ground.environment.hardware, fault=search.fault,
        threads=ground.environment.threads,
        tokens=spent.tokens, usd=spent.usd, exchanges=len(spent.exchanges),
        translation=translation(memory.samples, search.attempts) if memory is not None else None,
        operators=search.uses, islands=search.methods.population.summary(),
        rejected=dict(search.methods.novelty.rejected),
        saved=search.methods.steering.saved.lines(search.meter.evaluations_left, search.meter.seconds_left),
        left=left_to_aten(search.task.graph, best, search.attempts, ground.facts.node_us),
    )  # fmt: skip


def _nothing(memory: Memory | None, stopped: str, asked: int, not_offered: str) -> str:
    """Why nothing was judged at all: what was wrong with a unit, before what was wrong with any other answer. `not_offered`: what the
    expert says of a graph for which it has nothing.
    """
    if memory is None:
        return not_offered if stopped.startswith(NO_NEW_IDEA) else f"nothing was judged: {stopped}"
    if not asked:
        return f"no model was asked for a kernel: {stopped}"
    memory.settle()
    problems = sorted(memory.problems, key=lambda p: p.startswith("unit"))
    last = problems[-1] if problems else stopped
    return f"no answer of a model could be judged: {last}"


def status_of(
    search: Search,
    best: Attempt | None,
    admitted: bool,
    nothing: str = "nothing was judged",
) -> tuple[Any, str]:
    """("win" | "no-win" | "too-busy" | "failed", why). `nothing`: why nothing was judged, if so."""
    if was_quarantined(search.meter.stopped):
        return "no-win", search.meter.stopped
    if not any(a.speedup > 0 for a in search.attempts):
        why = Counter(a.result.reason for a in search.attempts if a.result.reason).most_common(1)
        return "failed", f"nothing valid was produced: {why[0][0]}" if why else search.fault or nothing
    if best is None:
        return "failed", "no candidate passed the confirmation"
    if not admitted:
        return "no-win", NO_WIN_QUARANTINED
    if best.result.win:
        return "win", ""
    if search.busy:
        return TOO_BUSY, f"the machine was too busy to confirm anything: {search.busy}"
    if best.result.verdict is not None and best.result.verdict.reasons:
        return "no-win", best.result.verdict.reasons[0]
    return "no-win", "no candidate is faster than the best baseline with its interval above 1"


def stop_if_quarantined(admission: Admission, meter: Meter) -> None:
    """End the search of a task that lets a wrong answer pass: nothing that it finds would count."""
    if not admission.admitted:
        meter.stopped = ": ".join((NO_WIN_QUARANTINED, *admission.reasons[:1]))


def was_quarantined(stopped: str) -> bool:
    """Return whether `stop_if_quarantined` ended a search that stopped for this reason: then nothing is confirmed either."""
    return stopped.startswith(NO_WIN_QUARANTINED)


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
        ratios=timing.ratios,
    )  # fmt: skip
