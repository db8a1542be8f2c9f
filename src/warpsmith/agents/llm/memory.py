"""The memory of a run for its models: who wrote what, which answers were of no use, and which repairs worked.

In: answers and judged attempts. Out: problems to tell, credits, samples to count, and lessons for the `Retrieval` behind. An
ensemble hears from here what each attempt gained.
"""

from __future__ import annotations

import difflib
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...facts import Facts
from ...records import Exchange, Lesson, Region, Unit
from ..base import Attempt, Credits
from .answers import read_note
from .retrieval import Retrieval

PROBLEMS_TOLD = 6
REMEDY_LINES = 14


class Rewarded(Protocol):
    """A Chat over several models that wants to know what answers were worth."""

    def reward(self, exchanges: Iterable[Exchange], gain: float) -> None: ...


@dataclass(frozen=True)
class Sample:
    """One unit that a model was asked to write: what `translation` counts."""

    round: int
    region: str  # Region id
    unit: str  # Unit.code_key; empty: no usable answer
    first: bool  # the first answer was usable


@dataclass(frozen=True)
class Repair:
    """A unit repaired for a failure, by a model that was told these lessons."""

    failure: str
    lessons: tuple[Lesson, ...]
    failing: Unit


@dataclass
class Memory:
    retrieval: Retrieval
    target: str
    credits: Credits = field(default_factory=Credits)
    samples: list[Sample] = field(default_factory=list)
    problems: deque[str] = field(default_factory=lambda: deque(maxlen=PROBLEMS_TOLD))
    facts: Facts | None = None  # those that the run began with
    tells_examples: bool = True  # the expert's kernels are told
    tells_profiles: bool = True  # what was measured of units is told
    regions: list[Region] | None = None  # on offer in this run
    run_text: str | None = None  # what every question of the run begins with
    dropped: int = 0  # hypotheses of models that could not be used
    _useless: list[tuple[str, tuple[Exchange, ...], object]] = field(default_factory=list)
    _repairs: dict[str, Repair] = field(default_factory=dict)  # by the repaired unit
    _asked: defaultdict[str, list[tuple[Rewarded, tuple[Exchange, ...]]]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by the unit that came of it

    def lessons(self, failures: Sequence[str], k: int) -> list[Lesson]:
        lessons: dict[tuple[str, str], Lesson] = {}
        for failure in failures:
            for lesson in self.retrieval.lessons(failure, self.target, k):
                lessons.setdefault((lesson.signature, lesson.remedy), lesson)
        return list(lessons.values())[:k]

    def warnings(self, failures: Sequence[str], k: int) -> list[Lesson]:
        """Lessons on these failures, then on what went wrong most often in any run."""
        lessons = [*self.lessons(failures, k), *self.retrieval.warnings(self.target, k)]
        return list({(lesson.signature, lesson.remedy): lesson for lesson in lessons}.values())[:k]

    def wrote(self, chat: object, unit: Unit, exchanges: tuple[Exchange, ...]) -> None:
        """A unit came of these exchanges."""
        self.credits.add(
            unit, exchanges[-1].model, sum(e.usd or 0.0 for e in exchanges), read_note(exchanges[-1].answer)
        )
        if hasattr(chat, "reward"):
            self._asked[unit.code_key].append((chat, exchanges))

    def useless(self, chat: object, exchanges: tuple[Exchange, ...], problem: str) -> None:
        """Nothing came of these exchanges, for this reason. Any thread may call: it counts from `settle` on."""
        self._useless.append((problem, exchanges, chat))

    def settle(self) -> None:
        """Take note of what was useless, in an order that does not depend on who was first."""
        useless, self._useless = sorted(self._useless, key=lambda u: (u[0], u[1][0].key)), []
        for problem, exchanges, chat in useless:
            self.problems.append(problem)
            if hasattr(chat, "reward"):
                chat.reward(exchanges, 0.0)

    def note_repair(self, failing: Unit, repaired: Unit, failure: str, lessons: Sequence[Lesson]) -> None:
        self._repairs[repaired.code_key] = Repair(failure, tuple(lessons), failing)

    def observe(self, attempt: Attempt, best_before: float) -> None:
        """Learn from one more judged candidate. `best_before`: what was sure of the best speedup until then, 0 if there was none."""
        self.settle()
        for unit in attempt.candidate.units:
            repair = self._repairs.pop(unit.code_key, None)
            if repair is not None:
                self._learn(repair, unit, attempt)
            for chat, exchanges in self._asked.pop(unit.code_key, ()):
                chat.reward(exchanges, gain_of(attempt, best_before))

    def _learn(self, repair: Repair, repaired: Unit, attempt: Attempt) -> None:
        worked = has_ended(repair.failure, attempt)
        for lesson in repair.lessons:
            self.retrieval.note_outcome(lesson, worked)
        if worked and not repair.lessons:
            remedy = remedy_of(repair.failing, repaired)
            self.retrieval.learn(repair.failure, self.target, remedy, attempt.candidate.id)


def gain_of(attempt: Attempt, best_before: float) -> float:
    """Return what an attempt was worth, from 0 to 1: correct is worth something, faster than all before it more."""
    if attempt.speedup <= 0:
        return 0.0
    return 1.0 if attempt.worth > best_before else 0.3


def has_ended(failure: str, attempt: Attempt) -> bool:
    """Return whether a repair ended its failure: the unit is correct now, or builds where it did not."""
    status = attempt.result.status
    return attempt.result.passed or (
        failure.startswith("build-failed") and status not in ("build-failed", "refused")
    )


def remedy_of(failing: Unit, repaired: Unit) -> str:
    """Return what a repair changed, as a short diff."""
    lines = difflib.unified_diff(failing.source.splitlines(), repaired.source.splitlines(), lineterm="", n=0)
    changed = [line[:160] for line in lines if line[:1] in "+-" and not line.startswith(("+++", "---"))]
    if not changed:
        return f"values {failing.values} became {repaired.values}"
    omitted = [f"… {len(changed) - REMEDY_LINES} more lines"] if len(changed) > REMEDY_LINES else []
    return "\n".join(changed[:REMEDY_LINES] + omitted)
