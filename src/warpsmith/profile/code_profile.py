"""`CodeProfiler` adds to every judged candidate's profile how wide its units' instructions are and which functions
they call: cheap enough to do for each.

In: a correct result, with the profile that the judge made of its units' times. Out: the same result, its
profile completed. Each unit is disassembled once, whichever candidates contain it. A value that cannot be read is
named in `missing`, with the reason.
"""

from __future__ import annotations

import re

from ..records import Build, Candidate, RegionProfile, Result
from .disassembly import Disassembly, disassemble

# OpenMP, memory and the allocator are called once for many numbers; what else is called is called for each.
_BULK = re.compile(r"^(G?OMP_|omp_|__kmpc_|mem|free$|calloc$)", re.IGNORECASE)


class CodeProfiler:
    """Caches each disassembly by `Unit.code_key` for the length of a run."""

    def __init__(self) -> None:
        self._disassemblies: dict[str, Disassembly | str] = {}

    def complete(self, result: Result, candidate: Candidate) -> Result:
        """Return the result with its profile completed, or unchanged when it has none."""
        profile = result.profile
        if not result.passed or profile is None:
            return result
        keys = {u.region.id: u.code_key for u in candidate.units}
        builds = {b.unit_key: b for b in reversed(result.builds) if b.ok}  # the first is the main variant's
        regions = tuple(self._complete_region(r, builds.get(keys.get(r.region, ""))) for r in profile.regions)
        return result.model_copy(update={"profile": profile.model_copy(update={"regions": regions})})

    def _complete_region(self, profile: RegionProfile, build: Build | None) -> RegionProfile:
        missing = [*profile.missing]
        if profile.balance is None and profile.threads > 1:
            missing.append("balance of the threads: the call is too short, or the kernel keeps no account")
        if build is None or profile.register_bits == 0:  # a GPU's resources are in its build
            return profile.model_copy(update={"missing": tuple(missing)})
        disassembly = self._disassemble(build)
        if isinstance(disassembly, str):
            return profile.model_copy(
                update={"missing": (*missing, f"width of the instructions: {disassembly}")}
            )
        return profile.model_copy(
            update={
                "vector_bits": disassembly.vector_bits(profile.register_bits),
                "vector_share": disassembly.vector_share,
                "calls": tuple(name for name in disassembly.called if not _BULK.match(name)),
                "missing": tuple(missing),
            }
        )

    def _disassemble(self, build: Build) -> Disassembly | str:
        if build.unit_key not in self._disassemblies:
            self._disassemblies[build.unit_key] = disassemble(build.library)
        return self._disassemblies[build.unit_key]
