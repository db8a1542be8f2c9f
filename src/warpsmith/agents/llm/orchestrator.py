"""The orchestrator's role played by a model: how the next round is split, and when to stop. Invalid advice is no advice."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..base import Advice, RoundPlan, Situation
from . import telling
from .answers import Problem, one_line, read_json
from .context import Context
from .talk import converse


class Wish(BaseModel):
    """A round as a model words it."""

    model_config = ConfigDict(extra="ignore")

    rewrites: int = Field(ge=0, le=1000)
    variants: int = Field(1, ge=0, le=1000)
    tunes: int = Field(0, ge=0, le=1000)
    crossovers: int = Field(0, ge=0, le=1000)
    flags: int = Field(0, ge=0, le=1000)
    edits: int = Field(0, ge=0, le=1000)
    transplants: int = Field(0, ge=0, le=1000)
    simplifications: int = Field(0, ge=0, le=1000)
    stop: str | None = ""


class LlmOrchestrator:
    def __init__(self, context: Context) -> None:
        self.context = context

    def advise(self, situation: Situation, rules: RoundPlan) -> Advice | None:
        context = self.context
        context.memory.settle()
        context.begin(situation)
        system, prompt = context.render(
            "orchestrator", round=str(situation.round), goal=context.goal(situation), rules_plan=plan_text(rules),
            time=telling.time_text(situation.graph, situation.facts, situation.limit),
            best=telling.best_text(situation), profile=context.profile(situation.best),
            history=telling.history_text(situation.attempts),
        )  # fmt: skip
        talk = converse(context.chat, "orchestrator", system, prompt, read_advice)
        if talk.value is None:
            context.memory.useless(context.chat, talk.exchanges, f"round: {talk.problem}")
        return talk.value


def read_advice(text: str) -> Advice:
    """Raises Problem."""
    try:
        wish = Wish.model_validate(read_json(text, dict))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise Problem(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    plan = RoundPlan(
        0, wish.rewrites, wish.variants, wish.tunes, wish.crossovers, wish.flags, wish.edits, wish.transplants,
        wish.simplifications,
    )  # fmt: skip
    return Advice(plan, one_line(wish.stop or "", 160))


def plan_text(plan: RoundPlan) -> str:
    return (
        f"{plan.rewrites} rewrites of {plan.variants} variants each, {plan.tunes} tunes, "
        f"{plan.crossovers} crossovers, {plan.flags} flags, {plan.edits} edits, {plan.transplants} transplants, "
        f"{plan.simplifications} simplifications"
    )
