"""The CUDA target: a CUDA C++ unit and a graph in, a shared library out, through nvcc. No GPU is needed.

A unit is host code that launches its own kernels on the stream it is given. The library holds machine code
for one architecture, no PTX, and finds the CUDA runtime of the process that loads it (`libcudart.so`), so
that there is one runtime. What it may import from there is launching and asking: it can make no streams,
events, graphs or allocations, copy nothing, and look up no further functions. Of code that runs at load it
has nvcc's own registration only; of variables none that can be written, on neither side."""

from __future__ import annotations

import copy
import functools
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .. import machine
from ..records import Diagnostic, Graph, KernelResources, Region, Unit
from . import cubin, cuda_resources, cuda_toolkit, source_rules, symbols
from .build_cache import CommandRun, run_confined
from .native_target import HEADERS, LIBRARY, NativeTarget, explain
from .target import Finding
from .task_header import cuda_region_header
from .tensor_maps import TensorMap

SOURCE = "unit.cu"
ABI = "2"  # part of every key: raise it when the checks or the link line change
# On the host nvcc gives every device function a body that calls exit; nothing calls it, so the linker drops it.
HOST_FLAGS = "-fPIC,-fvisibility=hidden,-fno-exceptions,-fno-threadsafe-statics,-ffunction-sections"
# Uncompressed, so that the machine code can be checked; shapes that are not used, or used by the host, are no news.
BASE_FLAGS = (
    "-std=c++17", "-O3", "-lineinfo", "--expt-relaxed-constexpr", "--no-compress",
    "-diag-suppress=177,550,20091", "-Xptxas=-v", f"-Xcompiler={HOST_FLAGS}",
)  # fmt: skip
# Fast mathematics changes what is computed: whether it may is the oracle's to say, and the flag is in the record.
EXTRA_FLAGS = re.compile(
    r"(?:-O[1-3]|--?use_fast_math|--?(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)|--?maxrregcount=\d{1,3}"
    r"|--?extra-device-vectorization|--?restrict|-Xptxas=(?:-O[1-3]|-dlcm=c[ag]|-dscm=(?:wb|cg))"
    r"|--?expt-relaxed-constexpr|--?expt-extended-lambda|--?extended-lambda)$"
)
# Options that few units need and that double nvcc's time for a small unit: device lambdas in host code, and the half types
# where neither the task nor the unit names them.
LAMBDAS, NO_HALVES = "--extended-lambda", "-DWARPSMITH_NO_HALVES"
_LAMBDA = re.compile(r"\]\s*__(?:device|host)__|^\s*#\s*define\b.*__(?:device|host)__", re.MULTILINE)
_HALVES = re.compile(
    r"half|bf16|bfloat|fp16|mma|cuda_resident|std::|warpsmith_cuda[\s\S]*\btask\.h", re.IGNORECASE
)
IMPORTS = frozenset({
    # registration and launch, as nvcc writes them
    "__cudaRegisterFatBinary", "__cudaRegisterFatBinaryEnd", "__cudaUnregisterFatBinary", "__cudaRegisterFunction",
    "__cudaRegisterVar", "__cudaPushCallConfiguration", "__cudaPopCallConfiguration", "__cudaGetKernel",
    "__cudaLaunchKernel", "__cudaInitModule", "cudaLaunchKernel",
    # what a unit may call by name
    "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cudaFuncSetAttribute",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cudaOccupancyMaxActiveClusters", "cudaOccupancyMaxPotentialClusterSize", "cudaOccupancyAvailableDynamicSMemPerBlock",
    "cudaMemsetAsync", "cudaGetLastError", "cudaPeekAtLastError", "cudaGetDevice", "cudaDeviceGetAttribute",
})  # fmt: skip
NOTES = {
    **dict.fromkeys(("cudaMalloc", "cudaMallocAsync"), ": take the workspace (WORKSPACE_BYTES)"),
    **dict.fromkeys(("cudaMemcpyToSymbol", "cudaGetSymbolAddress"), ": initialise the constant, and make it const"),
    **dict.fromkeys(("cudaDeviceSynchronize", "cudaStreamSynchronize"), ": a unit launches on its stream and returns"),
    **dict.fromkeys(("cudaMemcpyAsync", "cudaMemcpy"), ": copy in a kernel"),
}  # fmt: skip
# The handles of nvcc's registration code, one set a kernel, and the fat binary's descriptor (CUDA 12 and 13).
OWN = re.compile(
    r"_ZGVZL?\d+__device_stub__\w+E5__tmp$|_ZZL?\d+__device_stub__\w+E(?:5__tmp|8__handle|3__f)$"
    r"|_ZL20__cudaFatCubinHandle$|_ZL15__fatDeviceText$|_ZL\d+__nv_(?:inited_managed_rt|fatbinhandle_for_managed_rt)$"
)
RULES = symbols.Rules(
    lambda name: name in IMPORTS or name in symbols.MEMORY or name in symbols.MATH,
    re.compile(r"(?:libcudart|libc|libm|libgcc_s|ld-linux[\w-]*)\.so(?:\.\d+)*$"), OWN, 32,
    at_load="_ZL24__sti____cudaRegisterAllv", notes={**dict.fromkeys(symbols.ALLOCATORS, symbols.HINT), **NOTES},
)  # fmt: skip
_PROBE = "__global__ void k(float* p) { p[threadIdx.x] *= 2; }\nvoid f(float* p) { k<<<1, 32>>>(p); }\n"


