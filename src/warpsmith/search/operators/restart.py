"""Restart: when no round gains any more, the weakest island begins anew, from cuts and hypotheses that were never tried."""

from __future__ import annotations

from ...records import Lineage
from .base import Proposal, SearchContext, insert
from .seed import from_plan, pick_first_units


class Restart:
    name = "restart"
    everywhere = True

    def applies(self, context: SearchContext) -> bool:
        return context.stalled and context.population.best() is not None

    def propose(self, context: SearchContext, n: int) -> list[Proposal]:
        island = self._weakest(context)
        return (self._alone if context.asks else self._cuts)(context, n, island)

    def _cuts(self, context: SearchContext, n: int, island: int) -> list[Proposal]:
        """A cut a candidate, those first that nothing was seeded from; each region by its best untried idea."""
        situation, reasoning = context.situation, context.team.reasoning
        seeded = {frozenset(u.region.id for u in a.candidate.units) for a in situation.attempts}
        ideas = reasoning.propose(situation, 1_000)
        plans = sorted(reasoning.plans(situation, 1_000), key=lambda p: frozenset(r.id for r in p) in seeded)
        proposals: list[Proposal] = []
        for plan in plans:
            if len(proposals) >= n:
                break
            columns = [pick_first_units(context, ideas, region, 1) for region in plan]
            proposals += from_plan(context, [c for c in columns if c], island, self.name)
        return proposals[:n]

    def _alone(self, context: SearchContext, n: int, island: int) -> list[Proposal]:
        """For a brain that is asked for each unit: one new hypothesis, put into no candidate at all."""
        proposals: list[Proposal] = []
        for idea in context.team.reasoning.propose(context.situation, 1)[:n]:
            for unit in context.team.synthesis.write(context.situation.graph, idea, 1, context.situation):
                lineage = Lineage(
                    operator="restart",
                    agent="synthesis",
                    hypothesis=idea.id,
                    reason="; ".join(idea.evidence)[:400],
                )
                proposals.append(Proposal(insert(context.situation, None, [unit], lineage), idea, island))
        return proposals

    def _weakest(self, context: SearchContext) -> int:
        leaders = [number for number, _ in context.leaders()]
        empty = [i for i in range(len(context.population.islands)) if i not in leaders]
        return empty[0] if empty else leaders[-1]
