"""Each observer on the real thing where this machine has it, and on recorded text where it has not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made import Make

from warpsmith import machine
from warpsmith.processes.buffers import Scratch
from warpsmith.profile import clang_tidy, compiler_report, ncu, roofline
from warpsmith.profile.disassembly import count_widths
from warpsmith.profile.harness import Call, cpu_harness
from warpsmith.profile.tool_run import run_tool
from warpsmith.records import Build, Limit
from warpsmith.records.result import KernelResources
from warpsmith.targets.cpu import CpuTarget

Tool = Callable[..., Path]
LIMIT = Limit(
    seconds=1e-4,
    least_bytes=1_000_000,
    flops=2_000_000,
    bytes_per_second=1e10,
    flops_per_second=1e11,
    bound="memory",
)
SCALE = "for (int64_t i = 0; i < in0_numel; i++) out0[i] = 2 * in0[i] + 1;"
DISASSEMBLY = """
   10:\tvmovups 0x40(%rdi),%zmm1
   12:\tvaddps %zmm0,%zmm1,%zmm2
   14:\tvfmadd213ps %ymm0,%ymm2,%ymm1
   18:\tvaddps %xmm0,%xmm1,%xmm2
   1c:\tvmulss %xmm0,%xmm1,%xmm2
   20:\tmovss  (%rdi),%xmm0
   24:\tcallq  1030 <expf@plt>
   28:\tadd    $0x1,%rax
   2c:\tfmla   v0.4s, v1.4s, v2.4s
   30:\tfadd   z0.s, z1.s, z2.s
