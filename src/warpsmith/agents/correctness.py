"""The correctness agent: reviews units before they run, reads failures forensically, proposes a safer way."""

from __future__ import annotations

from dataclasses import dataclass

from ..records import Candidate, Check, Graph, Hypothesis, Result, Unit
from .base import CorrectnessBrain


@dataclass(frozen=True)
class Diagnosis:
    """Which unit went wrong, by which rule, on which inputs, and what to try instead."""

    unit: Unit
    check: Check
    safer: Hypothesis | None


class CorrectnessAgent:
    def __init__(self, brain: CorrectnessBrain) -> None:
        self.brain = brain

    def review(self, candidate: Candidate) -> list[str]:
        return [objection for unit in candidate.units for objection in self.brain.review(unit)]

    def diagnose(self, graph: Graph, candidate: Candidate, result: Result) -> Diagnosis | None:
        """None when the failure names no unit (the whole differs although every unit agrees)."""
        check = result.verdict.failed if result.verdict is not None else None
        if check is None:
            return None
        unit = next((u for u in candidate.units if u.region.id == check.where), None)
        if unit is None:
            return None
        return Diagnosis(unit, check, self.brain.repair_wrong(graph, unit, check.rule, check.family))
