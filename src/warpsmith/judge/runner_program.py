"""Builds the native candidate runner, `runner.c`, once for a compiler and machine, into the build cache.

A cache folder in, the program's path out. Its source is ours; it is compiled under the same confinement as
a unit's."""

from __future__ import annotations

from pathlib import Path

from .. import machine
from ..errors import ToolchainError
from ..records import Build
from ..targets import diagnostics
from ..targets.build_cache import BuildCache, run_confined

SOURCE = Path(__file__).parent / "runner.c"
# libm and the OpenMP runtime are kept although the runner hardly needs them: the unit's library finds them
# there.
FLAGS = (
    "-x",
    "c",
    "-O2",
    "-fopenmp",
    "-Wall",
    "runner.c",
    "-o",
    "runner",
    "-x",
    "none",
    "-Wl,--no-as-needed",
    "-lm",
    "-ldl",
)


def runner_program(cache_dir: Path, compiler: str | None = None) -> Path:
    """Raises ToolchainError when there is no compiler or it cannot build the runner, JudgeError on a full
    disk."""
    path = machine.find_compiler(compiler)
    cache, command, text = BuildCache(cache_dir), [path, *FLAGS], SOURCE.read_text()
    key = cache.key(["runner", *command, machine.compiler_signature(path), machine.processor_key(), text])

    def compile_in(folder: Path) -> tuple[Build, bool]:
        ran = run_confined([command], folder)
        found = diagnostics.parse(ran.output, "runner.c")
        ok = ran.code == 0 and not ran.timed_out
        build = Build(unit_key="runner", variant="", ok=ok, library="runner", diagnostics=found)
        return build, ok  # a failure of ours is not kept

    build = cache.find(key) or cache.make(key, {"runner.c": text}, compile_in)
    if not build.ok:
        reason = diagnostics.one_line(build.diagnostics)
        raise ToolchainError(f"{path} cannot build the candidate runner: {reason}")
    return Path(build.library)
