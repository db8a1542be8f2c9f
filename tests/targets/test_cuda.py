"""CUDA units built by the real nvcc, without a GPU: what comes out, what is refused, and why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_graphs import example, graph_of, region_of

from warpsmith.errors import ToolchainError
from warpsmith.records import Build, Diagnostic, Graph, Tunable, Unit
from warpsmith.targets import cuda, cuda_toolkit
from warpsmith.targets.cuda import EXTRA_FLAGS, CudaTarget
from warpsmith.targets.diagnostics import is_refused, unmet_requirements
from warpsmith.targets.target import Target

try:
    cuda_toolkit.toolkit()
except ToolchainError as missing:
    pytest.skip(str(missing), allow_module_level=True)

HEAD = '#include "task.h"\n'
UNIT = "static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream)"
KERNEL = "__global__ void k(const float* x, float* y) {{ {body} }}\n"
LAUNCH = "k<<<1, 32, 0, (cudaStream_t)stream>>>(in0, out0);"


@pytest.fixture
def target(tmp_path: Path) -> CudaTarget:
    return CudaTarget(tmp_path / "cache", arch="sm_90a")


def unit_of(
    graph: Graph,
    host: str = LAUNCH,
    device: str = "y[0] = x[0];",
    head: str = "",
    first: str = "",
    **more: object,
) -> Unit:
    """A unit on three lines: task.h after `first`, its kernel after `head`, unit()."""
    source = f"{first}{HEAD}{head}{KERNEL.format(body=device)}{UNIT} {{ {host} }}\n"
    return Unit.model_validate({"region": region_of(graph), "language": "cuda", "source": source, **more})


@pytest.fixture
def graph() -> Graph:
    return graph_of([(8, 128)], (8, 128))


def said(build: Build) -> str:
    return " | ".join(f"{d.kind}: {d.message}" for d in build.diagnostics)


@pytest.mark.parametrize(
    ("name", "shapes", "dtype", "kernel"),
    [
        ("elementwise", [(64, 1024)], "float32", "chain"),
        ("softmax", [(64, 1000)], "bfloat16", "softmax"),
        ("layernorm", [(64, 1000), (1000,), (1000,)], "float16", "layernorm"),
    ],
)
def test_examples_build(
    target: CudaTarget, name: str, shapes: list[tuple[int, ...]], dtype: str, kernel: str
) -> None:
    unit, graph = example(name, shapes, dtype)
    build = target.build(unit, graph, "main")
    assert build.ok, said(build)
    (took,) = build.kernels
    assert (took.name, took.arch, took.spill_store_bytes) == (kernel, "sm_90a", 0)
    assert 8 <= took.registers <= 64
    assert (took.shared_bytes, took.barriers) == ((256, 1) if name == "softmax" else (0, 0))
    again = target.build(unit, graph, "ragged")
    assert (again.cached, again.variant, again.kernels) == (True, "ragged", build.kernels)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_elements_are_read_and_written(target: CudaTarget, dtype: str) -> None:
    graph = graph_of([(8, 128)], (8, 128), dtype)
    kernel = "__global__ void k(const in0_t* x, out0_t* y) { y[threadIdx.x] = out0_t(2 * float(x[threadIdx.x])); }\n"
    unit = unit_of(graph).model_copy(update={"source": f"{HEAD}{kernel}{UNIT} {{ {LAUNCH} }}\n"})
    build = target.build(unit, graph, "main")
    assert build.ok, said(build)


def test_tunables_and_architecture_decide_the_binary(target: CudaTarget, graph: Graph) -> None:
    tunable = Tunable(name="K", domain=(1, 2), value=1)
    one = unit_of(graph, device="y[0] = K;", tunables=(tunable,))
    two = one.model_copy(update={"tunables": (tunable.model_copy(update={"value": 2}),)})
    elsewhere = CudaTarget(target.cache.directory, arch="sm_80")
    builds = [t.build(u, graph, "main") for t, u in ((target, one), (target, two), (elsewhere, one))]
    assert all(b.ok for b in builds), [said(b) for b in builds]
    assert "-DK=2" in builds[1].flags
    assert len({b.library for b in builds}) == 3
    assert [b.kernels[0].arch for b in builds] == ["sm_90a", "sm_90a", "sm_80"]


LOADED = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
unit = ctypes.CDLL(sys.argv[2])
empty = (ctypes.c_void_p * 1)(256)
print(unit.warpsmith_workspace_bytes(), unit.warpsmith_run(empty, empty, None, None))
"""


