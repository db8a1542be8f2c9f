"""The parts that the five agents share: the situation they read, and the brain that answers for each role.

An agent is a small class with typed input and output; it checks and bounds what a brain says. A brain is who thinks: the built-in
expert, or a language model. Each role may have a brain of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from ..facts import Facts
from ..records import (
    Candidate,
    Diagnostic,
    Graph,
    Hypothesis,
    Limit,
    Ratio,
    Region,
    RegionProfile,
    Result,
    Task,
    Unit,
)
from ..records.intervals import find_worth
from .findings import BEATEN

NOTE = "its author: "  # how what an author said of a unit begins in the reason of a lineage


@dataclass(frozen=True)
class Attempt:
    """One candidate that was judged, or screened only, and the hypothesis it was to test."""

    candidate: Candidate
    result: Result
    hypothesis: Hypothesis | None = None

    @property
    def screened(self) -> bool:
        """True if it passed screening and has no verdict: what is said of its speed is an estimate, for nobody outside the search."""
        return self.result.status == "screened"

    @property
    def ratio(self) -> Ratio | None:
        """The speedup against the best baseline; of a screened candidate the estimate of it; None for a failure."""
        return self.result.promise

    @property
    def speedup(self) -> float:
        """The median of `ratio`; 0 for a failure."""
        return self.ratio.median if self.ratio is not None else 0.0

    def scale_estimate(self, factor: float) -> Attempt:
        """Copy it for a baseline that takes so many times as long; itself where it was not only screened."""
        timing = self.result.timing
        if not self.screened or timing is None or timing.estimate is None:
            return self
        scaled = timing.model_copy(update={"estimate": timing.estimate.scale(factor)})
        return replace(self, result=self.result.model_copy(update={"timing": scaled}))

    def restate(self, limit: Limit) -> Attempt:
        """Copy it with its shares by this limit; itself where they are already."""
        result = self.result.restate(limit)
        return self if result is self.result else replace(self, result=result)

    @property
    def worth(self) -> float:
        """The sure part of the speedup, the low end of its interval; 0 for a failure."""
        return find_worth(self.ratio) if self.speedup > 0 else 0.0

    @property
    def rank(self) -> tuple[float, float]:
        """The order of attempts: by what is sure; where nothing is, by the median."""
        return self.worth, self.speedup

    def find_profile(self, unit: Unit) -> RegionProfile | None:
        """Find the profile of one of the candidate's units."""
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
    budget_left: str = ""  # in words, apart from time
    steered: bool = True  # whether regions near their limit are left alone

    @property
    def graph(self) -> Graph:
        return self.task.graph

    @property
    def best(self) -> Attempt | None:
        """The attempt with the highest low end; not the luckiest median. A screened one only where none was judged."""
        working = [a for a in self.attempts if a.speedup > 0]
        return max(working, key=lambda a: (not a.screened, a.rank), default=None)

    @property
    def most_gain(self) -> float:
        """The speedup over the best baseline at the physical limit, which no promise exceeds; infinite where it is not known, or was beaten."""
        timings = [a.result.timing for a in self.attempts if a.speedup > 0 and not a.screened]
        beaten = any(t is not None and t.limit_share > BEATEN for t in timings)
        limit_us = self.limit.seconds * 1e6
        return (
            self.facts.total_us / limit_us
            if limit_us > 0 and self.facts.total_us > 0 and not beaten
            else math.inf
        )


@dataclass(frozen=True)
class RoundPlan:
    """A plan of the built-in rules for a round, or a brain's advice."""

    plans: int  # competing cuts of the graph, first round only
    rewrites: int  # hypotheses
    variants: int  # units a hypothesis
    tunes: int
    crossovers: int
    flags: int
    edits: int = 0  # of single units, by whoever writes units
    transplants: int = 0  # from other tasks
    simplifications: int = 0

    def places(self) -> dict[str, int]:
        """Candidates by operator."""
        return {
            "seed": self.plans * (self.variants + 1), "rewrite": self.rewrites * self.variants, "tune": self.tunes,
            "crossover": self.crossovers, "edit": self.edits + self.flags, "transplant": self.transplants,
            "simplify": self.simplifications,
        }  # fmt: skip

    @property
    def total(self) -> int:
        return sum(self.places().values())


