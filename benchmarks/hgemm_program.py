"""Builds `hgemm/headroom.cu` with nvcc against cuBLAS, and talks to it: one shape in, one row out.

In: the words of its command line, shapes. Out: the facts of the device, and rows; a row of a process that failed has an "error".
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hgemm_shapes import Shape

from warpsmith.errors import ToolchainError
from warpsmith.targets.cuda_toolkit import Toolkit, device_arch, toolkit

SOURCE = Path(__file__).resolve().parent / "hgemm" / "headroom.cu"
BUILD_LIMIT_S = 180
NO_CUBLAS = "no cuBLAS beside nvcc {nvcc}, nor in Python's packages: install the CUDA toolkit's libraries, or `pip install nvidia-cublas`"
Row = dict[str, Any]


def build_program(folder: Path) -> Path:
    """Compile the program for this machine's GPU. Raises ToolchainError, one line."""
    tools, program = toolkit(), folder / "hgemm_headroom"
    command = [tools.nvcc, "-O2", "-std=c++17", *describe_arch(), str(SOURCE), "-o", str(program)]
    try:
        completed = subprocess.run(
            [*command, *find_cublas(tools)],
            capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{SOURCE.name} does not build: {error}") from error
    if completed.returncode:
        words = [line for line in completed.stderr.splitlines() if "error" in line or "undefined" in line]
        raise ToolchainError(f"{SOURCE.name} does not build: {(words or ['nvcc says nothing'])[0]}")
    return program


def describe_arch() -> list[str]:
    arch = device_arch()
    return [f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}"]


def find_cublas(tools: Toolkit) -> list[str]:
    """Find headers and libraries of cuBLAS, the toolkit's or those of Python's packages, as words for nvcc. Raises ToolchainError."""
    packages = [p for entry in sys.path if entry for p in sorted(Path(entry).glob("nvidia/*")) if p.is_dir()]
    places = [(tools.include, tools.libraries), *((p / "include", p / "lib") for p in packages)]
    for include, folder in places:
        libraries = [
            sorted(folder.glob(f"{name}.so*"), key=lambda p: len(p.name))
            for name in ("libcublas", "libcublasLt")
        ]
        if (include / "cublasLt.h").is_file() and all(libraries):
            names = [f"-l:{files[0].name}" for files in libraries]
            return ["-isystem", str(include), f"-L{folder}", *names, "-Xlinker", f"-rpath={folder}"]
    raise ToolchainError(NO_CUBLAS.format(nvcc=tools.nvcc))


class Program(contextlib.AbstractContextManager["Program"]):
    """One process of the measuring program. `facts` is what it says of the device. Raises ToolchainError where it does not start."""

    def __init__(self, command: Sequence[str], limit_s: float) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._killer = threading.Timer(limit_s, self._process.kill)
        self._killer.start()
        self.facts = self._read()
        if "error" in self.facts:
            self.close()
            raise ToolchainError(f"no product can be timed here: {self.facts['error']}")

    def ask(self, shape: Shape) -> Row:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{shape.m} {shape.n} {shape.k}\n")
            self._process.stdin.flush()
        return self._read()

    def _read(self) -> Row:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        with contextlib.suppress(ValueError):
            return dict(json.loads(line))
        return {"error": f"the program ended with code {self._process.wait()}"}

    def close(self) -> None:
        self._killer.cancel()
        self._process.kill()
        self._process.communicate()

    def __exit__(self, *_: object) -> None:
        self.close()