def test_a_library_loads_and_says_that_there_is_no_device(target: CudaTarget, graph: Graph) -> None:
    build = target.build(unit_of(graph, first="#define WORKSPACE_BYTES in0_numel\n"), graph, "main")
    assert build.ok, said(build)
    runtime = str(next(target.toolkit.libraries.glob("libcudart.so")))
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", LOADED, runtime, build.library], capture_output=True, text=True, env=hidden
    )
    assert done.returncode == 0, done.stderr
    size, code = map(int, done.stdout.split())
    assert size == 8 * 128
    assert code != 0  # a launch error is the answer, not silence


def test_tables_of_the_mathematical_library_and_device_functions_are_no_state(
    target: CudaTarget, graph: Graph
) -> None:
    head = "__device__ __noinline__ float twice(float v) { return v * 2; }\n__constant__ const float table[2] = {1, 2};\n"
    body = "y[1] = twice(x[3]) + table[threadIdx.x & 1]; double d = x[1]; y[0] = sinf(x[0]) + tanf(x[2]) + lgammaf(x[5]) + sin(d) * pow(d, d) + j0f(x[2]);"
    build = target.build(unit_of(graph, device=body, head=head), graph, "main")
    assert build.ok, said(build)


def test_shapes_can_be_indexed_on_the_device(target: CudaTarget, graph: Graph) -> None:
    body = "long n = 1; for (int d = 0; d < in0_rank; d++) n *= in0_shape[d + (threadIdx.x > 900)]; y[in0_stride[0]] = n;"
    build = target.build(unit_of(graph, device=body), graph, "main")
    assert build.ok, said(build)


def test_cooperative_and_cluster_launches_and_inline_ptx_build(target: CudaTarget, graph: Graph) -> None:
    head = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
    body = """namespace cg = cooperative_groups; cg::this_grid().sync();
      y[1] = cg::reduce(cg::tiled_partition<32>(cg::this_thread_block()), x[threadIdx.x], cg::plus<float>());
      extern __shared__ float s[]; unsigned a = (unsigned)__cvta_generic_to_shared(s);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\\n" :: "r"(a), "l"(x) : "memory");
      asm volatile("{\\n .reg .pred p;\\n setp.ne.b32 p, %0, 0;\\n @p bra DONE_%=;\\nDONE_%=:\\n}" :: "r"(a));
      asm volatile("griddepcontrol.wait;"); y[0] = s[1];"""
    host = """cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
      void* all[] = {&in0, &out0};
      cudaLaunchCooperativeKernel((void*)k, dim3(8), dim3(32), all, 65536, (cudaStream_t)stream);
      cudaLaunchAttribute a; a.id = cudaLaunchAttributeClusterDimension; a.val.clusterDim = {2, 1, 1};
      cudaLaunchConfig_t c = {}; c.gridDim = 8; c.blockDim = 32; c.stream = (cudaStream_t)stream; c.attrs = &a;
      c.numAttrs = 1; cudaLaunchKernelEx(&c, k, in0, out0); cudaMemsetAsync(out0, 0, 4, c.stream);"""
    build = target.build(unit_of(graph, host, body, head), graph, "main")
    assert build.ok, said(build)


