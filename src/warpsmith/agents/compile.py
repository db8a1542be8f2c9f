"""The compile agent: a failed or refused build → a repaired candidate, within a bound; flag variants of a built one."""

from __future__ import annotations

from ..records import Candidate, Lineage, RegionProfile, Result, Unit
from .base import CompileBrain

MAX_REPAIRS = 2  # in one line of descent: after two failed repairs the unit is written anew instead


class CompileAgent:
    def __init__(self, brain: CompileBrain) -> None:
        self.brain = brain

    def repair(self, candidate: Candidate, result: Result, repairs: int) -> Candidate | None:
        """Repair every unit whose build failed; return the candidate, or None when one of them cannot be repaired."""
        failed = {b.unit_key: b for b in result.builds if not b.ok}
        if not failed or repairs >= MAX_REPAIRS:
            return None
        units: list[Unit] = []
        for unit in candidate.units:
            repaired = unit
            if unit.code_key in failed:
                answer = self.brain.repair_build(unit, failed[unit.code_key].diagnostics)
                if answer is None:
                    return None
                repaired = answer
            units.append(repaired)
        first = next(iter(failed.values()))
        reason = next((d.message for d in first.diagnostics), "build failed")
        lineage = Lineage(
            parents=(candidate.id,), operator="repair", agent="compile", hypothesis=candidate.lineage.hypothesis,
            reason=f"after: {reason}"[:200], round=candidate.lineage.round, branch=candidate.lineage.branch,
        )  # fmt: skip
        return candidate.model_copy(update={"units": tuple(units), "lineage": lineage})

    def flag_variants(self, unit: Unit, seen: RegionProfile | None = None) -> list[Unit]:
        if not unit.compiled:
            return []
        return [unit.model_copy(update={"flags": flags}) for flags in self.brain.flag_variants(unit, seen)]
