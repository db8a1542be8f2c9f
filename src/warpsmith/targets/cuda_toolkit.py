"""Finds the CUDA tool chain of this machine: where nvcc is, what it links with, for which architecture it builds.

Reads the environment only; returns paths and names. Everything here works without a GPU: only
`device_arch` asks the driver, and falls back to a stated default."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from .. import machine
from ..errors import ToolchainError

DEFAULT_ARCH = "sm_90a"  # the architecture where no GPU is found
ARCH_VARIABLE = "WARPSMITH_CUDA_ARCH"
NO_NVCC = "no CUDA compiler: install the CUDA toolkit, or set CUDACXX to the path of nvcc"
_ARCH = re.compile(r"sm_\d{2,3}[af]?$")
_TOP = re.compile(r"^#\$ TOP=(.+)$", re.MULTILINE)
_RELEASE = re.compile(r"release (?P<version>[\d.]+)")


@dataclass(frozen=True)
class Toolkit:
    nvcc: str
    signature: str  # "nvcc 13.0 (cuda_13.0.r13.0/compiler.36424714_0)"
    include: Path  # holds cuda_runtime.h
    libraries: Path  # holds libcudart.so
    cuobjdump: str | None  # the disassembler, where installed

    @property
    def major(self) -> str:
        return self.signature.removeprefix("nvcc ").split(".")[0]


def find_nvcc() -> str:
    """Find the path of nvcc: CUDACXX, else PATH, else CUDA_HOME, else /usr/local/cuda. Raises ToolchainError, one line."""
    cudacxx = os.environ.get("CUDACXX")
    if cudacxx:
        path = shutil.which(cudacxx)
        if path is None:
            raise ToolchainError(f"no CUDA compiler: CUDACXX is '{cudacxx}', which is no executable")
        return path
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    for candidate in ["nvcc", *(f"{home}/bin/nvcc" for home in homes if home)]:
        path = shutil.which(candidate)
        if path is not None:
            return path
    raise ToolchainError(NO_NVCC)


def toolkit(nvcc: str | None = None) -> Toolkit:
    """Describe the tool chain around `nvcc` (None: the one that `find_nvcc` finds). Raises ToolchainError where it is incomplete."""
    path = nvcc or find_nvcc()
    stat = os.stat(path)
    return _read_toolkit(path, stat.st_mtime_ns, stat.st_size)


@functools.cache
def _read_toolkit(nvcc: str, _mtime: int, _size: int) -> Toolkit:
    top = _find_top(nvcc)
    include = _find_folder_with("cuda_runtime.h", top / "include", top / "targets/x86_64-linux/include", nvcc)
    libraries = _find_folder_with("libcudart.so", top / "lib64", top / "lib", nvcc)
    toolkit_cuobjdump = top / "bin" / "cuobjdump"
    cuobjdump = str(toolkit_cuobjdump) if toolkit_cuobjdump.is_file() else shutil.which("cuobjdump")
    return Toolkit(nvcc, _read_signature(nvcc), include, libraries, cuobjdump)


def device_arch() -> str:
    """Choose the architecture to build for: WARPSMITH_CUDA_ARCH, else the first GPU's own, else `DEFAULT_ARCH`.

    From compute capability 9.0 on with the "a" that unlocks the architecture's own instructions. Raises
    ToolchainError for a variable that names no architecture."""
    arch = os.environ.get(ARCH_VARIABLE)
    if arch:
        if not _ARCH.match(arch):
            raise ToolchainError(f"{ARCH_VARIABLE} is '{arch}'; it reads like sm_90a")
        return arch
    capability = gpu("compute_cap")
    if not re.match(r"\d+\.\d$", capability):
        return DEFAULT_ARCH
    number = capability.replace(".", "")
    return f"sm_{number}{'a' if int(number) >= 90 else ''}"


def gpu(field: str) -> str:
    """Query a field of `nvidia-smi --query-gpu` of the first GPU; empty where there is none."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return ""
    command = [path, f"--query-gpu={field}", "--format=csv,noheader"]
    try:
        return machine.read_first_line(command).strip()
    except ToolchainError:
        return ""


def torch_cuda() -> str:
    """Read the major version of the CUDA runtime that torch brings from the installed packages; empty where none says."""
    tag = re.search(r"\+cu(\d+)\d$", _find_version("torch"))
    if tag is not None:
        return tag[1]
    versions = [_find_version(name) for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12")]
    return next((version.split(".")[0] for version in versions if version), "")


def _find_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _find_top(nvcc: str) -> Path:
    """Ask nvcc for the toolkit's folder: the program on PATH may be a wrapper elsewhere."""
    try:
        completed = subprocess.run(
            [nvcc, "--dryrun", "-c", "-x", "cu", os.devnull, "-o", os.devnull],
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{nvcc} does not run: {error}") from error
    top = _TOP.search(completed.stderr)
    if top is None:
        words = (completed.stderr or completed.stdout).strip().splitlines() or ["it says nothing"]
        raise ToolchainError(f"{nvcc} does not run: {words[-1]}")
    return Path(top[1].strip()).resolve()


def _find_folder_with(name: str, first: Path, second: Path, nvcc: str) -> Path:
    for folder in (first, second):
        if (folder / name).is_file():
            return folder
    raise ToolchainError(f"the CUDA toolkit of {nvcc} is incomplete: no {name} in {first}")


def _read_signature(nvcc: str) -> str:
    try:
        completed = subprocess.run(
            [nvcc, "--version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{nvcc} does not run: {error}") from error
    lines = completed.stdout.strip().splitlines()
    release = _RELEASE.search(completed.stdout)
    if release is None:
        raise ToolchainError(f"{nvcc} --version does not name a release")
    return f"nvcc {release['version']} ({lines[-1].removeprefix('Build ')})"
