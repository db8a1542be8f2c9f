"""Widths are those of the innermost loops; the code profiler completes a profile once for each unit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made import Make

from warpsmith.profile import code_profile as module
from warpsmith.profile.code_profile import CodeProfiler
from warpsmith.profile.disassembly import Disassembly, count_widths, disassemble
from warpsmith.records import Build, Candidate, Profile, RegionProfile, Result
from warpsmith.targets.cpu import CpuTarget
from warpsmith.testing import scripted_result

LOOPS = """
0000000000001000 <unit>:
    1000:\tvmulss %xmm0,%xmm1,%xmm2
    1004:\tvmulss %xmm0,%xmm1,%xmm2
    1008:\tvaddps %zmm0,%zmm1,%zmm2
    100e:\tadd    $0x40,%rax
    1012:\tjne    1008 <unit+0x8>
    1014:\tvdivss %xmm0,%xmm1,%xmm2
    1018:\tcmp    %rdx,%rcx
    101b:\tjb     1004 <unit+0x4>
    101d:\tjmp    1000 <unit>
    1020:\tjae    400 <unit.cold>
    1026:\tret
"""
SCALE = "for (int64_t i = 0; i < in0_numel; i++) out0[i] = 2 * in0[i] + 1;"
CALLS = "for (int64_t i = 0; i < in0_numel; i++) out0[i] = __builtin_tgammaf(in0[i]);"
Tool = Callable[..., Path]


def test_only_innermost_loops_count() -> None:
    assert count_widths(LOOPS) == {"512-bit": 1}
    straight = LOOPS.replace("jne ", "nop ").replace("jb ", "nop ")
    assert count_widths(straight) == {"512-bit": 1, "scalar": 3}


def test_the_width_is_where_most_of_the_work_is() -> None:
    found = Disassembly(count_widths(LOOPS) + count_widths(LOOPS.replace("zmm", "ymm")), ())
    assert found.vector_bits(512) == 512
    assert found.vector_share == 1.0
    scalar = Disassembly(count_widths("   0:\tvmulss %xmm0,%xmm1,%xmm2\n"), ())
    assert (scalar.vector_bits(512), scalar.vector_share) == (0, 0.0)
    assert Disassembly(count_widths(""), ()).vector_share is None
    assert Disassembly(count_widths("   0:\tfadd   z0.s, z1.s, z2.s\n"), ()).vector_bits(256) == 256


def judged(candidate: Candidate, build: Build) -> Result:
    seen = RegionProfile(
        region=candidate.units[0].region.id, seconds=1e-3, least_bytes=1, flops=1, limit_share=0.5,
        bottleneck="memory", threads=2, balance=0.9, register_bits=512,
    )  # fmt: skip
    result = scripted_result(candidate, 1.5)
    return result.model_copy(update={"builds": (build,), "profile": Profile(regions=(seen,))})


def test_code_profiler_reads_the_widths_and_calls_of_a_real_unit(make: Make, target: CpuTarget) -> None:
    code_profiler, shares = CodeProfiler(), []
    for body in (SCALE, CALLS):
        made = make(body)
        build = target.build(made.unit, made.task.graph, "main")
        assert build.ok, build.diagnostics
        profile = code_profiler.complete(judged(made.candidate, build), made.candidate).profile
        assert profile is not None
        (seen,) = profile.regions
        assert seen.missing == ()
        assert (seen.seconds, seen.balance) == (1e-3, 0.9)
        shares.append((seen.vector_bits > 0, seen.calls))
    assert shares[0] == (True, ())
    assert shares[1][1] == ("tgammaf",)


def test_a_unit_is_disassembled_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(module, "disassemble", lambda library: asked.append(library) or "no objdump")
    made = make(SCALE)
    build = Build(unit_key=made.unit.code_key, variant="main", ok=True, library="a.so")
    ragged = build.model_copy(update={"variant": "ragged", "library": "b.so"})
    result, code_profiler = judged(made.candidate, build), CodeProfiler()
    result = result.model_copy(update={"builds": (build, ragged)})
    for _ in range(2):
        profile = code_profiler.complete(result, made.candidate).profile
        assert profile is not None
        assert profile.regions[0].missing == ("width of the instructions: no objdump",)
    assert asked == ["a.so"]


def test_results_without_a_profile_are_left_as_they_are(make: Make) -> None:
    made = make(SCALE)
    for outcome in (1.5, "incorrect"):
        result = scripted_result(made.candidate, outcome)
        assert CodeProfiler().complete(result, made.candidate) == result


def test_a_tool_that_fails_is_told(tool: Tool) -> None:
    tool("objdump", "objdump: file format not recognized\n", 1)
    assert disassemble("/nowhere/unit.so") == "objdump ended with exit code 1"
