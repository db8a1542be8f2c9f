"""What can be seen of every judged candidate at little cost: how wide its units' instructions are and what
they call.

In: a correct result, with the profile that the judge made of its units' times. Out: the same result, its
profile completed. Each unit is disassembled once, whoever carries it. What cannot be seen is said, with the
reason.
"""

from __future__ import annotations

import re

from ..records import Build, Candidate, RegionProfile, Result
from .disassembly import Disassembly, disassemble

# OpenMP, memory and the allocator are called once for many numbers; what else is called is called for each.
_BULK = re.compile(r"^(G?OMP_|omp_|__kmpc_|mem|free$|calloc$)", re.IGNORECASE)


class Glance:
    """Keeps what it saw, by `Unit.code_key`, for as long as it lives: a run."""

    def __init__(self) -> None:
        self._seen: dict[str, Disassembly | str] = {}

    def complete(self, result: Result, candidate: Candidate) -> Result:
        """Unchanged when there is no profile to complete."""
        profile = result.profile
        if result.status != "ok" or profile is None:
            return result
        keys = {u.region.id: u.code_key for u in candidate.units}
        builds = {b.unit_key: b for b in reversed(result.builds) if b.ok}  # the first is the main variant's
        regions = tuple(self._region(r, builds.get(keys.get(r.region, ""))) for r in profile.regions)
        return result.model_copy(update={"profile": profile.model_copy(update={"regions": regions})})

    def _region(self, seen: RegionProfile, build: Build | None) -> RegionProfile:
        missing = [*seen.missing]
        if seen.balance is None and seen.threads > 1:
            missing.append("balance of the threads: the call is too short, or the kernel keeps no account")
        if build is None or seen.register_bits == 0:  # a GPU's resources are in its build
            return seen.model_copy(update={"missing": tuple(missing)})
        found = self._disassembled(build)
        if isinstance(found, str):
            return seen.model_copy(update={"missing": (*missing, f"width of the instructions: {found}")})
        return seen.model_copy(
            update={
                "vector_bits": found.vector_bits(seen.register_bits),
                "vector_share": found.vector_share,
                "calls": tuple(name for name in found.called if not _BULK.match(name)),
                "missing": tuple(missing),
            }
        )

    def _disassembled(self, build: Build) -> Disassembly | str:
        if build.unit_key not in self._seen:
            self._seen[build.unit_key] = disassemble(build.library)
        return self._seen[build.unit_key]
