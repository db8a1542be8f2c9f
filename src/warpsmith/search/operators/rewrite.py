"""Rewrite: new hypotheses, each put into the candidate that it fits into, in place of what covered its region."""

from __future__ import annotations

from ...agents.base import Attempt, Situation
from ...records import Candidate, Hypothesis, Lineage, Unit
from .base import HOPEFUL, Bred, Breeding, insert


class Rewrite:
    name = "rewrite"
    everywhere = True

    def applies(self, ground: Breeding) -> bool:
        return True

    def breed(self, ground: Breeding, n: int) -> list[Bred]:
        ideas = ground.team.reasoning.propose(ground.situation, max(1, -(-n // ground.variants)))
        ideas = [h for h in ideas if ground.open(h.region) and self._promises(ground, h)]
        bred: list[Bred] = []
        for hypothesis, unit in ground.team.synthesis.write_all(ground.situation, ideas, ground.variants)[:n]:
            island, parent = ground.host(unit.region)
            if parent is None:  # nothing works yet: each line of descent on an island of its own
                island = len(bred)
            bred.append(Bred(place(ground.situation, parent, unit, hypothesis), hypothesis, island))
        return bred

    def _promises(self, ground: Breeding, hypothesis: Hypothesis) -> bool:
        """Whether it may come near the best so far, by its own word. A model's word on that is no measure."""
        best = ground.population.best()
        return ground.asks or best is None or hypothesis.expected_gain >= HOPEFUL * best.speedup


def place(
    situation: Situation, parent: Attempt | None, unit: Unit, hypothesis: Hypothesis, agent: str = "synthesis"
) -> Candidate:
    """The parent's units, less those that overlap, plus `unit`."""
    lineage = Lineage(
        operator="rewrite", agent=agent, hypothesis=hypothesis.id, reason="; ".join(hypothesis.evidence)[:400]
    )
    return insert(situation, parent, [unit], lineage)
