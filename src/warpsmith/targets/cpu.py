"""The CPU target: a C++ unit and a graph in, a shared library out, through g++ (or clang++).

The library is linked without an OpenMP runtime: `GOMP_*` stays undefined and resolves to the one of the
process that loads it, so that there is one pool of threads. It is linked without start files, too: nothing
of it runs at load. clang++ calls its own runtime instead, so a library that it makes names libomp."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .. import machine
from ..errors import ToolchainError
from ..records import Diagnostic, Graph, Region, Unit
from . import source_rules, symbols
from .native_target import HEADERS, LIBRARY, NativeTarget
from .target import Finding
from .task_header import region_header
from .tensor_maps import TensorMap

SOURCE = "unit.cpp"
ABI = "4"  # part of every key: raise it when the checks or the link line change
BASE_FLAGS = (
    "-O3", "-march=native", "-std=c++17", "-fPIC", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=fast", "-fvisibility=hidden", "-fno-exceptions", "-Wall", "-Wno-psabi",
)  # fmt: skip
EXTRA_FLAGS = frozenset({
    "-O1", "-O2", "-O3", "-funroll-loops", "-fno-tree-vectorize", "-ftree-vectorize",
    "-fno-tree-slp-vectorize", "-mprefer-vector-width=128", "-mprefer-vector-width=256",
    "-mprefer-vector-width=512", "-fno-unroll-loops", "-fprefetch-loop-arrays", "-falign-loops=32",
    "-falign-loops=64", "-fno-signed-zeros", "-ffp-contract=off", "-fno-rounding-math", "-fstrict-aliasing",
    "-fno-strict-aliasing", "-fomit-frame-pointer", "-fno-exceptions", "-fno-rtti",
    "-fvect-cost-model=unlimited", "-fvect-cost-model=dynamic", "-fvect-cost-model=cheap",
    "-fno-semantic-interposition", "-fno-plt",
})  # fmt: skip
_PROBE = (
    '#include <stdint.h>\nextern "C" int f(int n) {\n  int s = 0;\n#pragma omp parallel for reduction(+:s)\n'
    "  for (int i = 0; i < n; i++) s += i;\n  return s;\n}\n"
)


class CpuTarget(NativeTarget):
    """Builds units for this processor. `threads`: as many as torch would use when None."""

    name = "cpu"
    language = "c++"
    source_file = SOURCE

    def __init__(self, cache_dir: Path, compiler: str | None = None, threads: int | None = None) -> None:
        """Raises ToolchainError when there is no C++ compiler."""
        super().__init__(cache_dir)
        self.compiler = machine.find_compiler(compiler)
        self.compiler_origin = machine.compiler_origin(compiler)
        self.signature = machine.compiler_signature(self.compiler)
        self.threads = threads or machine.threads()

    def header(self, graph: Graph, region: Region, maps: Sequence[TensorMap] = ()) -> str:
        if maps:
            raise ValueError("tensor maps are for units in CUDA")
        return region_header(graph, region, self.threads)

    def flags(self, unit: Unit) -> tuple[str, ...]:
        """Return the flags of the compilation step."""
        defines = tuple(f"-D{name}={value}" for name, value in unit.values.items())
        return (*BASE_FLAGS, "-fopenmp", *unit.flags, *defines)

    def doctor(self) -> list[Finding]:
        findings: list[Finding] = [
            ("compiler", True, f"{self.compiler}: {self.signature}, {self.compiler_origin}")
        ]
        with tempfile.TemporaryDirectory() as folder:
            for step, extra in (
                ("compiles C++17 with OpenMP", ()),
                ("links shared libraries", ("-shared", "-nostdlib")),
            ):
                error = self._probe(Path(folder), extra)
                findings.append((step, not error, error or "yes"))
        findings.append(("threads", True, str(self.threads)))
        findings.append(
            ("SIMD", True, f"{machine.simd_level()}, {machine.simd_width_floats()} floats a register")
        )
        return findings

    def _allows_flag(self, flag: str) -> bool:
        return flag in EXTRA_FLAGS

    def _refuse_source(self, source: str) -> tuple[Diagnostic, ...]:
        return source_rules.find_refusals(source)

    def _key_parts(self) -> list[str]:
        parts = [ABI, self.compiler, self.signature, machine.make_processor_key(), _simd_header()]
        return [*parts, *self._openmp]

    def _commands(self, flags: Sequence[str]) -> list[list[str]]:
        compiling = [self.compiler, *flags, *f"-pipe -I . -c {SOURCE} -o unit.o".split(), "-I", str(HEADERS)]
        linking = f"-shared -nostdlib unit.o -o {LIBRARY} -Wl,--as-needed,-z,relro,-z,now".split()
        return [compiling, [self.compiler, *linking, *self._libraries()]]

    def _check(self, library: Path) -> tuple[Diagnostic, ...]:
        return symbols.check(library)

    def _libraries(self) -> list[str]:
        return [*self._openmp, "-lm", "-lc", "-lgcc"]

    @functools.cached_property
    def _openmp(self) -> list[str]:
        """Return what links clang's runtime, which often lies beside clang's own libraries and not where linkers look."""
        if "clang" not in self.signature:
            return []
        resources = Path(machine.read_first_line([self.compiler, "-print-resource-dir"]))
        return [f"-L{resources.parents[1]}", "-lomp"]

    def _probe(self, folder: Path, extra: Sequence[str]) -> str:
        """Compile a small file; return the compiler's first line if that fails, else an empty text."""
        (folder / "probe.cpp").write_text(_PROBE)
        command = [
            self.compiler,
            *BASE_FLAGS,
            "-fopenmp",
            *(extra or ("-c",)),
            "probe.cpp",
            "-o",
            "probe.out",
        ]
        try:
            completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolchainError(f"{self.compiler} does not run: {error}") from error
        return "" if completed.returncode == 0 else (completed.stderr.strip().splitlines() or ["it fails"])[0]


@functools.cache
def _simd_header() -> str:
    path = HEADERS / "warpsmith_simd.h"
    return path.read_text() if path.is_file() else ""