def test_what_the_host_side_may_not_call(target: CudaTarget, graph: Graph) -> None:
    host = """void* p; cudaStream_t s; cudaEvent_t e; cudaGraph_t g; cudaDriverEntryPointQueryResult r;
      cudaMalloc(&p, 4); cudaMallocAsync(&p, 4, 0); cudaMemcpyAsync(out0, in0, 4, cudaMemcpyDefault, 0); cudaStreamCreate(&s);
      cudaEventCreate(&e); cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1); cudaCtxResetPersistingL2Cache();
      cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal); cudaGraphCreate(&g, 0); cudaHostAlloc(&p, 4, 0);
      cudaDeviceSynchronize(); cudaLaunchHostFunc(s, (cudaHostFn_t)p, p); cudaGetDriverEntryPointByVersion("x", &p, 12000, 0, &r);
      cudaIpcMemHandle_t h; cudaIpcGetMemHandle(&h, p); cudaStreamSetAttribute(s, cudaStreamAttributePriority, 0);
      dlopen("x", 1); p = malloc(4); cudaFree(p); clock_gettime(0, (timespec*)p);"""
    head = 'extern "C" void* dlopen(const char*, int);\n'
    names = [
        word.split("(")[0]
        for word in host.replace(";", " ").split()
        if word.split("(")[0].isidentifier() and "(" in word
    ]
    build = target.build(unit_of(graph, host, head=head), graph, "main")
    assert is_refused(build)
    assert len(names) > 15
    assert [n for n in names if f"forbidden import: {n}" not in said(build)] == []
    assert "cudaMalloc: take the workspace" in said(build)


def test_nothing_outlives_a_call(target: CudaTarget, graph: Graph) -> None:
    head = """static int calls; __device__ float cache[4]; __constant__ float late[2]; static __device__ const float table[2] = {1, 2};
struct S { long n; S() { n = (long)this; } }; static S made;
"""
    device = "static __device__ int hidden; hidden++; y[0] = cache[(int)x[0]] + late[hidden & 1] + table[hidden & 1];"
    build = target.build(
        unit_of(graph, f"calls++; {LAUNCH} out0[1] = made.n + calls;", device, head), graph, "main"
    )
    assert is_refused(build)
    text = said(build)
    assert "keeps state between calls: cache, calls, late, made must" in text
    assert "keeps state on the device between calls: cache, hidden, table must" in text
    assert "runs code of its own at load" in text


