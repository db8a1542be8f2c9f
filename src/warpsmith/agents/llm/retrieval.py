"""Retrieval for a model, besides the situation: written knowledge, good kernels of other tasks, and what ended failures before.

The port is filled by whoever has an archive and a knowledge base; `NoRetrieval` knows nothing. Every text that comes through it
is put into prompts, so it is bounded there.
"""

from __future__ import annotations

from typing import Protocol

from ...records import Lesson, Region, Unit


class Retrieval(Protocol):
    def passages(self, query: str, target: str, k: int, failure: bool = False) -> list[str]:
        """At most `k` pieces of written knowledge, best first, each with its title as the first line. `failure`: on what went wrong."""
        ...

    def exemplars(self, region: Region, target: str, k: int) -> list[Unit]:
        """At most `k` correct units of other tasks' regions, those of the same signature first."""
        ...

    def lessons(self, failure: str, target: str, k: int) -> list[Lesson]:
        """List what ended failures of this kind, most helpful first.

        `failure` is raw: "stage: message" as the judge said it; names, numbers and paths are taken out inside.
        """
        ...

    def warnings(self, target: str, k: int) -> list[Lesson]:
        """List what went wrong most often, whatever it was, and what ended it: one for each kind of failure."""
        ...

    def learn(self, failure: str, target: str, remedy: str, candidate: str) -> None:
        """A failure (raw, as above) that a repair ended: `remedy` says what was changed, `candidate` is the id that worked."""
        ...

    def note_outcome(self, lesson: Lesson, worked: bool) -> None:
        """Note whether a lesson that was told helped."""
        ...


class NoRetrieval:
    """Knows nothing and learns nothing."""

    def passages(self, query: str, target: str, k: int, failure: bool = False) -> list[str]:
        return []

    def exemplars(self, region: Region, target: str, k: int) -> list[Unit]:
        return []

    def lessons(self, failure: str, target: str, k: int) -> list[Lesson]:
        return []

    def warnings(self, target: str, k: int) -> list[Lesson]:
        return []

    def learn(self, failure: str, target: str, remedy: str, candidate: str) -> None:
        pass

    def note_outcome(self, lesson: Lesson, worked: bool) -> None:
        pass
