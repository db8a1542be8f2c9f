"""The orchestrator: splits a round between writing, tuning and crossing; says when to stop. It reads results, never sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..progress import counted
from .base import Attempt, Situation

WORTH = 1.01  # a round whose best is not 1% better than the last made no progress


@dataclass(frozen=True)
class RoundPlan:
    """How many candidates each operator may make this round."""

    plans: int  # competing cuts of the graph, first round only
    rewrites: int  # hypotheses
    variants: int  # units a hypothesis
    tunes: int
    crossovers: int
    flags: int


class OrchestratorAgent:
    """The built-in rules. `history` of best speedups per round decides; near the limit or without progress it stops."""

    def __init__(self, branches: int, variants: int, patience: int, near_limit: float) -> None:
        self.branches, self.variants = branches, variants
        self.patience, self.near_limit = patience, near_limit
        self.bests: list[float] = []

    def plan(self, situation: Situation) -> RoundPlan:
        if situation.round == 0:
            return RoundPlan(self.branches, self.branches, self.variants, tunes=0, crossovers=0, flags=0)
        several = len({a.candidate.units for a in situation.attempts if len(a.candidate.units) > 1}) > 1
        works = situation.best is not None
        return RoundPlan(
            plans=0,
            rewrites=self.branches if situation.round < 3 or not works else 1,
            variants=self.variants,
            tunes=2 * self.branches if works else 0,
            crossovers=self.branches if several else 0,
            flags=1 if works and situation.round >= 2 else 0,
        )

    def ended(self, situation: Situation) -> None:
        """Take note of a finished round."""
        self.bests.append(situation.best.speedup if situation.best is not None else 0.0)

    def stop(self, situation: Situation) -> str | None:
        """Why to stop now, or None to go on."""
        best = situation.best
        if (
            best is not None
            and best.result.timing is not None
            and best.result.timing.limit_share >= self.near_limit
        ):
            return f"the best reached {best.result.timing.limit_share:.0%} of the limit"
        if len(self.bests) > self.patience and self.bests[-1] < WORTH * self.bests[-1 - self.patience]:
            return f"no gain in {counted(self.patience, 'round')}"
        return None


def lineages(attempts: Sequence[Attempt], keep: int) -> list[Attempt]:
    """The best of each branch, best branch first: several lines of descent stay alive, whatever their rank."""
    best: dict[str, Attempt] = {}
    for attempt in attempts:
        branch = attempt.candidate.lineage.branch
        if attempt.speedup > 0 and (branch not in best or attempt.speedup > best[branch].speedup):
            best[branch] = attempt
    return sorted(best.values(), key=lambda a: -a.speedup)[:keep]
