"""The loop: breed a round, judge it side by side, keep everything, go on until something says stop; then confirm the winners."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..agents.base import Attempt, Situation
from ..agents.compile import CompileAgent
from ..agents.correctness import CorrectnessAgent
from ..agents.expert.facts import Facts
from ..agents.findings import settled
from ..agents.orchestrator import OrchestratorAgent, RoundPlan, lineages
from ..agents.reasoning import ReasoningAgent
from ..agents.synthesis import SynthesisAgent
from ..executors.base import Executor
from ..progress import counted
from ..records import Candidate, Limit, Result, Task
from . import operators
from .meter import Meter
from .operators import Bred
from .tuner import Tuner

ROUND = 12  # candidates judged in one round at the most


@dataclass
class Team:
    """The five agents and the tuner."""

    reasoning: ReasoningAgent
    synthesis: SynthesisAgent
    compile: CompileAgent
    correctness: CorrectnessAgent
    orchestrator: OrchestratorAgent
    tuner: Tuner


@dataclass
class Search:
    """One run on one task. `known` holds results judged before, by content key: they are taken, never judged again."""

    task: Task
    target: str
    facts: Facts
    limit: Limit
    team: Team
    executor: Executor
    meter: Meter
    record: Callable[[Attempt], None]
    known: Mapping[str, Result] = field(default_factory=dict)
    seed: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    round: int = 0

    def run(self) -> str:
        """Search until something says stop; returns why. The first round is judged even when the set-up took all the time."""
        rng = random.Random(self.seed)
        while True:
            situation = self.situation()
            reason = self.meter.exhausted() or self.team.orchestrator.stop(situation)
            if reason is not None and self.round > 0:
                return reason
            bred = self._fresh(self._breed(self.team.orchestrator.plan(situation), situation, rng))
            if not bred:
                return "no new idea left" + self._settled()
            for attempt in self._judge(bred):
                self._follow_up(attempt)
            self.round += 1
            self.team.orchestrator.ended(self.situation())

    def _settled(self) -> str:
        """Which regions were left alone, for the reason to stop."""
        closed = settled(a.result for a in self.attempts)
        return f"; near its limit: {counted(len(closed), 'region')}" if closed else ""

    def situation(self) -> Situation:
        return Situation(self.task, self.target, self.facts, self.limit, tuple(self.attempts), self.round)

    def _breed(self, plan: RoundPlan, situation: Situation, rng: random.Random) -> list[Bred]:
        team, parents = self.team, lineages(situation.attempts, keep=3)
        bred: list[Bred] = []
        if plan.plans:
            bred += operators.seed(situation, team.reasoning, team.synthesis, plan.plans, plan.variants + 1)
        else:
            bred += operators.rewrite(situation, team.reasoning, team.synthesis, plan.rewrites, plan.variants)
        if plan.tunes:
            bred += operators.tune(situation, parents, team.tuner, team.compile, plan.tunes, plan.flags, rng)
        if plan.crossovers:
            bred += operators.crossover(situation, plan.crossovers)
        return bred

    def _fresh(self, bred: Sequence[Bred]) -> list[Bred]:
        """Each content once, none that this run has already, within the round and the budget."""
        have = {a.candidate.content_key for a in self.attempts}
        fresh = {b.candidate.content_key: b for b in reversed(bred) if b.candidate.content_key not in have}
        ordered = [b for b in bred if fresh.get(b.candidate.content_key) is b]
        left = self.meter.evaluations_left
        return ordered[: ROUND if left is None else min(ROUND, left)]

    def _judge(self, bred: Sequence[Bred]) -> Iterator[Attempt]:
        """Attempts in order: known ones at once, the others as the executor finishes them."""
        hypotheses = {b.candidate.content_key: b.hypothesis for b in bred}
        objections = {b.candidate.content_key: self.team.correctness.review(b.candidate) for b in bred}
        waiting: list[Candidate] = []
        for candidate in (b.candidate for b in bred):
            key = candidate.content_key
            if key in self.known:
                yield self._keep(candidate, self.known[key], hypotheses[key], replayed=True)
            elif objections[key]:
                yield self._keep(candidate, self._refused(candidate, objections[key]), hypotheses[key])
            else:
                waiting.append(candidate)
        for candidate, result in zip(waiting, self.executor.run(waiting), strict=False):
            yield self._keep(candidate, result, hypotheses[candidate.content_key])
            if self.meter.exhausted() and self.situation().best is not None:
                return

    def _keep(
        self, candidate: Candidate, result: Result, hypothesis: object, replayed: bool = False
    ) -> Attempt:
        attempt = Attempt(candidate, result, hypothesis)  # type: ignore[arg-type]
        self.attempts.append(attempt)
        if not replayed:
            self.meter.evaluations += 1
        self.record(attempt)
        return attempt

    def _follow_up(self, attempt: Attempt) -> None:
        """One repair of a candidate that failed to build or gave wrong bytes, judged at once."""
        if self.meter.exhausted():
            return
        repaired = self._repair(attempt)
        if repaired is not None:
            for _ in self._judge(self._fresh([repaired])):
                pass

    def _repair(self, attempt: Attempt) -> Bred | None:
        candidate, result = attempt.candidate, attempt.result
        if result.status == "build-failed":
            mended = self.team.compile.repair(candidate, result, self._repairs(candidate))
            return Bred(mended, attempt.hypothesis) if mended is not None else None
        if result.status == "incorrect":
            diagnosis = self.team.correctness.diagnose(self.task.graph, candidate, result)
            if diagnosis is not None and diagnosis.safer is not None:
                units = self.team.synthesis.write(self.task.graph, diagnosis.safer, 1)
                if units:
                    situation = self.situation()
                    return Bred(
                        operators.place(situation, attempt, units[0], diagnosis.safer, agent="correctness"),
                        diagnosis.safer,
                    )
        return None

    def _repairs(self, candidate: Candidate) -> int:
        """Repairs in the candidate's line of descent."""
        by_id = {a.candidate.id: a.candidate for a in self.attempts}
        count = 0
        here: Candidate | None = candidate
        while here is not None and here.lineage.operator == "repair":
            count += 1
            here = by_id.get(here.lineage.parents[0])
        return count

    def _refused(self, candidate: Candidate, objections: list[str]) -> Result:
        return Result(
            candidate_id=candidate.id, content_key=candidate.content_key, task_id=self.task.id, target=self.target,
            status="refused", reason=f"review: {objections[0]}", seed=self.seed,
        )  # fmt: skip


def confirm(search: Search, most: int, record: Callable[[Attempt], None]) -> Attempt | None:
    """The fastest candidates judged afresh, best first, until one still wins; else the best that was confirmed correct."""
    ranked = sorted((a for a in search.attempts if a.speedup > 0), key=lambda a: -a.speedup)
    confirmed: list[Attempt] = []
    for attempt in ranked[:most]:
        if attempt.result.speedup is None or (confirmed and attempt.speedup < 1.0):
            break
        again = Attempt(attempt.candidate, search.executor.confirm(attempt.candidate), attempt.hypothesis)
        record(again)
        if again.result.status == "ok":
            confirmed.append(again)
        if again.result.win:
            return again
    return max(confirmed, key=lambda a: a.speedup, default=None)
