"""The sanitizers with real units and the real compiler: honest ones pass, and each kind of mistake is named."""

from __future__ import annotations

import platform
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from made import Made, Make

from warpsmith import machine
from warpsmith.judge.device.device_lock import DeviceLock
from warpsmith.processes.buffers import Scratch
from warpsmith.profile import sanitizer
from warpsmith.profile.harness import cpu_harness
from warpsmith.profile.sanitizer import Finding, PreparedCall, SanitizerReport, prepare_calls, sanitize
from warpsmith.profile.tool_run import ToolRun, run_tool
from warpsmith.targets.cpu import CpuTarget

COPY = "for (int64_t i = 0; i < in0_numel; i++) out0[i] = in0[i];"
PARALLEL = "#pragma omp parallel for num_threads(THREADS)\n" + COPY
NOT_SMALL = 'static_assert(in0_numel != 32, "requires: another shape");\n'
SIMD = '#include "warpsmith_simd.h"\n'


def run(made: Made, target: CpuTarget, scratch: Scratch) -> SanitizerReport:
    return sanitize(
        made.candidate,
        made.task,
        target,
        made.evidence,
        scratch=scratch,
        cache_dir=target.cache.directory,
        seed=1,
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "head"),
    [
        (PARALLEL, ""),
        (
            "float* sums = (float*)workspace;\nfor (int64_t i = 0; i < in0_numel; i++) { sums[i] = in0[i]; out0[i] = sums[i]; }",
            "#define WORKSPACE_BYTES (in0_numel * 4)\n",
        ),
    ],
)
def test_honest_units_pass(body: str, head: str, make: Make, target: CpuTarget, scratch: Scratch) -> None:
    found = run(make(body, head), target, scratch)
    assert found == SanitizerReport(ran=("address", "undefined"))
    assert found.ok


@pytest.mark.parametrize(
    ("body", "tool", "words"),
    [
        # Its value is never used, so that no comparison of outputs can see it.
        (COPY + "volatile float y = in0[in0_numel]; (void)y;", "address", ["read of 4 bytes", "in0, 0 bytes past its end"]),
        (COPY + "volatile float y = in0[-1]; (void)y;", "address", ["read of 4 bytes", "in0", "before its start"]),
        (COPY + "volatile float y = ((volatile float*)workspace)[0]; (void)y;", "address", ["read of 4 bytes", "workspace"]),
        (COPY + "out0[out0_numel] = 1;", "address", ["write of 4 bytes", "out0, 0 bytes past its end"]),
        (COPY + "((float*)in0)[2] = 1;", "address", ["write", "8 bytes into in0"]),
        (COPY + "volatile int n = 2147483647; n = n + (int)out0_rank; out0[0] = n;", "undefined", ["signed integer overflow"]),
        (COPY + "volatile int n = 40; out0[0] = 1 << n;", "undefined", ["shift exponent 40 is too large"]),
        (COPY + "float few[4]; for (volatile int i = 0; i < 4; i++) few[i] = 1; volatile int j = 9; out0[0] = few[j];", "undefined",
         ["index 9 out of bounds"]),
    ],
)  # fmt: skip
def test_each_mistake_is_named_with_its_line(
    body: str, tool: str, words: list[str], make: Make, target: CpuTarget, scratch: Scratch
) -> None:
    found = run(make(body), target, scratch)
    assert not found.ok
    first = found.findings[0]
    assert (first.tool, first.variant) == (tool, "main")
    assert all(word in first.message for word in words), first.message
    assert "unit.cpp:" in first.message


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 intrinsics")
def test_a_vector_read_past_the_page_is_seen_though_no_value_is_used(
    make: Make, target: CpuTarget, scratch: Scratch
) -> None:
    """Some intrinsics escape AddressSanitizer's instrumentation; the page after the buffer does not let them pass."""
    if machine.simd_level() not in ("avx2", "avx512"):
        pytest.skip("no AVX2 here")
    body = COPY + "volatile __m256 y = _mm256_maskload_ps(in0 + in0_numel, _mm256_set1_epi32(-1)); (void)y;"
    found = run(make(body, "#include <immintrin.h>\n", shapes=((16, 96),)), target, scratch)
    assert [f.tool for f in found.findings] == ["address"], found
    assert "SEGV" in found.findings[0].message
    assert "outside in0, 0 bytes past its end" in found.findings[0].message


def test_a_unit_that_does_not_build_is_said(make: Make, target: CpuTarget, scratch: Scratch) -> None:
    found = run(make("this is no C++"), target, scratch)
    assert found.ran == ()
    assert "builds" in found.not_available[0]


def test_the_harness_runs_units_one_after_the_other(make: Make, target: CpuTarget, scratch: Scratch) -> None:
    """The second's fault is seen, so that one process of a GPU's tool can look at all units."""
    program = cpu_harness(target.cache.directory, target.compiler, sanitized=False)
    arguments = []
    for body in (COPY, COPY + "*(volatile int*)8 = 1;"):
        made = make(body)
        prepared = prepare_calls(made.candidate, made.task, target, made.evidence, scratch, 1, ("main",))  # type: ignore[arg-type]
        arguments += next(iter(prepared)).call.arguments(2)
    ended = run_tool([str(program), *arguments], 60.0)
    assert ended.code == -signal.SIGSEGV
    assert ended.output.count("buffer in0") == 3, ended.output


