"""Restart: when no round gains any more, the weakest island begins anew, from cuts and hypotheses that were never tried."""

from __future__ import annotations

from ...records import Lineage
from .base import Bred, Breeding, insert
from .seed import first_units, from_plan


class Restart:
    name = "restart"
    everywhere = True

    def applies(self, ground: Breeding) -> bool:
        return ground.stalled and ground.population.best() is not None

    def breed(self, ground: Breeding, n: int) -> list[Bred]:
        island = self._weakest(ground)
        return (self._alone if ground.asks else self._cuts)(ground, n, island)

    def _cuts(self, ground: Breeding, n: int, island: int) -> list[Bred]:
        """A cut a candidate, those first that nothing was seeded from; each region by its best untried idea."""
        situation, reasoning = ground.situation, ground.team.reasoning
        seeded = {frozenset(u.region.id for u in a.candidate.units) for a in situation.attempts}
        ideas = reasoning.propose(situation, 1_000)
        plans = sorted(reasoning.plans(situation, 1_000), key=lambda p: frozenset(r.id for r in p) in seeded)
        bred: list[Bred] = []
        for plan in plans:
            if len(bred) >= n:
                break
            columns = [first_units(ground, ideas, region, 1) for region in plan]
            bred += from_plan(ground, [c for c in columns if c], island, self.name)
        return bred[:n]

    def _alone(self, ground: Breeding, n: int, island: int) -> list[Bred]:
        """For a brain that is asked for each unit: one new hypothesis, put into no candidate at all."""
        bred: list[Bred] = []
        for idea in ground.team.reasoning.propose(ground.situation, 1)[:n]:
            for unit in ground.team.synthesis.write(ground.situation.graph, idea, 1, ground.situation):
                lineage = Lineage(
                    operator="restart",
                    agent="synthesis",
                    hypothesis=idea.id,
                    reason="; ".join(idea.evidence)[:400],
                )
                bred.append(Bred(insert(ground.situation, None, [unit], lineage), idea, island))
        return bred

    def _weakest(self, ground: Breeding) -> int:
        leaders = [number for number, _ in ground.leaders()]
        empty = [i for i in range(len(ground.population.islands)) if i not in leaders]
        return empty[0] if empty else leaders[-1]
