"""The context that the roles of one run share, and the words in which they tell a model of lessons and knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...facts import Facts
from ...llm.chat import Chat
from ...records import Exchange, Lesson, Region, Task, Unit
from ...targets.target import Target
from .answers import Language
from .memory import Memory
from .prompts import bullets, fence
from .telling import machine_text

LESSONS, PASSAGES, EXEMPLARS = 3, 3, 2
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

    def header(self, region: Region) -> str:
        return fence(self.target.header(self.task.graph, region), "cpp")

    def machine(self, facts: Facts) -> str:
        return machine_text(self.target.name, facts, getattr(self.target, "arch", ""))

    def knowledge(self, query: str) -> str:
        return "\n\n".join(self.memory.retrieval.passages(query[:2000], self.target.name, PASSAGES))

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
