"""The reasoning role played by a model: what was measured and tried → several different hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import TaskError
from ...facts import Facts
from ...records import Graph, Hypothesis, Region
from ...tasks.regions import make_region
from ..base import ReasoningBrain, Situation
from ..expert.brain import ExpertBrain
from ..failures import failure_of
from ..reasoning import idea_key
from . import telling
from .answers import Problem, one_line, read_json
from .context import Context, lessons_text, problems_text
from .prompts import bullets
from .run_text import has_header
from .talk import converse

MOST = 6  # hypotheses that are asked for at once
OFFERS = 12  # of the expert that are told
RECENT = 4  # failures whose lessons are told


class Idea(BaseModel):
    """A hypothesis as a model words it."""

    model_config = ConfigDict(extra="ignore")

    region: int | list[str]
    family: str = Field("llm", max_length=200)
    technique: str = Field(min_length=1, max_length=2000)
    bottleneck: Literal["memory", "compute", "overhead", "latency", "unknown"] = "unknown"
    expected_gain: float = Field(1.1, gt=0, lt=1e6, allow_inf_nan=False)
    evidence: list[str] = Field(default_factory=list, max_length=40)
    values: dict[str, int] = Field(default_factory=dict, max_length=20)


class LlmReasoning:
    """`only_offers`: whoever writes the units is the expert, so that only what it offers can be proposed."""

    def __init__(self, context: Context, only_offers: bool = False) -> None:
        self.context, self.only_offers = context, only_offers
        self._expert: ReasoningBrain = ExpertBrain()

    def plans(self, graph: Graph, facts: Facts) -> list[tuple[Region, ...]]:
        """Return the expert's plans: cutting a graph needs no model."""
        return self._expert.plans(graph, facts)

    def hypotheses(self, situation: Situation, k: int) -> list[Hypothesis]:
        self.context.memory.settle()
        self.context.begin(situation)
        k = min(k, MOST)
        regions = self.context.regions
        offers = self._offers(situation)
        if not regions or (self.only_offers and not offers):
            return []
        system, prompt = self._prompt(situation, regions, offers, k)
        context = self.context
        talk = converse(
            context.chat, "reasoning", system, prompt, lambda text: self._read(text, situation, regions, offers)
        )  # fmt: skip
        if talk.value is None:
            context.memory.useless(context.chat, talk.exchanges, f"hypotheses: {talk.problem}")
            return []
        ideas, dropped = talk.value
        if dropped:
            context.memory.dropped += len(dropped)
            context.memory.problems.append(f"hypotheses: {len(dropped)} of a list: {dropped[-1]}")
        return ideas[:k]

    def _offers(self, situation: Situation) -> list[Hypothesis]:
        """List what the expert would try on this target."""
        if situation.facts.target != self.context.target.name and not self.only_offers:
            return []
        return self._expert.hypotheses(situation, OFFERS)

    def _prompt(
        self, situation: Situation, regions: Sequence[Region], offers: Sequence[Hypothesis], k: int
    ) -> tuple[str, str]:
        graph, facts, memory = situation.graph, situation.facts, self.context.memory
        failures = [failure_of(a.result) for a in situation.attempts if not a.result.passed][-RECENT:]
        return self.context.render(
            "reasoning", round=str(situation.round), k=str(k), goal=self.context.goal(situation),
            time=telling.time_text(graph, facts, situation.limit),
            offers=self._offers_text(offers, regions), best=telling.best_text(situation),
            profile=self.context.profile(situation.best), history=telling.history_text(situation.attempts),
            problems=problems_text(memory), lessons=lessons_text(self.context.lessons(failures)),
        )  # fmt: skip

    def _offers_text(self, offers: Sequence[Hypothesis], regions: Sequence[Region]) -> str:
        number = {region.id: str(i) for i, region in enumerate(regions)}
        lines = [
            f"region {number[o.region.id]}, family {o.family}, technique {o.technique} ({o.bottleneck}-bound, "
            f"promises {o.expected_gain:.2f}x)"
            for o in offers
            if o.region.id in number
        ]
        offer_lines = (
            "Only these can be written in this run: name family and technique exactly.\n"
            if self.only_offers
            else ""
        )
        return offer_lines + bullets(lines) if lines else ""

    def _read(
        self, text: str, situation: Situation, regions: Sequence[Region], offers: Sequence[Hypothesis]
    ) -> tuple[list[Hypothesis], list[str]]:
        """Usable hypotheses, and why others were not. Raises Problem when none is."""
        items = read_json(text, list)
        ideas: list[Hypothesis] = []
        dropped: list[str] = []
        tried = {idea_key(a.hypothesis) for a in situation.attempts if a.hypothesis is not None}
        for item in items[: 4 * MOST]:
            try:
                idea = self._hypothesis(item, situation.graph, regions, offers)
                if idea_key(idea) in tried:
                    raise Problem(
                        f"'{idea.technique}' was tried on that region already: name another technique"
                    )
                ideas.append(idea)
            except Problem as why:
                dropped.append(str(why))
        if not ideas:
            raise Problem(f"no usable hypothesis: {dropped[-1] if dropped else 'the list is empty'}")
        return ideas, dropped

    def _hypothesis(
        self, item: Any, graph: Graph, regions: Sequence[Region], offers: Sequence[Hypothesis]
    ) -> Hypothesis:
        try:
            idea = Idea.model_validate(item)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise Problem(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        region = self._region(idea.region, graph, regions)
        family = one_line(idea.family, 40).split(" ")[0] or "llm"
        technique = one_line(idea.technique, 100)
        evidence = tuple(line for e in idea.evidence[:8] if (line := one_line(e, 300)))
        if self.only_offers:
            return _make_hypothesis(offers, region, family, technique, evidence, idea.expected_gain)
        return Hypothesis(
            region=region, family=family, technique=technique, bottleneck=idea.bottleneck,
            expected_gain=idea.expected_gain, evidence=evidence,
            values={one_line(k, 40): v for k, v in idea.values.items() if abs(v) < 1 << 31},
        )  # fmt: skip

    def _region(self, named: int | list[str], graph: Graph, regions: Sequence[Region]) -> Region:
        if isinstance(named, int):
            if 0 <= named < len(regions):
                return regions[named]
            raise Problem(f"there is no region {named}")
        try:
            region = make_region(graph, named[: len(graph.nodes)])
        except TaskError as error:
            raise Problem(one_line(str(error), 200)) from None
        if not has_header(self.context.task.graph, self.context.target, region):
            raise Problem("a kernel cannot take the types of that region")
        return region


def _make_hypothesis(
    offers: Sequence[Hypothesis], region: Region, family: str, technique: str, evidence: tuple[str, ...], gain: float
) -> Hypothesis:  # fmt: skip
    """The expert's hypothesis that a model named, argued as the model argues it."""
    for offer in offers:
        if (offer.region.id, offer.family, offer.technique) == (region.id, family, technique):
            return offer.model_copy(
                update={"evidence": (*evidence, *offer.evidence)[:8], "expected_gain": gain}
            )
    raise Problem(f"family {family}, technique {technique} is not on offer for that region")
