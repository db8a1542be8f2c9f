"""The loop: breed a round, judge it side by side, keep everything, go on until something says stop; then confirm the winners."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..agents.base import Attempt, Credits, RoundPlan, Situation
from ..agents.compile import CompileAgent
from ..agents.correctness import CorrectnessAgent
from ..agents.expert.facts import Facts
from ..agents.findings import settled
from ..agents.orchestrator import OrchestratorAgent, lineages
from ..agents.reasoning import ReasoningAgent
from ..agents.synthesis import SynthesisAgent
from ..errors import ModelError
from ..executors.base import Executor
from ..llm.chat import BudgetSpent
from ..progress import counted
from ..records import Candidate, Limit, Result, Task
from . import operators
from .meter import Meter
from .operators import Bred
from .tuner import Tuner

ROUND = 12  # candidates judged in one round at the most


@dataclass
class Team:
    """The five agents and the tuner. `credits`: which units language models wrote, and what they cost."""

    reasoning: ReasoningAgent
    synthesis: SynthesisAgent
    compile: CompileAgent
    correctness: CorrectnessAgent
    orchestrator: OrchestratorAgent
    tuner: Tuner
    credits: Credits = field(default_factory=Credits)


@dataclass
class Search:
    """One run on one task. `known` holds results judged before, by content key: they are taken, never judged again.

    Of these, `own` are this run's from before it was killed: they count in its budget. `fault`: why a model ended the search.
    """

    task: Task
    target: str
    facts: Facts
    limit: Limit
    team: Team
    executor: Executor
    meter: Meter
    record: Callable[[Attempt], None]
    known: Mapping[str, Result] = field(default_factory=dict)
    own: Collection[str] = frozenset()
    seed: int = 0
    fault: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    round: int = 0

    def run(self) -> str:
        """Search until something says stop; returns why. The first round is judged even when the set-up took all the time."""
        try:
            return self._rounds(random.Random(self.seed))
        except BudgetSpent as spent:
            return str(spent)
        except ModelError as error:
            self.fault = str(error)
            return f"a language model failed: {error}"

    def _rounds(self, rng: random.Random) -> str:
        idle = 0  # rounds in a row that brought nothing to judge
        while True:
            situation = self.situation()
            reason = self.meter.exhausted() or self.team.orchestrator.stop(situation)
            if reason is not None and self.round > 0:
                return reason
            bred = self._fresh(self._breed(self.team.orchestrator.plan(situation), situation, rng))
            idle = 0 if bred else idle + 1
            if idle > self.team.orchestrator.idle_rounds:
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
        bred = [replace(b, candidate=self.team.credits.sign(b.candidate)) for b in bred]
        fresh = {b.candidate.content_key: b for b in reversed(bred) if b.candidate.content_key not in have}
        ordered = [b for b in bred if fresh.get(b.candidate.content_key) is b]
        left = self.meter.evaluations_left
        return ordered[: ROUND if left is None else min(ROUND, left)]

    def _judge(self, bred: Sequence[Bred]) -> Iterator[Attempt]:
        """Attempts in order: known ones at once, the others as the executor finishes them."""
        hypotheses = {b.candidate.content_key: b.hypothesis for b in bred}
        objections = {b.candidate.content_key: self._objections(b.candidate) for b in bred}
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

    def _objections(self, candidate: Candidate) -> list[str]:
        """None to what an earlier run judged; this run's own is reviewed as it was, so that a resumed run goes as it went."""
        key = candidate.content_key
        return [] if key in self.known and key not in self.own else self.team.correctness.review(candidate)

    def _keep(
        self, candidate: Candidate, result: Result, hypothesis: object, replayed: bool = False
    ) -> Attempt:
        attempt = Attempt(candidate, result, hypothesis)  # type: ignore[arg-type]
        self.attempts.append(attempt)
        if not replayed or candidate.content_key in self.own:
            self.meter.evaluations += 1
        self.record(attempt)
        return attempt

    def _follow_up(self, attempt: Attempt) -> None:
        """A repair of a candidate that failed, judged at once, and repaired again within the agents' bounds."""
        if self.meter.exhausted():
            return
        repaired = self._repair(attempt)
        if repaired is not None:
            for again in self._judge(self._fresh([repaired])):
                self._follow_up(again)

    def _repair(self, attempt: Attempt) -> Bred | None:
        candidate, result = attempt.candidate, attempt.result
        repairs = self._repairs(candidate)
        if result.status in ("build-failed", "refused"):
            mended = self.team.compile.repair(candidate, result, repairs)
            return Bred(mended, attempt.hypothesis) if mended is not None else None
        if result.status in ("incorrect", "crashed", "timeout"):
            mended = self.team.correctness.mend(candidate, result, repairs)
            return Bred(mended, attempt.hypothesis) if mended is not None else self._safer(attempt)
        return None

    def _safer(self, attempt: Attempt) -> Bred | None:
        """For wrong bytes: the region written anew by a safer hypothesis, if the correctness agent has one."""
        diagnosis = self.team.correctness.diagnose(self.task.graph, attempt.candidate, attempt.result)
        if diagnosis is None or diagnosis.safer is None:
            return None
        situation = self.situation()
        units = self.team.synthesis.write(self.task.graph, diagnosis.safer, 1, situation)
        if not units:
            return None
        return Bred(
            operators.place(situation, attempt, units[0], diagnosis.safer, agent="correctness"),
            diagnosis.safer,
        )

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
