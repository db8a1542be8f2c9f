"""Edit: one unit of a good candidate changed a little: a step that its profile speaks for, a neighbouring technique, a
search/replace edit by a model, or a compiler flag.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...agents.base import Attempt
from ...records import Lineage, Unit
from .base import EVERYONE, Bred, Breeding, changes, swap

PARENTS = 2


class Edit:
    name = "edit"
    everywhere = False

    def applies(self, ground: Breeding) -> bool:
        return ground.population.best() is not None

    def breed(self, ground: Breeding, n: int) -> list[Bred]:
        bred: list[Bred] = []
        asked = 0  # units that the synthesis agent wrote
        for parent in ground.parents(PARENTS if not ground.free else EVERYONE):
            for unit in ground.open_units(parent):
                for new, made in self._edited(ground, parent, unit, n - len(bred), asked):
                    asked += made.agent == "synthesis"
                    bred.append(Bred(swap(ground.situation, parent, unit, new, made), None, ground.island))
                if len(bred) >= n:
                    return bred[:n]
        return bred

    def _edited(
        self, ground: Breeding, parent: Attempt, unit: Unit, n: int, asked: int
    ) -> Iterator[tuple[Unit, Lineage]]:
        """Units that were not judged, at most `n`. The last place of several is a flag's: it costs no model."""
        judged = ground.judged_for(unit.region)
        flags = [
            u for u in ground.team.compile.flag_variants(unit, parent.seen(unit)) if u.code_key not in judged
        ]
        most = n - 1 if flags and n > 1 else n
        if ground.edits is not None or not ground.writes:
            most = min(most, (ground.edits or 0) - asked)
        edited = ground.team.synthesis.edits(ground.situation, parent, unit, most, judged)
        for new, why in edited:
            reason = f"{why}; therefore {changes(unit, new)}"
            yield new, Lineage(operator="edit", agent="synthesis", reason=reason[:400])
        for new in flags[: n - len(edited)]:
            yield new, Lineage(operator="edit", agent="compile", reason=changes(unit, new))