@pytest.mark.parametrize(
    ("head", "device", "message"),
    [
        ("", "float* p = (float*)malloc(4); p[0] = x[0]; y[0] = p[(int)x[1]];", "device code calls malloc"),
        (
            "static void f() {}\n__attribute__((section(\".init_array\"), used)) static void (*g)() = f;\n",
            "y[0] = 1;",
            "runs code of its own at load",
        ),
        ("__device__ int x4cuda3std;\n", "y[0] = x4cuda3std++;", "on the device between calls: x4cuda3std"),
        (  # a way to write to constant memory that the compiler does not see through
            "__constant__ const int table[2] = {1, 2};\n",
            "*(int*)((unsigned long)table ^ (unsigned long)x[9]) += 3; y[0] = table[0];",
            "takes the address of a __constant__ table",
        ),
        ("thread_local static int n;\nint count() { return n++; }\n", "y[0] = 1;", "thread-local"),
    ],
)  # fmt: skip
def test_refused_for_what_the_binary_holds(
    target: CudaTarget, graph: Graph, head: str, device: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "section(" in head:  # the scan of sources refuses it before; this is the second line of defence
        monkeypatch.setattr(target, "_refuse_source", lambda source: ())
    host = f"{LAUNCH} out0[0] = count();" if "count" in head else LAUNCH
    build = target.build(unit_of(graph, host, device, head), graph, "main")
    assert is_refused(build), said(build)
    assert message in said(build)


class Unread(CudaTarget):
    """What the binary alone shows, where the rules on sources see nothing."""

    def _refuse_source(self, source: str) -> tuple[Diagnostic, ...]:
        return ()


def test_the_binary_shows_what_the_source_hid(tmp_path: Path, graph: Graph) -> None:
    target = Unread(tmp_path, arch="sm_90a")
    device = "kept++; y[0] = clock64() + kept;"
    build = target.build(unit_of(graph, device=device, head="__managed__ int kept;\n"), graph, "main")
    assert is_refused(build), said(build)
    assert "device code reads %clock64" in said(build)
    assert "forbidden import: __cudaRegisterManagedVar" in said(build)
    assert "keeps state on the device between calls: kept" in said(build)


def test_refused_before_any_compiler(target: CudaTarget, graph: Graph) -> None:
    for unit, kind in (
        (unit_of(graph, head="#include <cstdio>\n"), "source"),
        (unit_of(graph, device="y[0] = clock64();"), "source"),
        (unit_of(graph, head="__managed__ int n;\n"), "source"),
        (unit_of(graph, requires=("1 == 1\n#include </etc/passwd>",)), "source"),
        (unit_of(graph, flags=("--compiler-options=-fplugin=x.so",)), "flag"),
        (unit_of(graph, flags=("-Xptxas=-O3 -v",)), "flag"),
        (unit_of(graph, flags=("-rdc=true",)), "flag"),
    ):
        build = target.build(unit, graph, "main")
        assert is_refused(build)
        assert build.diagnostics[0].kind == kind
    assert not target.cache.directory.exists()


def test_flags_that_a_unit_may_ask_for_are_known_to_nvcc(target: CudaTarget, graph: Graph) -> None:
    flags = (
        "-use_fast_math", "--use_fast_math", "-O3", "-maxrregcount=64", "-fmad=false", "-extra-device-vectorization", "-restrict",
        "-Xptxas=-O2", "-Xptxas=-dlcm=ca", "--extended-lambda",
    )  # fmt: skip
    assert all(EXTRA_FLAGS.match(f) for f in flags)
    build = target.build(unit_of(graph, flags=flags[1:]), graph, "main")
    assert build.ok, said(build)
    assert "--use_fast_math" in build.flags


def test_functions_of_the_device_made_in_place_build_without_asking(target: CudaTarget, graph: Graph) -> None:
    head = "template <class F> __global__ void call(F f) { f(); }\n"
    host = "call<<<1, 1, 0, (cudaStream_t)stream>>>([=] __device__ () { out0[0] = in0[0]; });"
    build = target.build(unit_of(graph, host, head=head), graph, "main")
    assert build.ok, said(build)
    assert cuda.LAMBDAS in build.flags
    assert cuda.LAMBDAS in target.flags(unit_of(graph, head="#define GPU __device__\n"))
    assert cuda.LAMBDAS not in target.flags(unit_of(graph))  # it takes longer


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("float32", "y[0] = ws::load_as(x[0]);"),
        ("float16", "y[0] = ws::store_as<in0_t>(ws::load_as(x[0]));"),
        (
            "float32",
            "y[0] = ws::load_as(ws::store_as<__half>(x[0])) + ws::load_as(ws::store_as<__nv_bfloat16>(x[1]));",
        ),
    ],
)
def test_half_types_are_read_where_the_task_or_the_unit_names_them(
    target: CudaTarget, dtype: str, text: str
) -> None:
    graph = graph_of([(8, 128)], (8, 128), dtype)
    source = (
        f'{HEAD}#include "warpsmith_cuda.h"\n__global__ void k(const in0_t* x, out0_t* y) {{ {text} }}\n'
        f"{UNIT} {{ {LAUNCH} }}\n"
    )
    unit = Unit(region=region_of(graph), language="cuda", source=source)
    build = target.build(unit, graph, "main")
    assert build.ok, said(build)
    assert (cuda.NO_HALVES in build.flags) == ("half" not in text)
    for other in (
        f'#include "warpsmith_cuda.h"\n{source}',
        f'#include "warpsmith_cuda_resident.h"\n{source}',
    ):
        assert cuda.NO_HALVES not in target.flags(unit.model_copy(update={"source": other}))


