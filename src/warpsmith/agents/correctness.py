"""The correctness agent: reviews units before they run, reads failures forensically, proposes a safer way."""

from __future__ import annotations

from dataclasses import dataclass

from ..records import Candidate, Check, Graph, Hypothesis, Lineage, Result, Unit
from .base import CorrectnessBrain
from .compile import MAX_REPAIRS
from .failures import failure_of


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
        """Review the units that have a source: the judge's list says what the others may be."""
        return [objection for unit in candidate.compiled for objection in self.brain.review(unit)]

    def diagnose(self, graph: Graph, candidate: Candidate, result: Result) -> Diagnosis | None:
        """Diagnose a wrong result; None when the failure names no unit (the whole differs although every unit agrees)."""
        check = result.verdict.failed if result.verdict is not None else None
        if check is None:
            return None
        unit = next((u for u in candidate.units if u.region.id == check.where), None)
        if unit is None:
            return None
        return Diagnosis(unit, check, self.brain.repair_wrong(graph, unit, check.rule, check.family))

    def mend(self, candidate: Candidate, result: Result, repairs: int) -> Candidate | None:
        """Repair the unit that wrong bytes, a crash or a time-out are blamed on; return the candidate, or None."""
        unit = find_blamed_unit(candidate, result)
        if unit is None or repairs >= MAX_REPAIRS:
            return None
        repaired = self.brain.mend(unit, result)
        if repaired is None or repaired.region != unit.region or repaired.code_key == unit.code_key:
            return None
        old_lineage = candidate.lineage
        lineage = Lineage(
            parents=(candidate.id,), operator="repair", agent="correctness", hypothesis=old_lineage.hypothesis,
            reason=f"after: {failure_of(result)}"[:200], round=old_lineage.round, branch=old_lineage.branch,
        )  # fmt: skip
        units = tuple(repaired if u.code_key == unit.code_key else u for u in candidate.units)
        return candidate.model_copy(update={"units": units, "lineage": lineage})


def find_blamed_unit(candidate: Candidate, result: Result) -> Unit | None:
    """The unit that a check failed in; the only unit, where the judge names none."""
    check = result.verdict.failed if result.verdict is not None else None
    named = next((u for u in candidate.units if check is not None and u.region.id == check.where), None)
    return named or (candidate.units[0] if len(candidate.units) == 1 else None)
