"""The harness is a small program that runs units outside of the judge, for tools that watch a process from outside.

In: a built library, the raw bytes of its inputs, specs. Out: a command line that calls the unit on exactly those
buffers. The program is `harness.cpp`, built once for a compiler into the build cache: plain, with the address
and undefined-behaviour sanitizers, or for CUDA.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import machine
from ..errors import ToolchainError
from ..processes.buffers import ValuesFile, extent_bytes
from ..records import Build, TensorSpec
from ..targets import diagnostics
from ..targets.build_cache import BuildCache, run_confined

SOURCE = Path(__file__).parent / "harness.cpp"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g")
BASE = ("-std=c++17", "-O1", "-fopenmp", "harness.cpp", "-o", "harness")
# A unit finds the OpenMP runtime and libm in the process that loads it, as in the judge's runner.
LINKED = ("-Wl,--no-as-needed", "-lm", "-ldl")


def cpu_harness(cache_dir: Path, compiler: str, *, sanitized: bool) -> Path:
    """Build the program for C++ units. Raises ToolchainError where it cannot be built."""
    extra = SANITIZERS if sanitized else ()
    return _build_program(cache_dir, [compiler, *BASE, *extra, *LINKED], machine.compiler_signature(compiler))


def cuda_harness(cache_dir: Path, compiler: str, include: Path, libraries: Path) -> Path:
    """Build the program for CUDA units, with the toolkit's headers and libcudart. Raises ToolchainError."""
    where = (f"-I{include}", f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lcudart")
    command = [compiler, "-DWARPSMITH_CUDA", *BASE, *LINKED, *where]
    return _build_program(cache_dir, command, machine.compiler_signature(compiler))


@dataclass(frozen=True)
class Call:
    """A unit's library with the inputs of one case, ready to be run by a harness."""

    library: Path
    values: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @classmethod
    def prepare(
        cls, library: Path, raw: Sequence[npt.NDArray[Any]], inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec], path: Path,
    ) -> Call:  # fmt: skip
        """Write the raw bytes of the inputs to a new values file at `path`."""
        file = ValuesFile(path, inputs, create=True)
        for index, data in enumerate(raw):
            file.raw(index)[:] = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        return cls(library, path, tuple(inputs), tuple(outputs))

    def command(self, program: Path, calls: int) -> list[str]:
        return [str(program), *self.arguments(calls)]

    def arguments(self, calls: int) -> list[str]:
        """Return the arguments of this call. The program takes those of several calls, one after the other."""
        offsets = ValuesFile(self.values, self.inputs).offsets
        input_numbers = [n for o, s in zip(offsets, self.inputs, strict=True) for n in (o, extent_bytes(s))]
        output_bytes = [extent_bytes(s) for s in self.outputs]
        numbers = (calls, len(self.inputs), *input_numbers, len(output_bytes), *output_bytes)
        return [str(self.library), str(self.values), *map(str, numbers)]


def _build_program(cache_dir: Path, command: list[str], signature: str) -> Path:
    cache, text = BuildCache(cache_dir), SOURCE.read_text()
    key = cache.key(["harness", *command, signature, text])

    def compile_in(folder: Path) -> tuple[Build, bool]:
        tool_run = run_confined([command], folder)
        messages = diagnostics.parse(tool_run.output, SOURCE.name)
        ok = tool_run.code == 0 and not tool_run.timed_out
        return Build(unit_key="harness", variant="", ok=ok, library="harness", diagnostics=messages), ok

    build = cache.find(key) or cache.make(key, {SOURCE.name: text}, compile_in)
    if not build.ok:
        raise ToolchainError(
            f"{command[0]} cannot build the harness: {diagnostics.one_line(build.diagnostics)}"
        )
    return Path(build.library)
