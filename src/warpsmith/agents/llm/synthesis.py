"""The synthesis role played by a model: one hypothesis → unit files, variant by variant."""

from __future__ import annotations

from ...llm.chat import BudgetSpent
from ...records import Graph, Hypothesis, Unit
from ...records.intervals import describe_speed
from ..base import Attempt, Situation
from ..failures import failure_of
from . import telling
from .answers import Problem, read_unit
from .context import Context, lessons_text, problems_text, unit_text
from .memory import Sample
from .prompts import bullets
from .talk import converse

RECENT = 3  # failures on the region whose lessons are told


class LlmSynthesis:
    def __init__(self, context: Context) -> None:
        self.context = context

    def write_units(
        self, graph: Graph, hypothesis: Hypothesis, m: int, situation: Situation | None = None
    ) -> list[Unit]:
        """Raises BudgetSpent when no unit was written before the money was spent, ModelError."""
        units: list[Unit] = []
        for variant in range(1, m + 1):
            try:
                unit = self._write(hypothesis, situation, variant, m, units)
            except BudgetSpent:
                if not units:
                    raise
                break
            if unit is not None:
                units.append(unit)
        return units

    def _write(
        self, hypothesis: Hypothesis, situation: Situation | None, variant: int, m: int, before: list[Unit]
    ) -> Unit | None:
        context, region = self.context, hypothesis.region
        if situation is not None:
            context.begin(situation)
        parent = parent_of(hypothesis, situation)
        system, prompt = self._prompt(hypothesis, situation, variant, m, before, parent)
        judged = {u.code_key: a for a in _attempts(situation) for u in a.candidate.units}

        def read(text: str) -> Unit:
            unit = name_unit(read_unit(text, region, context.language, parent), hypothesis)
            if unit.code_key in judged:
                raise Problem(
                    f"this very unit was judged already ({outcome_text(judged[unit.code_key])}): change it"
                )
            return unit

        talk = converse(context.chat, "synthesis", system, prompt, read)
        round_ = situation.round if situation is not None else 0
        if talk.value is None:
            context.memory.samples.append(Sample(round_, region.id, "", False))
            context.memory.useless(context.chat, talk.exchanges, f"unit: {talk.problem}")
            return None
        unit = talk.value
        context.memory.samples.append(Sample(round_, region.id, unit.code_key, talk.first))
        context.memory.wrote(context.chat, unit, talk.exchanges)
        return unit

    def _prompt(
        self,
        hypothesis: Hypothesis,
        situation: Situation | None,
        variant: int,
        m: int,
        before: list[Unit],
        parent: Unit | None,
    ) -> tuple[str, str]:
        context, region = self.context, hypothesis.region
        graph = context.task.graph
        attempts = _attempts(situation)
        attempts_here = [a for a in attempts if any(u.region == region for u in a.candidate.units)]
        failures = [failure_of(a.result) for a in attempts_here if not a.result.passed][-RECENT:]
        idea = hypothesis_text(hypothesis)
        if before:
            idea += f"\n- variants written already: {'; '.join(u.technique for u in before)}. Write a different one."
        query = f"{region.signature} {hypothesis.family} {hypothesis.technique} {hypothesis.bottleneck}"
        return context.render(
            "synthesis", variant=str(variant), variants=str(m), goal=context.goal(situation),
            round=str(situation.round if situation is not None else 0), hypothesis=idea,
            region=telling.region_text(graph, region), header=context.header(region),
            parent=unit_text(parent) if parent is not None else "",
            profile=context.profile(situation.best) if situation is not None and parent is not None else "",
            history=telling.history_text(attempts, region), problems=problems_text(context.memory),
            exemplars=context.exemplars(region), lessons=lessons_text(context.warnings(failures)),
            knowledge=context.more_knowledge(query),
        )  # fmt: skip


def parent_of(hypothesis: Hypothesis, situation: Situation | None) -> Unit | None:
    """The unit for the same region of the fastest candidate that has one."""
    timed = [a for a in _attempts(situation) if a.speedup > 0 and _unit(a, hypothesis) is not None]
    best = max(timed, key=lambda a: a.rank, default=None)
    return _unit(best, hypothesis) if best is not None else None


def _attempts(situation: Situation | None) -> tuple[Attempt, ...]:
    return situation.attempts if situation is not None else ()


def outcome_text(attempt: Attempt) -> str:
    ratio = attempt.result.speedup if attempt.speedup > 0 else None
    return describe_speed(ratio) if ratio is not None else telling.describe_outcome(attempt)


def _unit(attempt: Attempt, hypothesis: Hypothesis) -> Unit | None:
    return next((u for u in attempt.candidate.compiled if u.region == hypothesis.region), None)


def hypothesis_text(hypothesis: Hypothesis) -> str:
    lines = [
        f"family {hypothesis.family}, technique: {hypothesis.technique}",
        f"bottleneck: {hypothesis.bottleneck}, expected gain {hypothesis.expected_gain:.2f}x on the whole task",
        *(f"because: {text}" for text in hypothesis.evidence),
    ]
    if hypothesis.values:
        lines.append("start values: " + ", ".join(f"{k} = {v}" for k, v in sorted(hypothesis.values.items())))
    return bullets(lines)


def name_unit(unit: Unit, hypothesis: Hypothesis) -> Unit:
    """A unit that does not name its family or technique has the hypothesis's."""
    return unit.model_copy(
        update={
            "family": unit.family or hypothesis.family or "llm",
            "technique": unit.technique or hypothesis.technique,
        }
    )
