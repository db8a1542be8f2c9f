"""Retrieval for one run, besides the situation: passages of the knowledge base, exemplars and lessons of an archive.

It serves one run. A run that was killed must ask its models the same questions when it is resumed, so what is told is
what the archive held when the run began, plus what this run itself learnt since, in its own order. Everything learnt
goes into the archive at once, for later runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..archive import Archive
from ..records import Lesson, Region, Unit
from .exemplars import exemplars
from .index import Index
from .signature import signature

# A slip of the pen teaches nobody anything: a missing semicolon, a name that was mistyped.
_SLIP = re.compile(
    r"expected '?[;,(){}\]]'? |expected (?:unqualified-id|initializer|primary-expression|declaration)\b|stray |missing terminating|"
    r"did you mean|expected a \"[;,(){}]\"|expected '[;,(){}\]]'"
)
LONGEST_PROBLEM = 300  # characters of a failure that a lesson quotes


@dataclass
class ArchiveRetrieval:
    """`run_id` and `before` (ISO 8601, UTC) are the run's id and when it began; without `before` everything that the
    archive holds is told. `task_id`: exemplars are of other tasks. The switches are for ablations.
    """

    archive: Archive
    run_id: str = ""
    before: str = ""
    task_id: str = ""
    knowledge: bool = True  # passages and exemplars are told
    examples: bool = True  # of these, exemplars
    teach: bool = True  # lessons are told and learnt
    index: Index = field(default_factory=Index)
    _own: dict[tuple[str, str, str], Lesson] = field(
        default_factory=dict
    )  # (signature, target, remedy) → lesson
    _shown: dict[tuple[str, str, int], list[Unit]] = field(default_factory=dict)
    _told: dict[tuple[str, str, str], int] = field(default_factory=dict)  # how many outcomes this run noted

    def passages(self, query: str, target: str, k: int, failure: bool = False) -> list[str]:
        if not self.knowledge:
            return []
        return [f"{p.title}\n{p.text}" for p in self.index.retrieve(query, target, k, failure)]

    def exemplars(self, region: Region, target: str, k: int) -> list[Unit]:
        if not self.knowledge or not self.examples:
            return []
        key = (region.signature, target, k)
        if not self.before or key not in self._shown:  # what was there before this run began does not change
            self._shown[key] = exemplars(self.archive, region, target, k, self.before, self.task_id)
        return list(self._shown[key])

    def lessons(self, failure: str, target: str, k: int) -> list[Lesson]:
        sign = signature(failure)
        if not self.teach or not sign:
            return []
        stored = self.archive.lessons(sign, target, limit=100, before=self.before)
        lessons = {lesson.remedy: lesson for lesson in stored}
        if self.before:
            for (about, of, remedy), lesson_learnt in self._own.items():
                if (about, of) == (sign, target):
                    lessons[remedy] = _sum(lessons.get(remedy), lesson_learnt)
        useful = [lesson for lesson in lessons.values() if lesson.helped >= lesson.failed]
        return sorted(useful, key=lambda one: (one.failed - one.helped, -one.helped))[: max(k, 0)]

    def warnings(self, target: str, k: int) -> list[Lesson]:
        if not self.teach:
            return []
        stored = (one.lesson for one in self.archive.all_lessons(target, self.before))
        lessons = {(lesson.signature, lesson.remedy): lesson for lesson in stored}
        if self.before:
            for (about, of, remedy), lesson_learnt in self._own.items():
                if of == target:
                    lessons[about, remedy] = _sum(lessons.get((about, remedy)), lesson_learnt)
        useful = [lesson for lesson in lessons.values() if lesson.helped >= lesson.failed]
        best: dict[str, Lesson] = {}  # by kind of failure
        for lesson in sorted(useful, key=lambda one: (one.failed - one.helped, -one.helped)):
            best.setdefault(lesson.signature, lesson)
        return list(best.values())[: max(k, 0)]

    def learn(self, failure: str, target: str, remedy: str, candidate: str) -> None:
        """Raises ArchiveError when the archive cannot be written."""
        sign = signature(failure)
        if not self.teach or not sign or not remedy.strip() or is_slip(failure):
            return
        lesson = Lesson(
            signature=sign, target=target, problem=" ".join(failure.split())[:LONGEST_PROBLEM], remedy=remedy,
            candidate=candidate,
        )  # fmt: skip
        self.archive.add_lesson(lesson)
        key = (sign, target, remedy)
        learnt = self._own.get(key)
        if learnt is None or not candidate or learnt.candidate != candidate:
            self._own[key] = _sum(learnt, lesson)

    def note_outcome(self, lesson: Lesson, worked: bool) -> None:
        if not self.teach:
            return
        key = (lesson.signature, lesson.target, lesson.remedy)
        # A resumed run notes its outcomes again in the same order: numbered, each counts once.
        number = self._told[key] = self._told.get(key, 0) + 1
        token = f"{self.run_id}#{number}" if self.run_id else ""
        self.archive.lesson_outcome(*key, worked=worked, candidate=token)
        counts = {"helped": int(worked), "failed": int(not worked)}
        self._own[key] = _sum(self._own.get(key), lesson.model_copy(update=counts))


def is_slip(failure: str) -> bool:
    """Return whether a failure to build is a typing error, whose remedy is of no use to anybody else."""
    plain = failure.translate({ord(c): "'" for c in "‘’`"})
    return failure.startswith("build-failed") and _SLIP.search(plain) is not None


def _sum(one: Lesson | None, other: Lesson) -> Lesson:
    """The first as it reads, with the counts of both."""
    if one is None:
        return other
    return one.model_copy(update={"helped": one.helped + other.helped, "failed": one.failed + other.failed})