def test_a_mistake_at_the_ragged_shape_only_is_found_there(
    make: Make, target: CpuTarget, scratch: Scratch
) -> None:
    body = "for (int64_t i = 0; i < in0_numel; i += 4) for (int64_t j = i; j < i + 4; j++) out0[j] = in0[j];"
    found = run(make(body), target, scratch)
    assert {f.variant for f in found.findings} == {"ragged"}


def test_a_unit_that_hangs_is_no_finding_but_said(make: Make, target: CpuTarget, scratch: Scratch) -> None:
    made = make("for (volatile int i = 0;;) i = i;", shapes=((4, 8),))
    found = sanitize(
        made.candidate, made.task, target, made.evidence, scratch=scratch, cache_dir=target.cache.directory,
        seed=1, timeout=1.0,
    )  # type: ignore[arg-type]  # fmt: skip
    assert found.ok
    assert found.ran == ()
    assert "stopped after" in found.not_available[0]


def test_nothing_is_left_in_the_scratch_folder(make: Make, target: CpuTarget, scratch: Scratch) -> None:
    run(make(COPY), target, scratch)
    assert list(scratch.path.iterdir()) == []


def test_a_target_without_sanitizers_says_so(make: Make, target: CpuTarget, scratch: Scratch) -> None:
    class Other:
        name = "other"

    made = make(COPY)
    found = sanitize(
        made.candidate,
        made.task,
        Other(),
        made.evidence,
        scratch=scratch,
        cache_dir=target.cache.directory,
        seed=1,
    )  # type: ignore[arg-type]
    assert found.ran == ()
    assert "other" in found.not_available[0]


def test_a_candidate_without_a_kernel_says_so(make: Make, target: CpuTarget, scratch: Scratch) -> None:
    made = make(COPY)
    bare = replace(made, candidate=made.candidate.model_copy(update={"units": ()}))
    assert run(bare, target, scratch).not_available == ("sanitizers: the candidate has no kernel",)


@pytest.mark.parametrize(
    ("large", "body", "ran", "left_out"),
    [
        (1 << 20, COPY, [["main", "ragged", "small"]], ()),
        (300, COPY, [["small"]], ("ragged", "main")),
        (0, COPY, [["small"]], ("ragged", "main")),
        (0, NOT_SMALL + COPY, [["ragged"]], ("main",)),
    ],
    ids=["all that are small at once", "no large one after a small one", "the smallest", "where it builds"],
)
def test_on_a_gpu_of_large_shapes_only_the_smallest_is_run(
    large: int,
    body: str,
    ran: list[list[str]],
    left_out: tuple[str, ...],
    make: Make,
    target: CpuTarget,
    scratch: Scratch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[list[str]] = []

    class Gpu:
        name, build = "cuda", target.build

    class Tools:
        def __init__(self, *_: object) -> None:
            pass

        def check(self, prepared: Sequence[PreparedCall]) -> Iterator[Finding]:
            found.append([p.variant for p in prepared])
            return iter(())

    monkeypatch.setattr(sanitizer, "ComputeSanitizer", Tools)
    monkeypatch.setattr(sanitizer, "LARGE_BYTES", large)
    made = make(body, shapes=((16, 96), (3, 37), (4, 8)))
    told = sanitize(
        made.candidate, made.task, Gpu(), made.evidence, scratch=scratch, cache_dir=target.cache.directory, seed=1
    )  # type: ignore[arg-type]  # fmt: skip
    assert (found, told.too_large) == (ran, left_out)


def test_a_tool_that_is_not_content_runs_on_each_unit_by_itself_and_racecheck_so_at_once_on_bulk_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A unit with bulk copies, one that reads outside, one that is right."""
    ran: list[tuple[str, tuple[str, ...]]] = []
    bulk = "========= Error: Race reported between Write access at f()+0x10 in unit.cu:1"
    beyond = "========= Invalid __global__ read of size 4 bytes\n=========     at f()+0x20 in unit.cu:2"

    class Tools(sanitizer.ComputeSanitizer):
        def __init__(self) -> None:
            self._device_lock = DeviceLock()

        def _find_bulk_copies(self, library: Path) -> set[int]:
            return {0x10} if library.name == "copies" else set()

        def _run(self, name: str, prepared: Sequence[PreparedCall]) -> ToolRun:
            libraries = tuple(one.call.library.name for one in prepared)
            ran.append((name, libraries))
            if name == "racecheck" and "copies" in libraries:
                return ToolRun(code=sanitizer.ERROR_CODE, output=bulk, seconds=1.0)
            wrong = name == "memcheck" and "reads" in libraries
            return ToolRun(code=sanitizer.ERROR_CODE * wrong, output=beyond * wrong, seconds=1.0)

    def prepared(name: str) -> SimpleNamespace:
        unit = SimpleNamespace(region=SimpleNamespace(id=name))
        return SimpleNamespace(call=SimpleNamespace(library=Path(name)), variant="ragged", unit=unit)

    everywhere = ("copies", "reads", "right")
    told = list(Tools().check([prepared(name) for name in everywhere]))  # type: ignore[misc]
    found = [(f.tool, f.region) if isinstance(f, Finding) else f.partition(":")[0] for f in told]
    assert found == ["racecheck", ("memcheck", "reads")]
    assert sorted(ran) == sorted([
        ("memcheck", everywhere), ("memcheck", ("copies",)), ("memcheck", ("reads",)), ("memcheck", ("right",)),
        ("racecheck", ("copies",)), ("racecheck", ("reads", "right")), ("initcheck", everywhere), ("synccheck", everywhere),
    ])  # fmt: skip
