"""The correctness role played by a model: reviews units for cheating before they run, repairs those that gave wrong results.

What the static rules object to needs no model, and what they do not even suspect gets none. A model's objection counts when its kind is known and it quotes the unit;
a reviewer that lets nothing pass is not asked any more, so that a bad one cannot end a run.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...llm.chat import BudgetSpent
from ...records import Graph, Hypothesis, Result, Unit
from ..expert.brain import repair_wrong
from ..expert.review import list_suspicions
from ..expert.review import review as static_review
from ..failures import failure_of
from . import telling
from .answers import one_line, read_json, read_unit
from .context import Context, adopt, lessons_text, unit_text
from .prompts import bullets
from .talk import converse

MISTRUST = 4  # units refused, with none let pass, after which a reviewer is not asked any more
MIN_QUOTE_CHARACTERS = 6  # characters of a quote


class Objection(BaseModel):
    model_config = ConfigDict(extra="ignore")

    kind: Literal["state", "inputs", "shortcut", "clock", "escape"]
    quote: str = Field(min_length=MIN_QUOTE_CHARACTERS, max_length=400)
    why: str = Field("", max_length=2000)


class LlmCorrectness:
    def __init__(self, context: Context) -> None:
        self.context = context
        self._reviewed: dict[str, list[str]] = {}  # by source
        self._passed = self._refused = 0  # units, by the model

    def review(self, unit: Unit) -> list[str]:
        """Objections, one line each. Units that no model wrote are read by the static rules alone."""
        objections = static_review(unit)
        if objections or unit.code_key not in self.context.memory.credits.models:
            return objections
        suspicions = list_suspicions(unit)
        if not suspicions:
            return []  # rules come first: a model is asked only where they see something
        if unit.source not in self._reviewed:
            try:
                self._reviewed[unit.source] = self._ask(unit, suspicions)
            except BudgetSpent:
                return []  # the judge decides without a second opinion
        return self._reviewed[unit.source]

    def _ask(self, unit: Unit, suspicions: list[str]) -> list[str]:
        context = self.context
        if not self._passed and self._refused >= MISTRUST:
            return []
        system, prompt = context.render(
            "review", source=unit_text(unit), suspicions=bullets(suspicions), region=telling.region_text(context.task.graph, unit.region),
        )  # fmt: skip
        talk = converse(context.chat, "correctness", system, prompt, lambda text: read_json(text, list))
        if talk.value is None:
            context.memory.useless(context.chat, talk.exchanges, f"review: {talk.problem}")
            return []
        objections = [line for item in talk.value[:20] if (line := objection(item, unit))]
        self._passed += not objections
        self._refused += bool(objections)
        return objections

    def repair_wrong(self, graph: Graph, unit: Unit, rule: str, family: str) -> Hypothesis | None:
        """The expert's safer technique, for the units that the expert wrote."""
        return repair_wrong(graph, unit, rule, family) if self._is_experts(unit) else None

    def mend(self, unit: Unit, result: Result) -> Unit | None:
        if self._is_experts(unit):
            return None
        context, failure = self.context, failure_of(result)
        lessons = context.lessons([failure])
        system, prompt = context.render(
            "correctness", report=report_text(result), source=unit_text(unit),
            region=telling.region_text(context.task.graph, unit.region), header=context.header(unit.region),
            lessons=lessons_text(lessons), knowledge=context.more_knowledge(failure, failure=True),
        )  # fmt: skip
        talk = converse(
            context.chat, "correctness", system, prompt,
            lambda text: read_unit(text, unit.region, context.language, unit),
        )  # fmt: skip
        if talk.value is None:
            context.memory.useless(context.chat, talk.exchanges, f"repair: {talk.problem}")
            return None
        return adopt(context, unit, talk.value, failure, lessons, talk.exchanges)

    def _is_experts(self, unit: Unit) -> bool:
        return unit.code_key not in self.context.memory.credits.models


def objection(item: Any, unit: Unit) -> str:
    """One line; empty for what quotes nothing of the unit or is of no kind that is asked for."""
    try:
        parsed = Objection.model_validate(item)
    except ValidationError:
        return ""
    quote = " ".join(parsed.quote.split())
    if len(quote) < MIN_QUOTE_CHARACTERS or quote not in " ".join(unit.source.split()):
        return ""
    return f"{parsed.kind}: {one_line(parsed.why, 160)} (`{one_line(quote, 80)}`)"


def report_text(result: Result) -> str:
    """The forensic report: the failed check, how many passed, the first reasons."""
    verdict, lines = result.verdict, [failure_of(result)]
    check = verdict.failed if verdict is not None else None
    if verdict is not None and check is not None:
        lines.append(
            f"at the shapes of variant {check.variant}, in {'the whole task' if check.where == 'whole' else 'this unit'}"
        )
        lines.append(f"worst error {check.error:.3g} times the budget, {check.ulp:.3g} ulp")
        lines.append(f"{sum(c.ok for c in verdict.checks)} of {len(verdict.checks)} checks passed")
        passed = dict.fromkeys(f"{c.family} ({c.variant})" for c in verdict.checks if c.ok)
        lines += [f"passed: {', '.join(list(passed)[:12])}"] if passed else []
        lines += [f"also: {reason}" for reason in verdict.reasons[:4]]
    return bullets([one_line(line, 400) for line in lines])
