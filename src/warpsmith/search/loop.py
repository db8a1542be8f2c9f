"""The loop: propose a round, judge it side by side, keep everything, go on until something says stop.

`confirmation.py` confirms the winners.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..agents.base import Attempt, Situation
from ..agents.findings import list_settled
from ..errors import ModelError, UsageError
from ..executors.executor import Executor, Screener
from ..facts import Facts
from ..llm.chat import BudgetSpent
from ..progress import counted
from ..records import Candidate, Limit, Lineage, OperatorUse, Ratio, Result, Task
from ..records.live import Request
from .finalists import choose_finalists, count_finalists
from .ledger import Ledger
from .meter import Meter
from .methods import Methods
from .operators import Proposal, SearchContext
from .operators.rewrite import place
from .operators.simplify import as_fast, code_size
from .requests import REQUESTED, EmptyInbox, Inbox, describe_attempts, pin_parent, propose_requested
from .rounds import (
    MAX_PER_ROUND,
    MAX_PREDICTED_PER_ROUND,
    PREDICTED_BATCH,
    propose_adopted,
    propose_predicted,
    propose_round,
)
from .team import Team

SCREENED_PREDICTED = 12  # candidates of a round that are predicted, where all are screened side by side
NO_NEW_IDEA = "no new idea left"  # how the reason of a search that ran out of proposals begins

__all__ = ["MAX_PER_ROUND", "Search", "Team"]


@dataclass
class Search:
    """One run on one task. `known` holds results judged before, by content key: they are taken, never judged again.

    Of these, `own` are this run's from before it was killed: they count in its budget. `fault`: why a model ended the search.
    `remeasure_limit` measures the limit once more, which is done once before the search stops because of it; None: it stands.
    `busy`: why the machine was too busy to confirm anything. `screener`: says of all candidates which are worth a verdict; None: each gets one.
    `set_up`: what is left of it, done before the first verdict; it returns the facts as they are then, and takes none of the search's time.
    `inbox`: what people ask for, looked at between rounds.
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
    methods: Methods = field(default_factory=Methods)
    remeasure_limit: Callable[[], Limit] | None = None
    screener: Screener | None = None
    set_up: Callable[[], Facts] | None = None
    inbox: Inbox = field(default_factory=EmptyInbox)
    fault: str = ""
    busy: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    round: int = 0

    def __post_init__(self) -> None:
        self._ledger = Ledger(self.methods.policy, self.meter.budget)
        self._islands: dict[str, int] = {}  # content key → island
        self._estimates: dict[str, Ratio] = {}  # of what was screened, by content key
        self._lineages: dict[str, Lineage] = {}  # by candidate

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
            if not self.meter.find_reached_limit():
                self._serve_inbox(rng)
            situation = self.situation()
            reason = self.meter.find_reached_limit() or self._stop(situation)
            if reason is not None and (self.round > 0 or self.meter.stopped):
                if self._lacks_verdicts() and not self.meter.stopped:
                    self._judge_finalists(choose_finalists(self.attempts, self._estimates, 1))
                return reason
            brought = self._judge_round(rng) if self.screener is None else self._screen_round(rng)
            idle = 0 if brought else idle + 1
            if idle > self.team.orchestrator.idle_rounds:
                settled = self._describe_settled()
                if settled and self._measure_limit_again() and self._describe_settled() != settled:
                    continue
                return NO_NEW_IDEA + settled
            self.methods.population.migrate(self.round)
            self.round += 1
            self.team.orchestrator.end_round(self.situation())

    def _judge_round(self, rng: random.Random) -> bool:
        """One tier: each candidate gets its verdict. Return whether there was any."""
        led = self._judge_adopted(rng) + self._judge_predicted(rng)
        context, evaluations_left = self._make_context(self.situation(), rng), self.meter.evaluations_left
        proposals = (
            propose_round(context, self.methods, self._fresh, evaluations_left, led)
            if not self._spent()
            else []
        )
        for attempt in self._judge(proposals):
            self._follow_up(attempt)
        return bool(led or proposals)

    def _screen_round(self, rng: random.Random) -> bool:
        """Two tiers: all candidates of a round are screened side by side, and repaired, and the most promising get their verdict."""
        context = self._make_context(self.situation(), rng)
        proposals = propose_adopted(context, self.methods, self._fresh)
        proposals += propose_predicted(context, self.methods, self._fresh, SCREENED_PREDICTED)
        proposals += propose_round(context, self.methods, self._fresh)
        waiting, before = proposals, len(self.attempts)
        while waiting:
            attempts = list(self._screen(waiting))
            waiting = [] if self.meter.find_reached_limit() else self._list_repairs(attempts)
        if self.round == 0 and self._lacks_verdicts():  # baselines compile during the second round
            return bool(proposals)
        most = count_finalists(sum(a.screened for a in self.attempts[before:]))
        finalists = choose_finalists(self.attempts, self._estimates, most) if not self._spent() else []
        self._judge_finalists(finalists)
        return bool(proposals or finalists)

    def _lacks_verdicts(self) -> bool:
        """Return whether something was screened, and the set-up is not finished, without which nothing has a verdict."""
        return self.set_up is not None and any(a.screened for a in self.attempts)

    def _screen(self, proposals: Sequence[Proposal]) -> Iterator[Attempt]:
        assert self.screener is not None
        return self._judge(proposals, self.screener.screen)

    def _list_repairs(self, attempts: Sequence[Attempt]) -> list[Proposal]:
        """Repairs of those that failed, on the islands of what they repair."""
        proposals = []
        for attempt in attempts:
            repaired = self._repair(attempt)
            if repaired is not None:
                island = self._islands[attempt.candidate.content_key]
                proposals += self._fresh("repair", [replace(repaired, island=island)], 1)
        return proposals

    def _serve_inbox(self, rng: random.Random) -> None:
        """Do what people asked for since the last round, and say what came of it."""
        for request in self.inbox.take(self.round):
            try:
                answer = self._serve(request, rng)
            except UsageError as refusal:
                self.inbox.answer(request, "refused", str(refusal))
            else:
                self.inbox.answer(request, "done", answer)

    def _serve(self, request: Request, rng: random.Random) -> str:
        context = self._make_context(self.situation(), rng)
        if request.kind == "pin":
            return pin_parent(context, request)
        proposals = propose_requested(context, request)
        keys = {p.candidate.content_key for p in proposals}
        fresh = self._fresh(REQUESTED, proposals, len(proposals))
        if self.screener is None:
            for attempt in self._judge(fresh):
                self._follow_up(attempt)
        else:
            self._judge_finalists([a for a in list(self._screen(fresh)) if a.screened])
        return describe_attempts([a for a in self.attempts if a.candidate.content_key in keys])

    def finish_set_up(self) -> None:
        """Do what is left of the set-up, if anything is; estimates are then over the best baseline."""
        set_up, self.set_up = self.set_up, None
        if set_up is None:
            return
        begin, before = time.monotonic(), self.facts.total_us
        self.facts = set_up()
        self.meter.started += time.monotonic() - begin
        factor = self.facts.total_us / before if before > 0 else 1.0
        self._estimates = {key: r.scale(factor) for key, r in self._estimates.items()}
        self._restate(lambda attempt: attempt.scale_estimate(factor))

    def _judge_finalists(self, finalists: Sequence[Attempt]) -> None:
        """Their verdicts take the place of what screening said of them."""
        if not finalists:
            return
        indices = [self.attempts.index(a) for a in finalists]
        self.finish_set_up()
        if self.meter.stopped:
            return
        results = self.executor.run([a.candidate for a in finalists])
        for index, result in zip(indices, results, strict=True):
            self._settle(index, result)
            if self._spent():
                return

    def _settle(self, index: int, result: Result) -> None:
        """Put a verdict in the place of what screening said, which another limit may have changed since (`take_limit`)."""
        attempt = replace(self.attempts[index], result=result)
        key = attempt.candidate.content_key
        self._ledger.note(attempt, judged=True)
        self.attempts[index] = attempt
        self.meter.evaluations += 1
        self.record(attempt)
        if result.timing is not None and result.timing.limit is not None:
            self.take_limit(result.timing.limit)
        self.methods.population.replace({key: self.attempts[index]})

    def _judge_adopted(self, rng: random.Random) -> int:
        """Judge what others wrote for this task; how many these were."""
        context = self._make_context(self.situation(), rng)
        return len(list(self._judge(propose_adopted(context, self.methods, self._fresh))))

    def _judge_predicted(self, rng: random.Random) -> int:
        """Judge what is predicted to be the fastest, then again with what that taught; how many these were. Those that are
        judged side by side know nothing of each other, but take less time.
        """
        led, batch = 0, PREDICTED_BATCH if self.meter.budget.evaluations is None else 1
        while led < MAX_PREDICTED_PER_ROUND and not self._spent():
            proposals = propose_predicted(
                self._make_context(self.situation(), rng), self.methods, self._fresh, batch
            )
            if not proposals:
                break
            for attempt in self._judge(proposals):
                self._follow_up(attempt)
            led += len(proposals)
        return led

    def _spent(self) -> bool:
        """Return whether to judge no more: the first round goes on until something has a verdict that it works, or somebody stops it."""
        if self.meter.stopped:
            return True
        best = self.situation().best
        return self.meter.find_reached_limit() is not None and best is not None and not best.screened

    def _stop(self, situation: Situation) -> str | None:
        """Why to stop now. Where that is the limit, it is measured once more before: it may turn out lower."""
        orchestrator, steering = self.team.orchestrator, self.methods.steering
        at_limit = orchestrator.stop_at_limit(situation) is not None
        reason = orchestrator.stop(situation)
        if reason is None:
            reason = steering.stop(situation)
            at_limit = reason is not None
        if not at_limit or not self._measure_limit_again():
            return reason
        situation = self.situation()
        return orchestrator.stop(situation) or steering.stop(situation)

    def _measure_limit_again(self) -> bool:
        """Return whether it was: once a search, where somebody can."""
        remeasure, self.remeasure_limit = self.remeasure_limit, None
        if remeasure is None:
            return False
        self.take_limit(remeasure())
        return True

    def take_limit(self, limit: Limit) -> None:
        """Go on by a limit that was measured since, unless it is worse: peaks are the best ever seen. All that was computed from the one
        before follows.
        """
        if limit == self.limit or limit.seconds > self.limit.seconds:
            return
        self.limit = limit
        self.facts = self.facts.by_limit(limit)
        self._restate(lambda attempt: attempt.restate(limit))

    def _restate(self, change: Callable[[Attempt], Attempt]) -> None:
        """Put every attempt, here and in the population, as it is after a change of what it is measured by."""
        self.attempts[:] = map(change, self.attempts)
        self.methods.population.replace({a.candidate.content_key: a for a in self.attempts})

    def _describe_settled(self) -> str:
        """Which regions were left alone, for the reason to stop."""
        closed = list_settled(a.result for a in self.attempts) if not self.limit.busy else {}
        return f"; near its limit: {counted(len(closed), 'region')}" if closed else ""

    def situation(self) -> Situation:
        return Situation(
            self.task, self.target, self.facts, self.limit, tuple(self.attempts), self.round,
            budget_left=self.meter.describe_left(), steered=self.methods.steering.on and not self.limit.busy,
        )  # fmt: skip

    @property
    def uses(self) -> tuple[OperatorUse, ...]:
        """The proposals of each operator, and what came of them."""
        return self._ledger.summary()

    def is_judged_here(self, attempt: Attempt) -> bool:
        """Return whether this run judged it, before it was killed or since; a result of another run is counted there."""
        key = attempt.candidate.content_key
        return key not in self.known or key in self.own

    def _make_context(self, situation: Situation, rng: random.Random) -> SearchContext:
        methods, boss = self.methods, self.team.orchestrator
        return SearchContext(
            situation, self.team, methods.population, methods.steering, rng, methods.transfer_seeds, methods.by,
            methods.experience, methods.adopted, variants=boss.variants, stalled=boss.stalled,
        )  # fmt: skip

    def _fresh(self, operator: str, proposals: Sequence[Proposal], most: int) -> list[Proposal]:
        """Each content once, none that this run has already, or that is like one of them; `most` of them."""
        if self.methods.prepare is not None:
            units_to_build = [b.candidate for b in proposals if b.candidate.content_key not in self._islands]
            self.methods.prepare(u for c in units_to_build[:most] for u in c.units)
        fresh: list[Proposal] = []
        for proposal in proposals:
            candidate = self._credit(self.team.credits.sign(proposal.candidate))
            key = candidate.content_key
            if len(fresh) >= most or key in self._islands:
                continue
            self._ledger.count_proposal(operator, key)
            if operator not in ("repair", REQUESTED) and self.methods.novelty.like(candidate):
                continue
            self.methods.novelty.add(candidate)
            self._islands[key] = proposal.island
            fresh.append(replace(proposal, candidate=candidate))
        return fresh

    def _credit(self, candidate: Candidate) -> Candidate:
        """The candidate with the authors of all that it is made of in its lineage."""
        parents = [self._lineages[p] for p in candidate.lineage.parents if p in self._lineages]
        lineage = candidate.lineage.share_credit(parents)
        if lineage is not candidate.lineage:
            candidate = candidate.model_copy(update={"lineage": lineage})
        self._lineages[candidate.id] = lineage
        return candidate

    def _judge(
        self,
        proposals: Sequence[Proposal],
        run: Callable[[Sequence[Candidate]], Iterator[Result]] | None = None,
    ) -> Iterator[Attempt]:
        """Attempts in order, each as soon as the executor has it; known ones are not judged again. `run`: by whom; the executor
        when None.
        """
        objections = {b.candidate.content_key: self._objections(b.candidate) for b in proposals}
        waiting = [
            b.candidate
            for b in proposals
            if b.candidate.content_key not in self.known and not objections[b.candidate.content_key]
        ]
        results = (run or self.executor.run)(waiting)
        for proposal in proposals:
            key = proposal.candidate.content_key
            if key in self.known:
                yield self._keep(proposal, self.known[key], replayed=True)
            elif objections[key]:
                yield self._keep(proposal, self._make_refusal(proposal.candidate, objections[key]))
            else:
                result = next(results, None)
                if result is None:
                    return
                yield self._keep(proposal, result, screened=run is not None)
                if run is None and self._spent():
                    return

    def _objections(self, candidate: Candidate) -> list[str]:
        """None to what an earlier run judged; this run's own is reviewed as it was, so that a resumed run goes as it went."""
        key = candidate.content_key
        return [] if key in self.known and key not in self.own else self.team.correctness.review(candidate)

    def _keep(
        self, proposal: Proposal, result: Result, replayed: bool = False, screened: bool = False
    ) -> Attempt:
        """`screened`: the result is from screening, which costs none of the budget's evaluations."""
        attempt = Attempt(proposal.candidate, result, proposal.hypothesis)
        key = attempt.candidate.content_key
        judged = not replayed or key in self.own
        best = self.methods.population.best()
        simpler = best is not None and attempt.speedup > 0 and as_fast(attempt, best)
        simpler = simpler and best is not None and code_size(attempt.candidate) < code_size(best.candidate)
        self._ledger.note(attempt, judged, simpler and attempt.candidate.lineage.operator == "simplify")
        self.attempts.append(attempt)
        if screened or attempt.screened:
            self.meter.screened += judged
        else:
            self.meter.evaluations += judged
        if result.promise is not None and attempt.screened:
            self._estimates[key] = result.promise
        self.record(attempt)
        if judged and result.timing is not None and result.timing.limit is not None:
            self.take_limit(result.timing.limit)
        attempt = self.attempts[-1] = attempt.restate(self.limit)
        self.methods.population.add(attempt, self._islands[key])
        return attempt

    def _follow_up(self, attempt: Attempt) -> None:
        """A repair of a candidate that failed, judged at once, and repaired again within the agents' bounds."""
        if self.meter.find_reached_limit():
            return
        repaired = self._repair(attempt)
        if repaired is not None:
            proposal = replace(repaired, island=self._islands[attempt.candidate.content_key])
            for attempt_again in self._judge(self._fresh("repair", [proposal], 1)):
                self._follow_up(attempt_again)

    def _repair(self, attempt: Attempt) -> Proposal | None:
        candidate, result = attempt.candidate, attempt.result
        repairs = self._repairs(candidate)
        if result.status in ("build-failed", "refused"):
            mended = self.team.compile.repair(candidate, result, repairs)
            return Proposal(mended, attempt.hypothesis) if mended is not None else None
        if result.status in ("incorrect", "crashed", "timeout"):
            mended = self.team.correctness.mend(candidate, result, repairs)
            return Proposal(mended, attempt.hypothesis) if mended is not None else self._safer(attempt)
        return None

    def _safer(self, attempt: Attempt) -> Proposal | None:
        """For wrong bytes: the region written anew by a safer hypothesis, if the correctness agent has one."""
        diagnosis = self.team.correctness.diagnose(self.task.graph, attempt.candidate, attempt.result)
        if diagnosis is None or diagnosis.safer is None:
            return None
        situation = self.situation()
        units = self.team.synthesis.write(self.task.graph, diagnosis.safer, 1, situation)
        if not units:
            return None
        safer = place(situation, attempt, units[0], diagnosis.safer, agent="correctness")
        return Proposal(safer, diagnosis.safer)

    def _repairs(self, candidate: Candidate) -> int:
        """Repairs in the candidate's line of descent."""
        by_id = {a.candidate.id: a.candidate for a in self.attempts}
        count = 0
        ancestor: Candidate | None = candidate
        while ancestor is not None and ancestor.lineage.operator == "repair":
            count += 1
            ancestor = by_id.get(ancestor.lineage.parents[0])
        return count

    def _make_refusal(self, candidate: Candidate, objections: list[str]) -> Result:
        return Result(
            candidate_id=candidate.id, content_key=candidate.content_key, task_id=self.task.id, target=self.target,
            status="refused", reason=f"review: {objections[0]}", seed=self.seed,
        )  # fmt: skip