"""
NCU = """\
buffer in0 0x7f 400
==PROF== Connected to process 4242 (/tmp/harness)
==PROF== Profiling "softmax_rows" - 0: 0%....50%....100% - 2 passes
==PROF== Disconnected from process 4242
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","4242","harness","127.0.0.1","softmax_rows(const float *, float *)","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0","Command line profiler metrics","dram__bytes.sum","byte","134,217,728"
"0","4242","harness","127.0.0.1","softmax_rows(const float *, float *)","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0","Command line profiler metrics","sm__throughput.avg.pct_of_peak_sustained_elapsed","%","41.25"
"0","4242","harness","127.0.0.1","softmax_rows(const float *, float *)","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0","Command line profiler metrics","launch__registers_per_thread","register/thread","40"
"0","4242","harness","127.0.0.1","softmax_rows(const float *, float *)","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0","Command line profiler metrics","lts__t_sector_hit_rate.pct","%","n/a"
"1","4242","harness","127.0.0.1","softmax_rows(const float *, float *)","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","nsecond","51,200"
"""


def test_roofline_places_a_time_under_the_roof() -> None:
    found = roofline.observe(LIMIT, 2e-4)
    assert found.metrics["attained GB/s"] == pytest.approx(5.0)
    assert found.metrics["share of the limit"] == pytest.approx(0.5)
    assert found.metrics["intensity (operations per byte)"] < found.metrics["ridge (operations per byte)"]
    assert "memory-bound" in found.notes[0]
    assert "below" in found.notes[0]
    assert not roofline.observe(None, 1.0).available
    assert not roofline.observe(LIMIT, 0.0).available


def test_widths_are_counted_by_register() -> None:
    assert count_widths(DISASSEMBLY) == {
        "512-bit": 1, "256-bit": 1, "128-bit": 2, "scalar": 1, "scalable": 1
    }  # fmt: skip


def test_a_vectorised_unit_is_told_from_one_that_is_not(make: Make, target: CpuTarget) -> None:
    shares = []
    for flags in ((), ("-fno-tree-vectorize", "-fno-tree-slp-vectorize")):
        made = make(SCALE)
        unit = made.unit.model_copy(update={"flags": flags})
        build = target.build(unit, made.task.graph, "main")
        found = compiler_report.observe(unit, build)
        assert found.available, found.reason
        assert found.metrics["code bytes"] > 0
        shares.append(found.metrics.get("vector share of floating-point instructions", 0.0))
    assert shares[0] >= 0.5  # the remainder's loop is scalar
    assert shares[1] == 0.0


def test_a_unit_that_calls_a_library_function_says_which(make: Make, target: CpuTarget) -> None:
    made = make("for (int64_t i = 0; i < in0_numel; i++) out0[i] = __builtin_tgammaf(in0[i]);")
    build = target.build(made.unit, made.task.graph, "main")
    assert build.ok, build.diagnostics
    assert "calls tgammaf" in compiler_report.observe(made.unit, build).notes


def test_kernels_of_a_cuda_build_are_reported(make: Make) -> None:
    unit = make(SCALE, language="cuda").unit
    kernel = KernelResources(name="rows", symbol="_Z4rows", arch="sm_90a", registers=40, spill_store_bytes=8)
    build = Build(unit_key="k", variant="main", ok=True, kernels=(kernel,))
    found = compiler_report.observe(unit, build)
    assert found.metrics["registers, rows"] == 40
    assert found.metrics["spill store bytes, rows"] == 8
    assert found.notes[0].startswith("instructions: not available: ")
    assert not compiler_report.observe(unit, build.model_copy(update={"kernels": ()})).available


def test_without_objdump_the_reason_is_given(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = compiler_report.observe(
        make(SCALE).unit, Build(unit_key="k", variant="main", ok=True, library="x")
    )
    assert (found.available, "objdump" in found.reason) == (False, True)


def test_clang_tidy_lines_are_read(make: Make, target: CpuTarget, scratch: Scratch, tool: Tool) -> None:
    made = make(SCALE)
    header, flags = target.header(made.task.graph, made.unit.region), target.flags(made.unit)
    tool("clang-tidy", "/tmp/a/unit.cpp:4:9: warning: narrowing conversion [bugprone-narrowing-conversions]\n"
                       "task.h:4:9: warning: not the unit's [bugprone-x]\n")  # fmt: skip
    found = clang_tidy.observe(made.unit, header, flags, scratch)
    assert found.metrics == {"warnings": 1}
    assert found.notes == ("line 4: narrowing conversion [bugprone-narrowing-conversions]",)
    tool("clang-tidy", "error: no such check\n", 1)
    assert "no such check" in clang_tidy.observe(made.unit, header, flags, scratch).reason
    assert list(scratch.path.iterdir()) == []


def test_without_clang_tidy_the_reason_is_given(
    make: Make, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = clang_tidy.observe(make(SCALE).unit, "", (), scratch)
    assert (found.available, found.reason) == (False, "clang-tidy is not installed")


def test_counters_are_read_by_kernel_and_launch() -> None:
    assert ncu.parse(NCU) == {
        "softmax_rows": {"DRAM bytes": 134217728.0, "SM throughput %": 41.25, "registers per thread": 40.0},
        "softmax_rows #2": {"time ns": 51200.0},
    }
    assert ncu.parse("") == {}


def test_ncu_leaves_the_clocks_alone_and_runs_the_program() -> None:
    command = ncu.command("ncu", ["harness", "unit.so"])
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[-2:] == ["harness", "unit.so"]
    assert set(command[command.index("--metrics") + 1].split(",")) == set(ncu.METRICS)


def test_ncu_is_asked_for_less_where_it_does_not_know_a_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table").write_text(NCU)
    program = tmp_path / "ncu"
    program.write_text(
        '#!/bin/sh\ncase "$*" in *smsp__*) echo "==ERROR== Failed to find metric smsp__x"; exit 1;; esac\n'
        f"cat {tmp_path / 'table'}\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(ncu.shutil, "which", lambda name: str(program))
    observation = ncu.observe(["harness"], "unit")
    assert observation.available, observation.reason
    assert observation.metrics
    assert not any("smsp__" in name for name in ncu.BASIC)


def test_ncu_says_why_it_gives_nothing(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    tool("ncu", "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", 1)
    assert "ERR_NVGPUCTRPERM" in ncu.observe(["harness"]).reason
    tool("ncu", NCU)
    assert ncu.observe(["harness"], "r").metrics["SM throughput %, softmax_rows"] == 41.25
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "not installed" in ncu.observe(["harness"]).reason


def test_the_harness_calls_the_unit_on_its_inputs(make: Make, target: CpuTarget, scratch: Scratch) -> None:
    """A unit that crashes unless its input holds what was given."""
    body = "for (int64_t i = 0; i < in0_numel; i++) { if (in0[i] != (float)i) __builtin_trap(); out0[i] = in0[i]; }"
    made = make(body, shapes=((4, 9),))
    build = target.build(made.unit, made.task.graph, "main")
    specs = [made.task.graph.specs["x"]]
    program = cpu_harness(target.cache.directory, target.compiler, sanitized=False)
    codes = []
    for first in (0, 1):
        import numpy as np

        raw = [np.arange(first, first + 36, dtype=np.float32).view(np.uint8)]
        call = Call.prepare(Path(build.library), raw, specs, specs, scratch.new("call"))
        codes.append(run_tool(call.command(program, 3), 30.0).code)
    assert codes[0] == 0
    assert codes[1] < 0
    assert run_tool([str(program)], 30.0).code == 2
    assert machine.threads() > 0
