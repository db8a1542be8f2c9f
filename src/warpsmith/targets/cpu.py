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
from ..records import Build, Diagnostic, Graph, Region, Unit
from . import diagnostics, source_rules, symbols
from .base import Finding
from .build_cache import BuildCache, Ran, run_confined
from .front_matter import valid_requirement
from .task_header import region_header, requirements

HEADERS = Path(__file__).parent  # warpsmith_simd.h lives here
SOURCE, LIBRARY = "unit.cpp", "unit.so"
ABI = "3"  # part of every key: raise it when the checks or the link line change
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


class CpuTarget:
    """Builds units for this processor. `threads`: as many as torch would use when None."""

    name = "cpu"
    language = "c++"

    def __init__(self, cache_dir: Path, compiler: str | None = None, threads: int | None = None) -> None:
        """Raises ToolchainError when there is no C++ compiler."""
        self.compiler = machine.find_compiler(compiler)
        self.signature = machine.compiler_signature(self.compiler)
        self.threads = threads or machine.threads()
        self.cache = BuildCache(cache_dir)

    def header(self, graph: Graph, region: Region) -> str:
        return region_header(graph, region, self.threads)

    def build(self, unit: Unit, graph: Graph, variant: str) -> Build:
        """See `Target.build`. A library that passes has been checked for forbidden imports."""
        flags = self.flags(unit)
        refused = self._refusals(unit)
        if refused:
            return self._build(unit, variant, flags, refused)
        try:
            header = self.header(graph, unit.region) + requirements(unit.requires)
        except ValueError as error:
            return self._build(unit, variant, flags, (Diagnostic(line=0, kind="error", message=str(error)),))
        files = {SOURCE: unit.source, "task.h": header}
        found = self.cache.find(key := self._key(files, flags))
        if found is None:
            found = self.cache.make(key, files, lambda folder: self._compile(unit, variant, flags, folder))
        return found.model_copy(update={"unit_key": unit.code_key, "variant": variant})

    def flags(self, unit: Unit) -> tuple[str, ...]:
        """Flags of the compilation step."""
        defines = tuple(f"-D{name}={value}" for name, value in unit.values.items())
        return (*BASE_FLAGS, "-fopenmp", *unit.flags, *defines)

    def doctor(self) -> list[Finding]:
        findings: list[Finding] = [("compiler", True, f"{self.compiler}: {self.signature}")]
        with tempfile.TemporaryDirectory() as folder:
            for what, extra in (
                ("compiles C++17 with OpenMP", ()),
                ("links shared libraries", ("-shared", "-nostdlib")),
            ):
                error = self._probe(Path(folder), extra)
                findings.append((what, not error, error or "yes"))
        findings.append(("threads", True, str(self.threads)))
        findings.append(
            ("SIMD", True, f"{machine.simd_level()}, {machine.simd_width_floats()} floats a register")
        )
        return findings

    def _refusals(self, unit: Unit) -> tuple[Diagnostic, ...]:
        bad = [f for f in unit.flags if f not in EXTRA_FLAGS]
        flags = tuple(
            Diagnostic(line=0, kind="flag", message=f"{f} is not one of the flags a unit may ask for")
            for f in bad
        )
        odd = [text for text in unit.requires if not valid_requirement(text)]  # it goes into task.h
        requires = tuple(
            Diagnostic(line=0, kind="source", message=f"requires: {text!r} is no comparison") for text in odd
        )
        return flags + requires + source_rules.refusals(unit.source)

    def _key(self, files: dict[str, str], flags: Sequence[str]) -> str:
        fixed = [ABI, self.compiler, self.signature, machine.processor_key(), _simd_header(), " ".join(flags)]
        return self.cache.key([*fixed, *(part for item in files.items() for part in item)])

    def _compile(self, unit: Unit, variant: str, flags: tuple[str, ...], folder: Path) -> tuple[Build, bool]:
        """Returns the build, its library relative to `folder`, and whether the outcome is for good."""
        compiling = [self.compiler, *flags, *f"-pipe -I . -c {SOURCE} -o unit.o".split(), "-I", str(HEADERS)]
        linking = [
            self.compiler,
            *f"-shared -nostdlib unit.o -o {LIBRARY} -Wl,--as-needed,-z,relro,-z,now".split(),
        ]
        ran = run_confined([compiling, [*linking, *self._libraries()]], folder)
        found = _explain(ran)
        if ran.code == 0 and not ran.timed_out:
            found = (*symbols.check(folder / LIBRARY), *found)
        (folder / "unit.o").unlink(missing_ok=True)
        return self._build(unit, variant, flags, found, ran), not ran.transient

    def _build(
        self,
        unit: Unit,
        variant: str,
        flags: tuple[str, ...],
        found: tuple[Diagnostic, ...],
        ran: Ran | None = None,
    ) -> Build:
        """The outcome; `ran` None: no compiler was started."""
        ok = ran is not None and ran.code == 0 and all(d.kind == "warning" for d in found)
        return Build(
            unit_key=unit.code_key,
            variant=variant,
            ok=ok,
            library=LIBRARY if ok else "",
            seconds=ran.seconds if ran is not None else 0.0,
            compiler=self.signature,
            flags=flags,
            diagnostics=found,
        )

    def _libraries(self) -> list[str]:
        return [*(["-lomp"] if "clang" in self.signature else []), "-lm", "-lc", "-lgcc"]

    def _probe(self, folder: Path, extra: Sequence[str]) -> str:
        """Empty when a small file compiles, else the compiler's first words."""
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
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolchainError(f"{self.compiler} does not run: {error}") from error
        return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it fails"])[0]


def _explain(ran: Ran) -> tuple[Diagnostic, ...]:
    if ran.timed_out:
        return (
            Diagnostic(line=0, kind="timeout", message=f"the compiler was stopped after {ran.seconds:.0f} s"),
        )
    found = diagnostics.parse(ran.output, SOURCE)
    if ran.code != 0 and all(d.kind == "warning" for d in found):
        last = (ran.output.strip().splitlines() or [f"the compiler failed with code {ran.code}"])[-1]
        found = (Diagnostic(line=0, kind="error", message=last[: diagnostics.LONGEST]), *found)
    return found


@functools.cache
def _simd_header() -> str:
    path = HEADERS / "warpsmith_simd.h"
    return path.read_text() if path.is_file() else ""
