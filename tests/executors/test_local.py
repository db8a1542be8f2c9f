"""The executor hands on what the judge says, with what can be seen of the libraries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from warpsmith.executors.local import LocalExecutor
from warpsmith.profile import code_profile
from warpsmith.profile.disassembly import Disassembly, count_widths
from warpsmith.records import Build, Candidate, Profile, RegionProfile, Result, Unit
from warpsmith.testing import chain_graph, chain_region, scripted_result


class FakeJudge:
    """A correct result with a profile for each candidate."""

    def evaluate(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            yield self.confirm(candidate)

    def confirm(self, candidate: Candidate) -> Result:
        (unit,) = candidate.units
        seen = RegionProfile(
            region=unit.region.id, seconds=1e-3, least_bytes=1, flops=1, limit_share=0.5, bottleneck="memory",
            register_bits=256,
        )  # fmt: skip
        build = Build(unit_key=unit.code_key, variant="main", ok=True, library="unit.so")
        return scripted_result(candidate, 0.9).model_copy(
            update={"builds": (build,), "profile": Profile(regions=(seen,))}
        )


def test_profiles_are_completed_in_search_and_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "   0:\tvaddps %ymm0,%ymm1,%ymm2\n   4:\tvaddss %xmm0,%xmm1,%xmm2\n"
    monkeypatch.setattr(
        code_profile, "disassemble", lambda library: Disassembly(count_widths(code), ("expf", "memcpy"))
    )
    region = chain_region(chain_graph(), 0, 0)
    candidates = [
        Candidate(task_id="t", target="cpu", units=(Unit(region=region, language="c++", source=f"// {i}"),))
        for i in range(2)
    ]
    executor = LocalExecutor(FakeJudge())  # type: ignore[arg-type]
    results = [*executor.run(candidates), executor.confirm(candidates[0])]
    assert [r.candidate_id for r in results] == [c.id for c in (*candidates, candidates[0])]
    for result in results:
        assert result.profile is not None
        (seen,) = result.profile.regions
        assert (seen.vector_bits, seen.vector_share, seen.calls) == (256, 0.5, ("expf",))
        Result.model_validate_json(result.model_dump_json())  # as the archive reads it back
    assert executor.spent["judging"] > 0
    assert executor.spent["confirmation"] > 0
