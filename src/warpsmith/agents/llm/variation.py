"""The synthesis role played by a model on units that were judged: one local edit, or two or more parents joined.

In: a situation, units with the candidates that they are from. Out: units that were not judged yet; what cannot be read is dropped and
said.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...llm.chat import BudgetSpent
from ...records import Unit
from ..base import Attempt, Situation
from . import telling
from .answers import Problem, read_unit
from .context import Context, problems_text, unit_text
from .memory import remedy_of
from .prompts import fence
from .talk import converse

REASON = 200  # characters of a diff that stand for why


class LlmVariation:
    def __init__(self, context: Context) -> None:
        self.context = context

    def edit_unit(self, situation: Situation, parent: Attempt, unit: Unit, m: int) -> list[tuple[Unit, str]]:
        """Raises BudgetSpent when no unit was written before the money was spent, ModelError."""
        edited: list[Unit] = []
        for variant in range(1, m + 1 if unit.compiled else 1):
            diffs = "\n\n".join(fence(remedy_of(unit, edited_variant), "diff") for edited_variant in edited)
            system, prompt = self._edit_prompt(situation, parent, unit, f"{variant}", f"{m}", diffs)
            try:
                edited_unit = self._ask(situation, system, prompt, unit)
            except BudgetSpent:
                if not edited:
                    raise
                break
            edited += [edited_unit] if edited_unit is not None else []
        return [
            (edited_unit, remedy_of(unit, edited_unit).replace("\n", " ")[:REASON]) for edited_unit in edited
        ]

    def combine_units(
        self, situation: Situation, parents: Sequence[tuple[Attempt, Unit]], m: int
    ) -> list[Unit]:
        """One question, whatever `m`. Raises BudgetSpent, ModelError."""
        if m < 1 or not all(unit.compiled for _, unit in parents):
            return []
        ordered = sorted(parents, key=lambda p: p[0].rank, reverse=True)
        system, prompt = self._crossover_prompt(situation, ordered)
        combined = self._ask(situation, system, prompt, ordered[0][1])
        return [combined] if combined is not None else []

    def _ask(self, situation: Situation, system: str, prompt: str, parent: Unit) -> Unit | None:
        context = self.context
        judged = {u.code_key for a in situation.attempts for u in a.candidate.units}

        def read(text: str) -> Unit:
            unit = read_unit(text, parent.region, context.language, parent)
            names = {"family": unit.family or parent.family, "technique": unit.technique or parent.technique}
            unit = unit.model_copy(update=names)
            if unit.code_key in judged or unit.source == parent.source:
                raise Problem("this very unit was judged already: change it")
            return unit

        talk = converse(context.chat, "synthesis", system, prompt, read)
        if talk.value is None:
            context.memory.useless(context.chat, talk.exchanges, f"variation: {talk.problem}")
            return None
        context.memory.wrote(context.chat, talk.value, talk.exchanges)
        return talk.value

    def _edit_prompt(
        self, situation: Situation, parent: Attempt, unit: Unit, variant: str, variants: str, before: str
    ) -> tuple[str, str]:
        context, region = self.context, unit.region
        return context.render(
            "edit", variant=variant, variants=variants, goal=context.goal(situation), round=str(situation.round),
            source=unit_text(unit), standing=telling.standing_text(parent, unit),
            profile=context.profile(parent, unit, telling.find_parent(situation, parent)), region=telling.region_text(situation.graph, region),
            header=context.header(region), history=telling.history_text(situation.attempts, region),
            before=before, problems=problems_text(context.memory),
            knowledge=context.more_knowledge(f"{region.signature} {unit.family} {unit.technique}"),
        )  # fmt: skip

    def _crossover_prompt(
        self, situation: Situation, parents: Sequence[tuple[Attempt, Unit]]
    ) -> tuple[str, str]:
        context, region = self.context, parents[0][1].region
        parts = [
            "\n".join(
                (
                    telling.standing_text(a, u),
                    context.profile(a, u, telling.find_parent(situation, a)),
                    unit_text(u),
                )
            )
            for a, u in parents
        ]
        names = " ".join(f"{u.family} {u.technique}" for _, u in parents)
        return context.render(
            "crossover", count=str(len(parents)), goal=context.goal(situation), round=str(situation.round),
            parents="\n\n".join(parts), region=telling.region_text(situation.graph, region),
            header=context.header(region),
            history=telling.history_text(situation.attempts, region), problems=problems_text(context.memory),
            knowledge=context.more_knowledge(f"{region.signature} {names}"),
        )  # fmt: skip