def test_errors_point_into_the_unit(target: CudaTarget, graph: Graph) -> None:
    build = target.build(
        unit_of(graph, f"{LAUNCH} k<<<1, 1>>>(in0, out0, 3);", "y[0] = missing;"), graph, "main"
    )
    assert not build.ok
    assert not is_refused(build)
    assert [(d.kind, d.line) for d in build.diagnostics] == [("error", 2), ("error", 3)]
    assert build.diagnostics[0].message == 'identifier "missing" is undefined'
    again = target.build(
        unit_of(graph, f"{LAUNCH} k<<<1, 1>>>(in0, out0, 3);", "y[0] = missing;"), graph, "main"
    )
    assert again.cached
    assert again.diagnostics == build.diagnostics


def test_an_error_in_the_helpers_takes_the_line_that_led_there(target: CudaTarget, graph: Graph) -> None:
    head = '#include "warpsmith_cuda.h"\n'
    build = target.build(unit_of(graph, device='y[0] = ws::block_sum("text")[0];', head=head), graph, "main")
    assert not build.ok
    assert build.diagnostics[0].line == 3, said(build)


def test_too_much_shared_memory_and_unmet_requirements(target: CudaTarget, graph: Graph) -> None:
    greedy = "__shared__ float s[100000]; s[threadIdx.x] = x[0]; __syncthreads(); y[0] = s[threadIdx.x ^ 1];"
    build = target.build(unit_of(graph, device=greedy), graph, "main")
    assert "uses too much shared data" in said(build)
    build = target.build(unit_of(graph, requires=("in0_shape[1] % 3 == 0",)), graph, "main")
    assert not build.ok
    assert unmet_requirements(build) == ("in0_shape[1] % 3 == 0",)
    assert not is_refused(build)


def test_doctor(target: CudaTarget) -> None:
    kept: Target = target
    found = {what: (ok, fact) for what, ok, fact in kept.doctor()}
    assert found["compiles and links for sm_90a"] == (True, "yes")
    assert "nvcc" in found["nvcc"][1]
    assert {"GPU", "cuobjdump", "host compiler"} <= set(found)


def test_no_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDACXX", "/nowhere/nvcc")
    with pytest.raises(ToolchainError, match="CUDACXX is '/nowhere/nvcc'"):
        CudaTarget(tmp_path)
    fake = tmp_path / "nvcc"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CUDACXX", str(fake))
    with pytest.raises(ToolchainError, match="does not run: broken"):
        CudaTarget(tmp_path)


def test_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cuda_toolkit.ARCH_VARIABLE, "sm_100a")
    assert cuda_toolkit.device_arch() == "sm_100a"
    monkeypatch.setenv(cuda_toolkit.ARCH_VARIABLE, "hopper")
    with pytest.raises(ToolchainError, match="reads like sm_90a"):
        cuda_toolkit.device_arch()
    monkeypatch.delenv(cuda_toolkit.ARCH_VARIABLE)
    monkeypatch.setattr(cuda_toolkit, "gpu", lambda field: "8.6")
    assert cuda_toolkit.device_arch() == "sm_86"
    monkeypatch.setattr(cuda_toolkit, "gpu", lambda field: "9.0")
    assert cuda_toolkit.device_arch() == "sm_90a"
    monkeypatch.setattr(cuda_toolkit, "gpu", lambda field: "")
    assert cuda_toolkit.device_arch() == cuda_toolkit.DEFAULT_ARCH


