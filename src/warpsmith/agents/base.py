"""What the five agents share: the situation they read, and the brain that answers for each role.

An agent is a small class with typed input and output; it checks and bounds what a brain says. A brain is who thinks: the built-in
expert, or (later) a language model. Each role may have a brain of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..records import (
    Candidate,
    Diagnostic,
    Graph,
    Hypothesis,
    Limit,
    Region,
    RegionProfile,
    Result,
    Task,
    Unit,
)
from .expert.facts import Facts


@dataclass(frozen=True)
class Attempt:
    """One candidate that was judged, and the hypothesis it was to test."""

    candidate: Candidate
    result: Result
    hypothesis: Hypothesis | None = None

    @property
    def speedup(self) -> float:
        """Against the best baseline; 0 for anything that is not a correct, timed candidate."""
        ratio = self.result.speedup
        return ratio.median if self.result.status == "ok" and ratio is not None else 0.0

    def seen(self, unit: Unit) -> RegionProfile | None:
        """What was seen of one of the candidate's units."""
        profile = self.result.profile
        return next((p for p in profile.regions if p.region == unit.region.id), None) if profile else None


@dataclass(frozen=True)
class Situation:
    """All that is known at the start of a round."""

    task: Task
    target: str
    facts: Facts
    limit: Limit
    attempts: tuple[Attempt, ...]
    round: int

    @property
    def graph(self) -> Graph:
        return self.task.graph

    @property
    def best(self) -> Attempt | None:
        return max((a for a in self.attempts if a.speedup > 0), key=lambda a: a.speedup, default=None)


class ReasoningBrain(Protocol):
    def plans(self, graph: Graph, facts: Facts) -> list[tuple[Region, ...]]:
        """Ways to cut the graph into disjoint regions, best first."""
        ...

    def hypotheses(self, situation: Situation, k: int) -> list[Hypothesis]: ...


class SynthesisBrain(Protocol):
    def write_units(self, graph: Graph, hypothesis: Hypothesis, m: int) -> list[Unit]: ...


class CompileBrain(Protocol):
    def repair_build(self, unit: Unit, diagnostics: Sequence[Diagnostic]) -> Unit | None:
        """The unit mended, or None when the diagnostics say nothing that can be mended."""
        ...

    def flag_variants(self, unit: Unit, seen: RegionProfile | None = None) -> list[tuple[str, ...]]:
        """Flags worth a try, the most promising first; `seen`: the unit's profile, where there is one."""
        ...


class CorrectnessBrain(Protocol):
    def review(self, unit: Unit) -> list[str]:
        """Objections that keep the unit from being run at all; empty: none."""
        ...

    def repair_wrong(self, graph: Graph, unit: Unit, rule: str, family: str) -> Hypothesis | None:
        """A safer hypothesis for a unit that gave wrong bytes."""
        ...


class Brain(ReasoningBrain, SynthesisBrain, CompileBrain, CorrectnessBrain, Protocol):
    """One that can play every role."""
