"""Built CUDA units on a real GPU, called as the judge calls them: right numbers, launch errors, machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from cuda_graphs import example, graph_of, region_of

from warpsmith.records import Build, Unit
from warpsmith.targets.cuda import CudaTarget
from warpsmith.targets.sass import disassemble

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]

DTYPES = {
    "float32": (torch.float32, 2e-6),
    "bfloat16": (torch.bfloat16, 8e-3),
    "float16": (torch.float16, 1e-3),
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> CudaTarget:
    return CudaTarget(tmp_path_factory.mktemp("cache"))


def call(build: Build, inputs: list[torch.Tensor], output: torch.Tensor) -> int:
    assert build.ok, build.diagnostics
    library = ctypes.CDLL(build.library)
    library.warpsmith_workspace_bytes.restype = ctypes.c_uint64
    given = (ctypes.c_void_p * len(inputs))(*(t.data_ptr() for t in inputs))
    made = (ctypes.c_void_p * 1)(output.data_ptr())
    size = library.warpsmith_workspace_bytes()
    workspace = torch.empty(max(size, 1), dtype=torch.uint8, device="cuda")
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    encode = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    code = int(library.warpsmith_run(given, made, ctypes.c_void_p(workspace.data_ptr()), stream, encode))
    torch.cuda.synchronize()
    return code


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "shapes", "reference"),
    [
        ("elementwise", [(64, 1000)], lambda x: torch.nn.functional.gelu(x) * 2),
        ("softmax", [(37, 1003)], lambda x: torch.softmax(x, -1)),
        (
            "layernorm",
            [(37, 1003), (1003,), (1003,)],
            lambda x, w, b: torch.layer_norm(x, x.shape[-1:], w, b),
        ),
    ],
)
def test_examples_compute(
    target: CudaTarget,
    name: str,
    shapes: list[tuple[int, ...]],
    reference: Callable[..., torch.Tensor],
    dtype: str,
) -> None:
    kind, tolerance = DTYPES[dtype]
    torch.manual_seed(0)
    inputs = [torch.randn(s, device="cuda").to(kind) for s in shapes]
    output = torch.full(shapes[0], float("nan"), device="cuda", dtype=kind)
    unit, graph = example(name, shapes, dtype)
    assert call(target.build(unit, graph, "main"), inputs, output) == 0
    expected = reference(*(t.double() for t in inputs))
    error = (output.double() - expected).abs().max() / expected.abs().max()
    assert error < tolerance, f"{name} {dtype}: relative error {error:.2e}"


def test_a_failed_launch_is_reported_and_does_not_stick(target: CudaTarget) -> None:
    graph = graph_of([(8, 128)], (8, 128))
    source = """#include "task.h"
__global__ void k(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
static void unit(const in0_t* in0, out0_t* out0, void*, void* stream) {
  k<<<1, 4096, 0, (cudaStream_t)stream>>>(in0, out0);
}
"""
    unit = Unit(region=region_of(graph), language="cuda", source=source)
    x = torch.zeros(8, 128, device="cuda")
    code = call(target.build(unit, graph, "main"), [x], torch.empty_like(x))
    assert code in (1, 9), f"cudaErrorInvalidValue or -Configuration, not {code}"
    assert torch.zeros(4, device="cuda").sum().item() == 0


def test_helpers(target: CudaTarget) -> None:
    """Rows of the output: block sum, block max, warp-merged and block-merged logsumexp, for two block sizes."""
    graph = graph_of([(1024,)], (8,))
    source = """#include "task.h"
#include "warpsmith_cuda.h"
__global__ void k(const float* x, float* y) {
  const float v = x[threadIdx.x];
  const float sum = ws::block_sum(v), max = ws::block_max(v);
  ws::OnlineSoftmax block, warp;
  block.add(v);
  warp.add(v);
  block.block_merge();
  warp.warp_merge();
  if (threadIdx.x == 0) {
    y[0] = sum;
    y[1] = max;
    y[2] = logf(warp.sum) + warp.max;
    y[3] = logf(block.sum) + block.max;
  }
}
static void unit(const in0_t* in0, out0_t* out0, void*, void* stream) {
  k<<<1, 1024, 0, (cudaStream_t)stream>>>(in0, out0);
  k<<<1, 32, 0, (cudaStream_t)stream>>>(in0, out0 + 4);
}
"""
    x = torch.randn(1024, device="cuda") * 20
    y = torch.empty(8, device="cuda")
    unit = Unit(region=region_of(graph), language="cuda", source=source)
    assert call(target.build(unit, graph, "main"), [x], y) == 0
    rows = [
        value
        for n in (1024, 32)
        for value in (x[:n].sum(), x[:n].max(), x[:32].logsumexp(0), x[:n].logsumexp(0))
    ]
    torch.testing.assert_close(y, torch.stack(rows), rtol=1e-5, atol=1e-3)


MMA = """#include "task.h"
__global__ void k(const __nv_bfloat16* x, __nv_bfloat16* y) {
  const unsigned* a = (const unsigned*)x + threadIdx.x * 4;
  float d[4] = {};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
  y[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
static void unit(const in0_t* in0, out0_t* out0, void*, void* stream) {
  k<<<1, 32, 0, (cudaStream_t)stream>>>(in0, out0);
}
"""


def test_machine_code_of_real_builds(target: CudaTarget) -> None:
    if target.toolkit.cuobjdump is None:
        pytest.skip("cuobjdump is not installed")
    unit, graph = example("elementwise", [(64, 1024)])
    report = disassemble(Path(target.build(unit, graph, "main").library), target.toolkit.cuobjdump)
    assert report.available, report.reason
    (chain,) = report.kernels
    assert (chain.name, chain.wide_share, chain.local_loads, chain.clocks) == ("chain", 1.0, 0, 0), chain
    graph = graph_of([(8, 128)], (8, 128), "bfloat16")
    unit = Unit(region=region_of(graph), language="cuda", source=MMA)
    build = target.build(unit, graph, "main")
    assert build.ok, build.diagnostics
    (kernel,) = disassemble(Path(build.library), target.toolkit.cuobjdump).kernels
    assert [(m.inputs, m.accumulator) for m in kernel.matrix] == [("BF16", "F32")], kernel


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() < (9, 0),
    reason="no engine that copies boxes",
)
@pytest.mark.parametrize("shape", [(64, 128), (37, 100), (1, 4)])
def test_boxes_are_moved_by_tensor_maps(target: CudaTarget, shape: tuple[int, int]) -> None:
    """What lies beyond the tensor is neither read nor written."""
    unit, graph = example("tensor_map_relu", [shape])
    inputs = [torch.randn(shape, device="cuda")]
    room = torch.full((shape[0] + 16, shape[1]), float("nan"), device="cuda")
    assert call(target.build(unit, graph, "main"), inputs, room[: shape[0]]) == 0
    assert torch.equal(room[: shape[0]], torch.relu(inputs[0]))
    assert room[shape[0] :].isnan().all()