class CudaTarget(NativeTarget):
    """Builds units for one GPU architecture: `arch`, such as "sm_90a", or that of the machine's first GPU."""

    name = "cuda"
    language = "cuda"
    source_file = SOURCE
    timeout = 120.0  # seconds: templates of matrix kernels take long

    def __init__(
        self,
        cache_dir: Path,
        compiler: str | None = None,
        threads: int | None = None,
        arch: str | None = None,
    ) -> None:
        """`compiler`: the C++ compiler for host code. `threads` has no meaning here. Raises ToolchainError
        where there is no nvcc or no C++ compiler."""
        super().__init__(cache_dir)
        self.toolkit = cuda_toolkit.toolkit()
        self.compiler = machine.find_compiler(compiler)
        self.compiler_origin = machine.compiler_origin(compiler)
        self.signature = self.toolkit.signature
        self.arch = arch or cuda_toolkit.device_arch()

    def for_arch(self, arch: str) -> CudaTarget:
        """Return the target with the same tools for another architecture."""
        target = copy.copy(self)
        target.arch = arch
        return target

    def header(self, graph: Graph, region: Region, maps: Sequence[TensorMap] = ()) -> str:
        return cuda_region_header(graph, region, maps)

    def flags(self, unit: Unit) -> tuple[str, ...]:
        """Return the flags of nvcc for a unit."""
        virtual = self.arch.replace("sm_", "compute_")
        defines = tuple(f"-D{name}={value}" for name, value in unit.values.items())
        lambdas = (LAMBDAS,) if _LAMBDA.search(unit.source) else ()
        halves = () if _HALVES.search(unit.source) else (NO_HALVES,)
        gencode = f"-gencode=arch={virtual},code={self.arch}"
        return (*BASE_FLAGS, *lambdas, gencode, *unit.flags, *halves, *defines)

    def doctor(self) -> list[Finding]:
        """Check the tool chain and name the GPU; a missing GPU is no fault of the tool chain."""
        toolkit = self.toolkit
        gpu, host = cuda_toolkit.gpu("name"), machine.compiler_signature(self.compiler)
        return [
            ("nvcc", True, f"{toolkit.nvcc}: {toolkit.signature}"),
            ("host compiler", True, f"{self.compiler}: {host}, {self.compiler_origin}"),
            self._probe(),
            *_check_runtime(toolkit.major, cuda_toolkit.torch_cuda()),
            ("GPU", True, f"{gpu}, driver {cuda_toolkit.gpu('driver_version')}" if gpu else "none: builds only"),
            ("cuobjdump", True, toolkit.cuobjdump or "not installed: no report on machine code"),
        ]  # fmt: skip

    def _allows_flag(self, flag: str) -> bool:
        return EXTRA_FLAGS.match(flag) is not None

    def _refuse_source(self, source: str) -> tuple[Diagnostic, ...]:
        return source_rules.find_refusals(source, source_rules.CUDA)

    def _key_parts(self) -> list[str]:
        host = [self.compiler, machine.compiler_signature(self.compiler)]
        return ["cuda", ABI, self.toolkit.nvcc, self.signature, *host, _read_headers()]

    def _commands(self, flags: Sequence[str]) -> list[list[str]]:
        compiling = [self.toolkit.nvcc, "-ccbin", self.compiler, *flags, "-I.", f"-I{HEADERS}"]
        linking = [self.compiler, *f"-shared -nostdlib unit.o -o {LIBRARY}".split()]
        linking.append("-Wl,--as-needed,--gc-sections,-z,relro,-z,now,-z,nodelete")
        return [
            [*compiling, "-c", SOURCE, "-o", "unit.o"],
            [*linking, f"-L{self.toolkit.libraries}", "-lcudart", "-lm", "-lc", "-lgcc"],
        ]

    def _check(self, library: Path) -> tuple[Diagnostic, ...]:
        return (*symbols.check(library, RULES), *cubin.check(library))

    def _parse_resources(self, command_run: CommandRun) -> tuple[KernelResources, ...]:
        return cuda_resources.parse(command_run.output)

    def _probe(self) -> Finding:
        step = f"compiles and links for {self.arch}"
        virtual = self.arch.replace("sm_", "compute_")
        flags = (*BASE_FLAGS, f"-gencode=arch={virtual},code={self.arch}")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / SOURCE).write_text(
                'extern "C" int atexit(void (*)(void)) noexcept { return 0; }\n' + _PROBE
            )
            command_run = run_confined(self._commands(flags), folder, self.timeout)
        if command_run.code == 0:
            return step, True, "yes"
        messages = explain(command_run, SOURCE)
        return step, False, messages[0].message


def _check_runtime(nvcc: str, torch: str) -> list[Finding]:
    """Compare major versions: a unit's library finds its CUDA runtime in torch's process only when both have the same."""
    if not torch:
        return []
    fits = nvcc == torch
    hint = "" if fits else f": install the CUDA {torch} toolkit, or a torch for CUDA {nvcc}"
    return [("CUDA runtime", fits, f"nvcc is of CUDA {nvcc}, torch of CUDA {torch}{hint}")]


@functools.cache
def _read_headers() -> str:
    return "".join(f.read_text() for f in sorted(HEADERS.glob("warpsmith_cuda*.h")))
