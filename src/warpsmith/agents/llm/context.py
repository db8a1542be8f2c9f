"""The context that the roles of one run share, and the words in which they tell a model of lessons and knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...facts import Facts
from ...llm.chat import Chat
from ...records import Exchange, Lesson, Region, Task, Unit
from ...targets.target import Target
from ..base import Attempt, Situation
from .answers import Language
from .memory import Memory
from .prompts import bullets, fence, render
from .run_text import describe_run, list_headers, list_regions
from .telling import goal_text, profile_text, unit_profile_text

LESSONS, EXEMPLARS = 3, 2
MORE_PASSAGES = 2  # of a question, besides those that all questions of the run begin with
MAX_UNIT_CHARACTERS = 24_000  # characters of a unit that are told


@dataclass(frozen=True)
class Context:
    """`chat` is of one role; the rest is the run's."""

    chat: Chat
    task: Task
    target: Target
    memory: Memory

    @property
    def language(self) -> Language:
        return "cuda" if self.target.language == "cuda" else "c++"

    def render(self, name: str, **values: str) -> tuple[str, str]:
        """(system, prompt) of a question."""
        return render(name, target=self.target.name, run=self.run_text, **values)

    def begin(self, situation: Situation) -> None:
        """Take the facts of the first situation, where nobody gave any."""
        if self.memory.facts is None:
            self.memory.facts = situation.facts

    @property
    def regions(self) -> list[Region]:
        """The regions on offer, the same in the whole run."""
        memory = self.memory
        if memory.regions is None:
            facts = memory.facts or Facts(threads=0, target=self.target.name)
            memory.regions = list_regions(self.task.graph, self.target, facts)
        return memory.regions

    @property
    def run_text(self) -> str:
        memory = self.memory
        if memory.run_text is None:
            memory.run_text = describe_run(
                self.task, self.target, memory.facts, self.regions, memory.retrieval, memory.tells_examples
            )
        return memory.run_text

    def header(self, region: Region) -> str:
        """The header of a region; empty where every question begins with it."""
        if region.id in list_headers(self.task.graph, self.target, self.regions):
            return ""
        return fence(self.target.header(self.task.graph, region), "cpp")

    def profile(
        self, attempt: Attempt | None, unit: Unit | None = None, parent: Attempt | None = None
    ) -> str:
        """Tell what was measured of a candidate's units, or of one, beside its parent's; empty where profiles are not told."""
        if not self.memory.tells_profiles or attempt is None:
            return ""
        return unit_profile_text(attempt, unit, parent) if unit is not None else profile_text(attempt)

    def goal(self, situation: Situation | None) -> str:
        """Tell what is to be reached, and what is left to reach it with."""
        return goal_text(situation) if situation is not None else ""

    def more_knowledge(self, query: str, failure: bool = False) -> str:
        """Pages on this question that the run's own do not hold."""
        passages = self.memory.retrieval.passages(query[:2000], self.target.name, 2 * MORE_PASSAGES, failure)
        fresh = [p for p in passages if p not in self.run_text]
        return "\n\n".join(fresh[:MORE_PASSAGES])

    def exemplars(self, region: Region) -> str:
        return "\n\n".join(
            unit_text(u) for u in self.memory.retrieval.exemplars(region, self.target.name, EXEMPLARS)
        )

    def lessons(self, failures: Sequence[str]) -> list[Lesson]:
        return self.memory.lessons(failures, LESSONS) if failures else []

    def warnings(self, failures: Sequence[str]) -> list[Lesson]:
        """For whoever writes anew: also of other runs, so that their mistakes are not made again here first."""
        return self.memory.warnings(failures, LESSONS)


def lessons_text(lessons: Sequence[Lesson]) -> str:
    return "\n\n".join(f"Failure: {x.problem}\nWhat ended it:\n{fence(x.remedy, 'diff')}" for x in lessons)


def problems_text(memory: Memory) -> str:
    return bullets(tuple(memory.problems))


def unit_text(unit: Unit) -> str:
    return fence(unit.text[:MAX_UNIT_CHARACTERS], "cpp")


def adopt(
    context: Context, failing: Unit, repaired: Unit, failure: str, lessons: Sequence[Lesson], exchanges: tuple[Exchange, ...]
) -> Unit:  # fmt: skip
    """Credit and remember a repaired unit. Family and technique that the answer does not name are the failing unit's."""
    unit = repaired.model_copy(
        update={
            "family": repaired.family or failing.family,
            "technique": repaired.technique or failing.technique,
        }
    )
    context.memory.wrote(context.chat, unit, exchanges)
    context.memory.note_repair(failing, unit, failure, lessons)
    return unit
