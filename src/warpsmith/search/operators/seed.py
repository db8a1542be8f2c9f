"""Seed: competing cuts of the graph, every region filled at once: all variants of the best cut, then one of each other, then the
rest. Each cut goes to an island of its own.

The first variant of each region is its first idea; the following ones are the other ideas, then other units of any.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...records import Hypothesis, Lineage, Region, Unit
from .base import Proposal, SearchContext, assemble

Filled = list[list[tuple[Hypothesis, Unit]]]  # one column of units a region


class Seed:
    name = "seed"
    everywhere = True

    def applies(self, context: SearchContext) -> bool:
        return context.situation.round == 0

    def propose(self, context: SearchContext, n: int) -> list[Proposal]:
        team = context.team
        ideas = team.reasoning.propose(context.situation, 1_000)
        cuts: list[list[Proposal]] = []
        for number, plan in enumerate(team.reasoning.plans(context.situation, team.orchestrator.branches)):
            columns = [
                pick_first_units(context, ideas, region, team.orchestrator.variants + 1) for region in plan
            ]
            cuts.append(from_plan(context, [c for c in columns if c], number, self.name))
        remainder = [proposal for cut in cuts[1:] for proposal in cut[1:]]
        return [
            *(cuts[0] if cuts else ()),
            *(proposal for cut in cuts[1:] for proposal in cut[:1]),
            *remainder,
        ][:n]


def from_plan(context: SearchContext, filled: Filled, island: int, operator: str) -> list[Proposal]:
    """One candidate a row; a region with fewer units repeats its last."""
    proposals: list[Proposal] = []
    for row in range(max(map(len, filled), default=0)):
        picked = [column[min(row, len(column) - 1)] for column in filled]
        first = picked[0][0]
        lineage = Lineage.model_validate({
            "operator": operator, "agent": "synthesis", "hypothesis": first.id,
            "reason": "; ".join(dict.fromkeys(e for h, _ in picked for e in h.evidence))[:1200],
        })  # fmt: skip
        candidate = assemble(context.situation, [u for _, u in picked], lineage)
        proposals.append(Proposal(candidate, first if len(picked) == 1 else None, island))
    return proposals


def pick_first_units(
    context: SearchContext, ideas: Sequence[Hypothesis], region: Region, m: int
) -> list[tuple[Hypothesis, Unit]]:
    """Up to `m` units for a region: the first unit of each of its ideas before second units of any."""
    situation, synthesis = context.situation, context.team.synthesis
    ideas_here = [h for h in ideas if h.region == region][:m]
    written = [[(h, u) for u in synthesis.write(situation.graph, h, m, situation)] for h in ideas_here]
    depth = max(map(len, written), default=0)
    return [units[i] for i in range(depth) for units in written if i < len(units)][:m]
