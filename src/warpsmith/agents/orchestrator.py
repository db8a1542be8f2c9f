"""The orchestrator: how large a round is, what a brain advises for it, and when to stop. It reads results, never sources.

A policy shares a round among the operators (`search.policy`), unless a brain advises a split from the second round on. Advice is
bounded by the built-in rules: each operator gets at most twice what they would give it (and what their largest round gives), and
nobody stops a run before its third round.
"""

from __future__ import annotations

from dataclasses import replace

from ..progress import counted
from ..records.intervals import find_sure_share
from .base import Advice, OrchestratorBrain, RoundPlan, Situation
from .findings import BEATEN

EARLIEST_STOP = 2  # rounds that are played before a brain may stop a run
WORTH = 1.01  # a round whose best is not 1% better than the last made no progress


class OrchestratorAgent:
    """The built-in rules. `history` of the bests' low ends per round decides; near the limit or without progress it stops.

    `seeds`: whether the first round fills whole cuts of the graph at once, as suits a brain that seldom fails; else it tries
    one unit at a time.
    """

    def __init__(
        self,
        branches: int,
        variants: int,
        patience: int,
        near_limit: float,
        brain: OrchestratorBrain | None = None,
        seeds: bool = True,
    ) -> None:
        self.branches, self.variants = branches, variants
        self.patience, self.near_limit = patience, near_limit
        self.brain, self.seeds = brain, seeds
        self.bests: list[float] = []
        self._advice: tuple[int, Advice | None] = (-1, None)

    def advise(self, situation: Situation) -> RoundPlan | None:
        """Ask a brain what it wants of the round, within bounds; None: the policy decides."""
        advice = self._ask_brain(situation)
        if advice is None:
            return None
        return bound_plan(advice.plan, self.rules(situation), self.branches, self.variants)

    def rules(self, situation: Situation) -> RoundPlan:
        """The split by the built-in rules. Its total is the size of the round, however that is shared."""
        if situation.round == 0:
            plans = self.branches if self.seeds else 0
            return RoundPlan(plans, self.branches, self.variants, tunes=0, crossovers=0, flags=0)
        if self.seeds:
            several = len({a.candidate.units for a in situation.attempts if len(a.candidate.units) > 1}) > 1
        else:  # candidates began with one unit each: those that work are joined
            covered = {u.region.id for a in situation.attempts if a.speedup > 0 for u in a.candidate.units}
            several = len(covered) > 1
        works = situation.best is not None
        return RoundPlan(
            plans=0,
            rewrites=self.branches if situation.round < 3 or not works else 1,
            variants=self.variants,
            tunes=2 * self.branches if works else 0,
            crossovers=self.branches if several else 0,
            flags=1 if works and situation.round >= 2 else 0,
            edits=1 if works else 0,
            simplifications=1 if works and situation.round >= 2 else 0,
        )

    def _ask_brain(self, situation: Situation) -> Advice | None:
        """Ask the brain once a round, and not about the first."""
        if self.brain is None or situation.round == 0:
            return None
        if self._advice[0] != situation.round:
            self._advice = (situation.round, self.brain.advise(situation, self.rules(situation)))
        return self._advice[1]

    @property
    def idle_rounds(self) -> int:
        """The number of rounds in a row that may bring nothing to judge: rules that have no idea left never have one again."""
        return 0 if self.seeds else self.patience

    @property
    def stalled(self) -> bool:
        """No gain for so long that one more such round would end the run."""
        waited = max(2, self.patience)
        return len(self.bests) >= waited and self.bests[-1] < WORTH * self.bests[-waited]

    def end_round(self, situation: Situation) -> None:
        """Take note of a finished round."""
        self.bests.append(situation.best.worth if situation.best is not None else 0.0)

    def stop_at_limit(self, situation: Situation) -> str | None:
        """Explain how near its limit the best candidate is; None to go on. A limit from a busy machine may be too high."""
        timing = situation.best.result.timing if situation.best is not None else None
        if timing is None or situation.limit.busy:
            return None
        if find_sure_share(timing) < self.near_limit or timing.limit_share > BEATEN:
            return None
        return f"the best reached {timing.limit_share:.0%} of the limit"

    def stop(self, situation: Situation) -> str | None:
        """Explain why to stop now; None to go on."""
        if (reason := self.stop_at_limit(situation)) is not None:
            return reason
        if len(self.bests) > self.patience and self.bests[-1] < WORTH * self.bests[-1 - self.patience]:
            return f"no gain in {counted(self.patience, 'round')}"
        advice = self._ask_brain(situation)
        if advice is not None and advice.stop and situation.round >= EARLIEST_STOP:
            return f"the orchestrator stopped: {advice.stop}"
        return None


def bound_plan(requested: RoundPlan, rules: RoundPlan, branches: int, variants: int) -> RoundPlan:
    """Bound a brain's plan by the limits of the rules; return the rules' plan where it would do nothing at all."""
    maxima = replace(
        rules, plans=0, rewrites=2 * branches, variants=2 * variants, tunes=2 * rules.tunes,
        crossovers=2 * rules.crossovers, flags=2 * max(1, rules.flags) if rules.tunes else 0,
        edits=2 * branches if rules.tunes else 0, transplants=branches, simplifications=branches if rules.tunes else 0,
    )  # fmt: skip
    plan = RoundPlan(
        plans=0, rewrites=_within(requested.rewrites, maxima.rewrites), variants=max(1, _within(requested.variants, maxima.variants)),
        tunes=_within(requested.tunes, maxima.tunes), crossovers=_within(requested.crossovers, maxima.crossovers),
        flags=_within(requested.flags, maxima.flags), edits=_within(requested.edits, maxima.edits),
        transplants=_within(requested.transplants, maxima.transplants),
        simplifications=_within(requested.simplifications, maxima.simplifications),
    )  # fmt: skip
    return plan if plan.total > plan.flags else rules


def _within(requested: int, limit: int) -> int:
    return max(0, min(requested, limit))
