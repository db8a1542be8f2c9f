"""The compile role played by a model: a unit and its diagnostics → the unit repaired. Flags are the rules' affair."""

from __future__ import annotations

from collections.abc import Sequence

from ...records import Diagnostic, RegionProfile, Unit
from ..expert.brain import flag_variants, repair_build
from ..failures import failure_of_build
from . import telling
from .answers import read_unit
from .context import Context, adopt, lessons_text, unit_text
from .prompts import fence
from .talk import converse

MOST_LINES = 12


class LlmCompile:
    def __init__(self, context: Context) -> None:
        self.context = context

    def repair_build(self, unit: Unit, diagnostics: Sequence[Diagnostic]) -> Unit | None:
        """Repair a build. What rules can repair (a build out of memory or time) costs no question."""
        by_rule = repair_build(unit, diagnostics)
        if by_rule is not None:
            return by_rule
        context, failure = self.context, failure_of_build(diagnostics)
        lessons = context.lessons([failure])
        system, prompt = context.render(
            "compile", diagnostics=fence(diagnostics_text(unit, diagnostics)),
            region=telling.region_text(context.task.graph, unit.region),
            source=unit_text(unit), header=context.header(unit.region), lessons=lessons_text(lessons),
            knowledge=context.more_knowledge(failure, failure=True),
        )  # fmt: skip
        talk = converse(
            context.chat, "compile", system, prompt, lambda text: read_unit(text, unit.region, context.language, unit)
        )  # fmt: skip
        if talk.value is None:
            context.memory.useless(context.chat, talk.exchanges, f"repair: {talk.problem}")
            return None
        return adopt(context, unit, talk.value, failure, lessons, talk.exchanges)

    def flag_variants(self, unit: Unit, seen: RegionProfile | None = None) -> list[tuple[str, ...]]:
        return flag_variants(unit, seen)


def diagnostics_text(unit: Unit, diagnostics: Sequence[Diagnostic]) -> str:
    """Each with the line of the source that it is about."""
    source = unit.source.splitlines()
    lines = []
    for d in [d for d in diagnostics if d.kind != "warning"][:MOST_LINES]:
        lines.append(f"{f'line {d.line}: ' if d.line else ''}{d.kind}: {d.message}")
        if 0 < d.line <= len(source):
            lines.append(f"    {source[d.line - 1].strip()[:200]}")
    return "\n".join(lines) or "the compiler failed and said nothing"
