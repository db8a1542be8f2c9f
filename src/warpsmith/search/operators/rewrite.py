"""Rewrite: new hypotheses, each put into the candidate that it fits into, in place of what covered its region."""

from __future__ import annotations

from ...agents.base import Attempt, Situation
from ...records import Candidate, Hypothesis, Lineage, Unit
from ..selection import worth_of
from .base import MIN_PARENT_SHARE, Proposal, SearchContext, insert


class Rewrite:
    name = "rewrite"
    everywhere = True

    def applies(self, context: SearchContext) -> bool:
        return True

    def propose(self, context: SearchContext, n: int) -> list[Proposal]:
        ideas = context.team.reasoning.propose(context.situation, max(1, -(-n // context.variants)))
        ideas = [h for h in ideas if context.open(h.region) and self._promises(context, h)]
        proposals: list[Proposal] = []
        for hypothesis, unit in context.team.synthesis.write_all(context.situation, ideas, context.variants)[
            :n
        ]:
            island, parent = context.find_host(unit.region)
            if parent is None:  # nothing works yet: each line of descent on an island of its own
                island = len(proposals)
            proposals.append(Proposal(place(context.situation, parent, unit, hypothesis), hypothesis, island))
        return proposals

    def _promises(self, context: SearchContext, hypothesis: Hypothesis) -> bool:
        """Return whether it may come near the best so far, by its own word. A model's word on that is no measure."""
        best = context.population.best()
        return (
            context.asks
            or best is None
            or hypothesis.expected_gain >= MIN_PARENT_SHARE * worth_of(best, context.by)
        )


def place(
    situation: Situation, parent: Attempt | None, unit: Unit, hypothesis: Hypothesis, agent: str = "synthesis"
) -> Candidate:
    """The parent's units, less those that overlap, plus `unit`."""
    lineage = Lineage(
        operator="rewrite", agent=agent, hypothesis=hypothesis.id, reason="; ".join(hypothesis.evidence)[:400]
    )
    return insert(situation, parent, [unit], lineage)
