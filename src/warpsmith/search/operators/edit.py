"""Edit: one unit of a good candidate changed a little: a step that its profile speaks for, a neighbouring technique, a
search/replace edit by a model, or a compiler flag.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...agents.base import Attempt
from ...records import Lineage, Unit
from .base import EVERYONE, Proposal, SearchContext, changes, swap

PARENTS = 2


class Edit:
    name = "edit"
    everywhere = False

    def applies(self, context: SearchContext) -> bool:
        return context.population.best() is not None

    def propose(self, context: SearchContext, n: int) -> list[Proposal]:
        proposals: list[Proposal] = []
        written = 0  # units that the synthesis agent wrote
        for parent in context.parents(PARENTS if not context.free else EVERYONE):
            for unit in context.open_units(parent):
                for edited, lineage in self._edit_units(context, parent, unit, n - len(proposals), written):
                    written += lineage.agent == "synthesis"
                    proposals.append(
                        Proposal(swap(context.situation, parent, unit, edited, lineage), None, context.island)
                    )
                if len(proposals) >= n:
                    return proposals[:n]
        return proposals

    def _edit_units(
        self, context: SearchContext, parent: Attempt, unit: Unit, n: int, asked: int
    ) -> Iterator[tuple[Unit, Lineage]]:
        """Units that were not judged, at most `n`. The last place of several is a flag's: it costs no model."""
        judged = context.list_judged_keys(unit.region)
        flags = [
            u
            for u in context.team.compile.flag_variants(unit, parent.find_profile(unit))
            if u.code_key not in judged
        ]
        limit = n - 1 if flags and n > 1 else n
        if context.edits is not None or not context.writes:
            limit = min(limit, (context.edits or 0) - asked)
        edited = context.team.synthesis.edits(context.situation, parent, unit, limit, judged)
        for edited_unit, why in edited:
            reason = f"{why}; therefore {changes(unit, edited_unit)}"
            yield edited_unit, Lineage(operator="edit", agent="synthesis", reason=reason[:400])
        for edited_unit in flags[: n - len(edited)]:
            yield edited_unit, Lineage(operator="edit", agent="compile", reason=changes(unit, edited_unit))
