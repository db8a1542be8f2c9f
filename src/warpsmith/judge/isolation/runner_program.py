"""Builds the native candidate runners, `runner.c` and `cuda_runner.cpp`, once for a compiler and machine, into
the build cache.

A cache folder in, the program's path out. Their source is ours; it is compiled under the same confinement as
a unit's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ... import machine
from ...errors import ToolchainError
from ...records import Build
from ...targets import cuda_toolkit, diagnostics
from ...targets.build_cache import BuildCache, run_confined

FOLDER = Path(__file__).parent
SOURCES = ("runner.c", "runner_common.h")
CUDA_SOURCES = ("cuda_runner.cpp", "cuda_confine.h", "runner_common.h")
# libm and the OpenMP runtime are kept although the runner hardly needs them: the unit's library finds them
# there.
FLAGS = (
    "-x", "c", "-O2", "-fopenmp", "-Wall", "runner.c", "-o", "runner", "-x", "none", "-Wl,--no-as-needed",
    "-lm", "-ldl",
)  # fmt: skip
# The shared runtime: the unit's library names it, too, and there is to be one of them.
CUDA_FLAGS = (
    "-x", "cu", "-std=c++17", "-O2", "--cudart", "shared", "-Xcompiler", "-Wall", "cuda_runner.cpp", "-o",
    "cuda_runner", "-Xlinker", "--no-as-needed", "-lstdc++", "-lm", "-lgcc_s",
)  # fmt: skip


def runner_program(cache_dir: Path, compiler: str | None = None) -> Path:
    """Raises ToolchainError when there is no compiler or it cannot build the runner, JudgeError on a full
    disk."""
    path = machine.find_compiler(compiler)
    return _program(cache_dir, [path, *FLAGS], machine.compiler_signature(path), SOURCES)


def cuda_runner_program(cache_dir: Path, compiler: str | None = None) -> Path:
    """Build the CUDA runner as `runner_program` does, with nvcc and for the first GPU's architecture."""
    kit = cuda_toolkit.toolkit()
    command = [
        kit.nvcc, "-ccbin", machine.find_compiler(compiler), f"-arch={cuda_toolkit.device_arch()}", *CUDA_FLAGS, "-Xlinker", f"-rpath={kit.libraries}",
    ]  # fmt: skip
    return _program(cache_dir, command, kit.signature, CUDA_SOURCES)


def _program(cache_dir: Path, command: Sequence[str], signature: str, sources: Sequence[str]) -> Path:
    """`sources`: the file that is compiled, which names the program, and what it includes."""
    name = Path(sources[0]).stem
    files = {file: (FOLDER / file).read_text() for file in sources}
    cache = BuildCache(cache_dir)
    key = cache.key([name, *command, signature, machine.make_processor_key(), *files.values()])

    def compile_in(folder: Path) -> tuple[Build, bool]:
        ran = run_confined([command], folder)
        parsed = diagnostics.parse(ran.output, sources[0])
        ok = ran.code == 0 and not ran.timed_out
        build = Build(unit_key=name, variant="", ok=ok, library=name, diagnostics=parsed)
        return build, ok  # a failure of ours is not kept

    build = cache.find(key) or cache.make(key, files, compile_in)
    if not build.ok:
        reason = diagnostics.one_line(build.diagnostics)
        raise ToolchainError(f"{command[0]} cannot build the candidate runner: {reason}")
    return Path(build.library)
