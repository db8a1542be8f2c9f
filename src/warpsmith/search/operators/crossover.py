"""Crossover: two parents' units joined, the values of their tunables mixed, or their sources combined by a model.

Regions that both cover get the unit that ran faster alone; regions that only the other covers are added. Where both have one
source at other values, each tunable is drawn from either (uniform crossover: G. Syswerda, ICGA 1989). Where their sources for a
region differ, a brain that can combine them is asked for one, with the profiles of both.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...agents.base import Attempt
from ...records import Candidate, Lineage, Unit
from ..population import alone_us
from ..tuner import with_values
from .base import Proposal, SearchContext, assemble, changes, disjoint, swap


class Crossover:
    name = "crossover"
    everywhere = False

    def applies(self, context: SearchContext) -> bool:
        return sum(len(island.members) for island in context.population.islands) > 1

    def propose(self, context: SearchContext, n: int) -> list[Proposal]:
        """Propose first what costs no model; ask at most one question."""
        judged = {a.candidate.content_key for a in context.situation.attempts}
        pairs = self._pairs(context, 2 * n + 2)
        proposals: dict[str, Proposal] = {}
        for child in self._children(context, pairs):
            if child.content_key not in judged:
                proposals.setdefault(child.content_key, Proposal(child, None, context.island))
            if len(proposals) >= n:
                break
        return list(proposals.values())

    def _children(self, context: SearchContext, pairs: list[tuple[Attempt, Attempt]]) -> Iterator[Candidate]:
        for pair in pairs:
            yield from self._join(context, *pair)
        for pair in pairs:
            yield from self._mix_values(context, *pair)
        differ = next((d for pair in pairs for d in self._different(context, *pair)), None)
        if context.writes and differ is not None:
            (first, unit), (second, _) = differ
            for unit_new in context.team.synthesis.combine(context.situation, differ, 1):
                yield self._child(context, first, second, unit, unit_new, agent="synthesis")

    def _pairs(self, context: SearchContext, n: int) -> list[tuple[Attempt, Attempt]]:
        """List pairs of the island, and its best with those of the others, which went other ways."""
        leaders = dict(context.leaders())
        leader = leaders.pop(context.island % len(context.population.islands), None)
        pairs = [(leader, rival) for rival in leaders.values() if leader is not None]
        return [*context.population.pairs(context.island, n, context.rng), *pairs]

    def _join(self, context: SearchContext, one: Attempt, other: Attempt) -> Iterator[Candidate]:
        child = join_parents(context, one, other)
        if child is not None:
            yield child

    def _mix_values(self, context: SearchContext, one: Attempt, other: Attempt) -> Iterator[Candidate]:
        """One child a pair of units with the same source and different values."""
        mates = {u.region.id: u for u in other.candidate.units}
        for unit in context.open_units(one):
            mate = mates.get(unit.region.id)
            if mate is None or mate.source != unit.source or mate.values == unit.values:
                continue
            values = {
                name: context.rng.choice((v, mate.values.get(name, v))) for name, v in unit.values.items()
            }
            if values not in (unit.values, mate.values):
                yield self._child(context, one, other, unit, with_values(unit, values))

    def _different(
        self, context: SearchContext, one: Attempt, other: Attempt
    ) -> Iterator[tuple[tuple[Attempt, Unit], tuple[Attempt, Unit]]]:
        """Units for the same region with different sources."""
        mates = {u.region.id: u for u in other.candidate.units}
        for unit in context.open_units(one):
            mate = mates.get(unit.region.id)
            if mate is not None and mate.source != unit.source:
                yield (one, unit), (other, mate)

    def _child(
        self,
        context: SearchContext,
        one: Attempt,
        other: Attempt,
        unit: Unit,
        new: Unit,
        agent: str = "orchestrator",
    ) -> Candidate:
        lineage = Lineage(operator="crossover", agent=agent, reason=f"of both: {changes(unit, new)}")
        child = swap(context.situation, one, unit, new, lineage)
        lineage_of_both = child.lineage.model_copy(update={"parents": (one.candidate.id, other.candidate.id)})
        return child.model_copy(update={"lineage": lineage_of_both})


def join_parents(context: SearchContext, one: Attempt, other: Attempt) -> Candidate | None:
    """One parent's units, each replaced by the other's for the same region where that was faster; regions only the other has are added."""
    units = {u.region.id: u for u in one.candidate.units}
    changed = 0
    for unit in other.candidate.units:
        current = units.get(unit.region.id)
        if current is not None and current.code_key != unit.code_key:
            if alone_us(other, unit) < alone_us(one, current):
                units[unit.region.id] = unit
                changed += 1
        elif current is None and all(disjoint(unit, u) for u in units.values()):
            units[unit.region.id] = unit
            changed += 1
    if not changed or len(units) < 2:
        return None
    lineage = Lineage(
        parents=(one.candidate.id, other.candidate.id), operator="crossover", agent="orchestrator",
        reason=f"{changed} of {len(units)} units from the second parent, each faster alone",
    )  # fmt: skip
    return assemble(context.situation, units.values(), lineage)