def test_torch_of_another_cuda_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.11.0+cu126"}
    monkeypatch.setattr(cuda_toolkit, "_find_version", lambda name: versions.get(name, ""))
    assert cuda_toolkit.torch_cuda() == "12"
    versions.update({"torch": "2.11.0", "nvidia-cuda-runtime": "13.0.96"})
    assert cuda_toolkit.torch_cuda() == "13"
    assert cuda._check_runtime("13", "13")[0][1]
    what, fits, fact = cuda._check_runtime("13", "12")[0]
    assert (what, fits) == ("CUDA runtime", False)
    assert "torch for CUDA 13" in fact
    versions.clear()
    assert cuda_toolkit.torch_cuda() == ""


def test_short_copies_carry_no_hint(tmp_path: Path) -> None:
    """ptxas 13.0 makes illegal instructions of them (`LDGSTS.E [R11+UR0], desc[UR1][R12.64]`: descriptors are even) in a loop
    whose copies' places are not known.
    """
    source, made = tmp_path / "copies.cu", tmp_path / "copies.ptx"
    source.write_text(
        '#include "warpsmith_cuda_resident.h"\n'
        "template <int BYTES, bool AGAIN = false> __global__ void k(const char* x, bool passing) {\n"
        "  extern __shared__ __align__(16) char room[];\n"
        "  ws::copy_hinted<BYTES, AGAIN>(room + threadIdx.x * BYTES, x + threadIdx.x * BYTES, passing);\n"
        "}\n"
        "template __global__ void k<4>(const char*, bool);\n"
        "template __global__ void k<8>(const char*, bool);\n"
        "template __global__ void k<16>(const char*, bool);\n"
        "template __global__ void k<16, true>(const char*, bool);\n"
    )
    command = [
        cuda_toolkit.toolkit().nvcc,
        "-std=c++17",
        "-ptx",
        "-arch=sm_90a",
        "-I",
        str(Path(cuda.__file__).parent),
    ]
    subprocess.run([*command, str(source), "-o", str(made)], check=True)
    copies = [line for line in made.read_text().splitlines() if "cp.async." in line]
    assert [("cache_hint" in line, "], 16," in line) for line in sorted(copies)] == [
        (False, False),
        (False, False),
        (True, True),
        (True, True),
    ]
    policies = [made.read_text().count(f"L2::evict_{kind}.b64") for kind in ("first", "normal", "last")]
    assert policies == [2, 1, 1], "of the two kernels with hints one reads AGAIN"


def test_packs_are_one_store_and_what_they_share_is_read_past_stores(tmp_path: Path, toolkit: None) -> None:
    """nvcc made two stores of a pack of two floats, each with every second word of a line, and read a shared float after each store."""
    source, made = tmp_path / "packs.cu", tmp_path / "packs.ptx"
    source.write_text(
        '#include "warpsmith_cuda_states.h"\n'
        "template <bool STREAM> __global__ void k(float* out) {\n"
        "  ws::write<2, 1, true, STREAM>(out + 2 * threadIdx.x, ws::Pack<float, 2>{{1.0f * threadIdx.x, 2.0f}});\n"
        "}\n"
        "template __global__ void k<false>(float*);\n"
        "template __global__ void k<true>(float*);\n"
        "template <int STRIDE> __global__ void r(const float* x, float* out) {\n"
        "  *out = ws::read<1, STRIDE, false>(x).at[0];\n"
        "}\n"
        "template __global__ void r<0>(const float*, float*);\n"
        "template __global__ void r<2>(const float*, float*);\n"
    )
    folder = str(Path(cuda.__file__).parent)
    command = [cuda_toolkit.toolkit().nvcc, "-std=c++17", "-ptx", "-arch=sm_90a", "-I", folder]
    subprocess.run([*command, str(source), "-o", str(made)], check=True)
    words = [line.split()[0] for line in made.read_text().splitlines() if "global." in line and "\t" in line]
    stores = [word for word in words if word.startswith("st.") and ".v2" in word]
    assert sorted(stores) == ["st.global.cs.v2.u32", "st.global.v2.u32"]
    assert sorted(word for word in words if word.startswith("ld.")) == ["ld.global.f32", "ld.global.nc.f32"]
