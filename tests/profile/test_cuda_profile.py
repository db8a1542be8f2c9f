"""CUDA units under compute-sanitizer and ncu. Building the harness needs the toolkit; running it, a GPU."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from made import HEAD, Made, Make

from warpsmith import machine
from warpsmith.errors import ToolchainError
from warpsmith.judge.device.device_lock import DeviceLock
from warpsmith.processes.buffers import Scratch
from warpsmith.profile import ncu
from warpsmith.profile.harness import Call, cuda_harness
from warpsmith.profile.sanitizer import (
    CUDA_TOOLS,
    ComputeSanitizer,
    Finding,
    PreparedCall,
    SanitizerReport,
    prepare_calls,
    sanitize,
)
from warpsmith.profile.tool_run import ToolRun, run_tool
from warpsmith.records import Candidate
from warpsmith.targets.cuda import CudaTarget
from warpsmith.targets.cuda_toolkit import Toolkit, toolkit

needs_gpu = pytest.mark.skipif(machine.gpu() is None, reason="no NVIDIA GPU")
KERNELS = {
    "honest": "if (i < n) out[i] = 2 * in[i];",
    "memcheck": "if (i < n) out[i] = 2 * in[i + 1];",
    "racecheck": "__shared__ float s[256]; s[0] = in[i < n ? i : 0]; if (i < n) out[i] = s[0] + s[threadIdx.x / 32];",
    "initcheck": "if (i < n) out[i] = in[i] + work[i];",
    "synccheck": "if (threadIdx.x < 17) __syncthreads(); if (i < n) out[i] = in[i];",
}
UNIT = """\
#define WORKSPACE_BYTES (1 << 20)
{head}
__global__ void scale(const float* in, float* out, const float* work, int64_t n) {{
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  {body}
}}
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {{
  scale<<<(unsigned)((in0_numel + 255) / 256), 256, 0, (cudaStream_t)stream>>>(in0, out0, (const float*)workspace, in0_numel);
}}
"""


@pytest.fixture(scope="module")
def kit() -> Toolkit:
    try:
        return toolkit()
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cuda(kit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> CudaTarget:
    return CudaTarget(tmp_path_factory.mktemp("cuda"))


def cuda_unit(make: Make, kind: str) -> Made:
    made = make("", shapes=((4, 250), (3, 37)), language="cuda")
    source = UNIT.format(head=HEAD, body=KERNELS[kind])
    unit = made.unit.model_copy(update={"source": source})
    candidate = Candidate(task_id=made.task.id, target="cuda", units=(unit,))
    return Made(made.task, candidate, made.evidence)


def sanitized(made: Made, cuda: CudaTarget, scratch: Scratch) -> SanitizerReport:
    return sanitize(
        made.candidate,
        made.task,
        cuda,
        made.evidence,
        scratch=scratch,
        cache_dir=cuda.cache.directory,
        seed=1,
    )  # type: ignore[arg-type]


def test_the_harness_builds_without_a_gpu(kit: Toolkit, tmp_path: Path) -> None:
    program = cuda_harness(tmp_path, machine.find_compiler(), kit.include, kit.libraries)
    assert os.access(program, os.X_OK)
    ended = run_tool([str(program)], 30.0)
    assert (ended.code, "too few arguments" in ended.output) == (2, True), ended.output


@pytest.mark.parametrize("kind", sorted(KERNELS))
def test_the_units_of_these_tests_build(kind: str, make: Make, cuda: CudaTarget) -> None:
    made = cuda_unit(make, kind)
    for variant in made.task.variants:
        build = cuda.build(made.unit, variant.graph, variant.name)
        assert build.ok, build.diagnostics


def test_without_compute_sanitizer_the_reason_is_given(
    make: Make, cuda: CudaTarget, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = shutil.which
    hidden = "compute-sanitizer"
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name == hidden else which(name, **more))
    found = sanitized(cuda_unit(make, "honest"), cuda, scratch)
    assert found.ran == ()
    assert "compute-sanitizer is not installed" in found.not_available[0]


def test_a_tool_runs_once_on_all_units_and_again_on_each_only_to_tell_which(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tools' processes are played: memcheck finds fault with the ragged shape, the others with none."""
    made, asked = cuda_unit(make, "memcheck"), []
    report = "========= Invalid __global__ read of size 4 bytes\n=========     at scale(float *)+0x90 in unit.cu:3\n"

    def run(self: ComputeSanitizer, name: str, prepared: Sequence[PreparedCall]) -> ToolRun:
        assert self._device_lock._exclusive, "nobody else may have the device meanwhile"
        asked.append((name, [p.variant for p in prepared]))
        wrong = name == "memcheck" and any(p.variant == "ragged" for p in prepared)
        return ToolRun(code=86 if wrong else 0, output=report if wrong else "", seconds=0.1)

    monkeypatch.setattr(ComputeSanitizer, "_run", run)
    tools = object.__new__(ComputeSanitizer)
    tools._device_lock, tools.cuobjdump = DeviceLock(), None
    call = Call(Path("unit.so"), Path("values"), (), ())
    prepared = [PreparedCall(made.unit, made.task.graph, variant, call) for variant in ("main", "ragged")]
    found = list(tools.check(prepared))
    assert [(f.tool, f.variant) for f in found if isinstance(f, Finding)] == [("memcheck", "ragged")]
    assert len(found) == 1
    together = [(name, ["main", "ragged"]) for name in sorted(CUDA_TOOLS)]
    assert sorted(asked[: len(CUDA_TOOLS)]) == together
    assert sorted(asked[len(CUDA_TOOLS) :]) == [("memcheck", ["main"]), ("memcheck", ["ragged"])]


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kind", sorted(KERNELS))
def test_compute_sanitizer_on_a_gpu(kind: str, make: Make, cuda: CudaTarget, scratch: Scratch) -> None:
    found = sanitized(cuda_unit(make, kind), cuda, scratch)
    assert set(found.ran) == set(CUDA_TOOLS), found
    if kind == "honest":
        assert found.ok, found.findings
    else:
        assert kind in {f.tool for f in found.findings}, found


@pytest.mark.gpu
@needs_gpu
def test_ncu_counts_on_a_gpu(make: Make, cuda: CudaTarget, kit: Toolkit, scratch: Scratch) -> None:
    made = cuda_unit(make, "honest")
    program = cuda_harness(cuda.cache.directory, machine.find_compiler(), kit.include, kit.libraries)
    made_calls = prepare_calls(made.candidate, made.task, cuda, made.evidence, scratch, 1, ("main",))  # type: ignore[arg-type]
    for _, _, _, call in made_calls:
        found = ncu.observe(call.command(program, 1))
        if not found.available and "ERR_NVGPUCTRPERM" in found.reason:
            pytest.skip(found.reason)
        assert found.available, found.reason
        assert found.metrics["registers per thread, scale"] > 0, found.metrics
        assert found.metrics["time ns, scale"] > 0
