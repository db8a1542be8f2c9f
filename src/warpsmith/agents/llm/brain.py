"""A language model in the agents' roles (`agents.base`): each role is a short module of its own, over one shared memory.

In: a Chat for the role, the run's task, target and memory. Out: hypotheses, units, repairs, objections and advice, all
checked; what cannot be read is dropped and said. Raises what `Chat.ask` raises: BudgetSpent, ModelError.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...facts import Facts
from ...llm.chat import Chat
from ...records import Diagnostic, Graph, Hypothesis, Region, RegionProfile, Result, Task, Unit
from ...targets.target import Target
from ..base import Advice, Attempt, RoundPlan, Situation
from .compile import LlmCompile
from .context import Context
from .correctness import LlmCorrectness
from .memory import Memory
from .orchestrator import LlmOrchestrator
from .reasoning import LlmReasoning
from .synthesis import LlmSynthesis
from .variation import LlmVariation


class LlmBrain:
    """`chat` answers for whatever role is asked. `only_offers`: the expert writes the units of what this brain proposes."""

    def __init__(
        self, chat: Chat, task: Task, target: Target, memory: Memory, only_offers: bool = False
    ) -> None:
        context = Context(chat, task, target, memory)
        self._reasoning = LlmReasoning(context, only_offers)
        self._synthesis = LlmSynthesis(context)
        self._variation = LlmVariation(context)
        self._compile = LlmCompile(context)
        self._correctness = LlmCorrectness(context)
        self._orchestrator = LlmOrchestrator(context)

    def plans(self, graph: Graph, facts: Facts) -> list[tuple[Region, ...]]:
        return self._reasoning.plans(graph, facts)

    def hypotheses(self, situation: Situation, k: int) -> list[Hypothesis]:
        return self._reasoning.hypotheses(situation, k)

    def write_units(
        self, graph: Graph, hypothesis: Hypothesis, m: int, situation: Situation | None = None
    ) -> list[Unit]:
        return self._synthesis.write_units(graph, hypothesis, m, situation)

    def edit_unit(self, situation: Situation, parent: Attempt, unit: Unit, m: int) -> list[tuple[Unit, str]]:
        return self._variation.edit_unit(situation, parent, unit, m)

    def combine_units(
        self, situation: Situation, parents: Sequence[tuple[Attempt, Unit]], m: int
    ) -> list[Unit]:
        return self._variation.combine_units(situation, parents, m)

    def repair_build(self, unit: Unit, diagnostics: Sequence[Diagnostic]) -> Unit | None:
        return self._compile.repair_build(unit, diagnostics)

    def flag_variants(self, unit: Unit, seen: RegionProfile | None = None) -> list[tuple[str, ...]]:
        return self._compile.flag_variants(unit, seen)

    def review(self, unit: Unit) -> list[str]:
        return self._correctness.review(unit)

    def repair_wrong(self, graph: Graph, unit: Unit, rule: str, family: str) -> Hypothesis | None:
        return self._correctness.repair_wrong(graph, unit, rule, family)

    def mend(self, unit: Unit, result: Result) -> Unit | None:
        return self._correctness.mend(unit, result)

    def advise(self, situation: Situation, rules: RoundPlan) -> Advice | None:
        return self._orchestrator.advise(situation, rules)