@dataclass(frozen=True)
class Advice:
    """The wishes of an orchestrating brain for the next round; the built-in rules bound it."""

    plan: RoundPlan
    stop: str = ""  # why to stop now; empty: go on


@dataclass
class Credits:
    """Which model wrote a unit, and what that cost, by `Unit.code_key`. What is not in it the expert wrote."""

    models: dict[str, str] = field(default_factory=dict)
    unpaid: dict[str, float] = field(default_factory=dict)  # dollars that no candidate carries yet
    notes: dict[str, str] = field(default_factory=dict)  # what the model said of it

    def add(self, unit: Unit, model: str, usd: float, note: str = "") -> None:
        self.models.setdefault(unit.code_key, model)
        if note:
            self.notes.setdefault(unit.code_key, note)
        self.unpaid[unit.code_key] = self.unpaid.get(unit.code_key, 0.0) + usd

    def sign(self, candidate: Candidate) -> Candidate:
        """The candidate with the model of its new units, and their cost, in its lineage: each cost is carried once."""
        unpaid_keys = [u.code_key for u in candidate.units if u.code_key in self.unpaid]
        if not unpaid_keys:
            return candidate
        usd = sum(self.unpaid.pop(key) for key in dict.fromkeys(unpaid_keys))
        notes = [self.notes[key] for key in dict.fromkeys(unpaid_keys) if key in self.notes]
        update = {
            "model": self.models[unpaid_keys[-1]], "cost_usd": round(usd, 9),
            "reason": "; ".join(filter(None, [candidate.lineage.reason, *(f"{NOTE}{n}" for n in notes)])),
        }  # fmt: skip
        return candidate.model_copy(update={"lineage": candidate.lineage.model_copy(update=update)})


class ReasoningBrain(Protocol):
    def plans(self, graph: Graph, facts: Facts) -> list[tuple[Region, ...]]:
        """Ways to cut the graph into disjoint regions, best first."""
        ...

    def hypotheses(self, situation: Situation, k: int) -> list[Hypothesis]: ...


class SynthesisBrain(Protocol):
    def write_units(
        self, graph: Graph, hypothesis: Hypothesis, m: int, situation: Situation | None = None
    ) -> list[Unit]:
        """At most `m` units for the hypothesis's region; empty when it is not writable. `situation`: what is known so far."""
        ...


@runtime_checkable
class VaryingBrain(Protocol):
    """A brain for synthesis that can also vary units that were judged. Not every one does."""

    def edit_unit(self, situation: Situation, parent: Attempt, unit: Unit, m: int) -> list[tuple[Unit, str]]:
        """At most `m` units that differ a little from one of the parent's, the most promising first, each with why in a line."""
        ...

    def combine_units(
        self, situation: Situation, parents: Sequence[tuple[Attempt, Unit]], m: int
    ) -> list[Unit]:
        """Combine two or more units for the same region, each with its candidate, into at most `m` new ones."""
        ...


class CompileBrain(Protocol):
    def repair_build(self, unit: Unit, diagnostics: Sequence[Diagnostic]) -> Unit | None:
        """Repair the unit; None when the diagnostics say nothing that can be repaired."""
        ...

    def flag_variants(self, unit: Unit, seen: RegionProfile | None = None) -> list[tuple[str, ...]]:
        """Propose flags worth a try, the most promising first; `seen`: the unit's profile, where there is one."""
        ...


class CorrectnessBrain(Protocol):
    def review(self, unit: Unit) -> list[str]:
        """List objections that keep the unit from being run; empty: none."""
        ...

    def repair_wrong(self, graph: Graph, unit: Unit, rule: str, family: str) -> Hypothesis | None:
        """Propose a safer hypothesis for a unit that gave wrong bytes."""
        ...

    def mend(self, unit: Unit, result: Result) -> Unit | None:
        """Repair the fault that a result blames (wrong bytes, a crash, a time-out); None: no way is known."""
        ...


class OrchestratorBrain(Protocol):
    def advise(self, situation: Situation, rules: RoundPlan) -> Advice | None:
        """Advise what the next round should do; `rules`: the plan of the built-in rules. None: as they say."""
        ...


class Brain(ReasoningBrain, SynthesisBrain, CompileBrain, CorrectnessBrain, Protocol):
    """A brain that can play every role."""
