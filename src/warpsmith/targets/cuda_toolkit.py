"""The CUDA tool chain of this machine: where nvcc is, what it links with, for which architecture it builds.

Nothing in but the environment; paths and names out. Everything here works without a GPU: only
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

DEFAULT_ARCH = "sm_90a"  # built for where no GPU says otherwise
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
    """Path of nvcc: CUDACXX, else PATH, else CUDA_HOME, else /usr/local/cuda. Raises ToolchainError, one line."""
    named = os.environ.get("CUDACXX")
    if named:
        path = shutil.which(named)
        if path is None:
            raise ToolchainError(f"no CUDA compiler: CUDACXX is '{named}', which is no executable")
        return path
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    for candidate in ["nvcc", *(f"{home}/bin/nvcc" for home in homes if home)]:
        path = shutil.which(candidate)
        if path is not None:
            return path
    raise ToolchainError(NO_NVCC)


def toolkit(nvcc: str | None = None) -> Toolkit:
    """The tool chain around `nvcc` (None: the one that is found). Raises ToolchainError where it is incomplete."""
    path = nvcc or find_nvcc()
    stat = os.stat(path)
    return _toolkit(path, stat.st_mtime_ns, stat.st_size)


@functools.cache
def _toolkit(nvcc: str, _mtime: int, _size: int) -> Toolkit:
    top = _top(nvcc)
    include = _holding("cuda_runtime.h", top / "include", top / "targets/x86_64-linux/include", nvcc)
    libraries = _holding("libcudart.so", top / "lib64", top / "lib", nvcc)
    beside = top / "bin" / "cuobjdump"
    cuobjdump = str(beside) if beside.is_file() else shutil.which("cuobjdump")
    return Toolkit(nvcc, _signature(nvcc), include, libraries, cuobjdump)


def device_arch() -> str:
    """What to build for: WARPSMITH_CUDA_ARCH, else the first GPU's own, else `DEFAULT_ARCH`.

    From compute capability 9.0 on with the "a" that unlocks the architecture's own instructions. Raises
    ToolchainError for a variable that names no architecture."""
    named = os.environ.get(ARCH_VARIABLE)
    if named:
        if not _ARCH.match(named):
            raise ToolchainError(f"{ARCH_VARIABLE} is '{named}'; it reads like sm_90a")
        return named
    capability = gpu("compute_cap")
    if not re.match(r"\d+\.\d$", capability):
        return DEFAULT_ARCH
    number = capability.replace(".", "")
    return f"sm_{number}{'a' if int(number) >= 90 else ''}"


def gpu(field: str) -> str:
    """A field of `nvidia-smi --query-gpu` of the first GPU; empty where there is none."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return ""
    command = [path, f"--query-gpu={field}", "--format=csv,noheader"]
    try:
        return machine.first_line(command).strip()
    except ToolchainError:
        return ""


def torch_cuda() -> str:
    """Major version of the CUDA runtime that torch brings, from the installed packages; empty where none says."""
    tag = re.search(r"\+cu(\d+)\d$", _installed("torch"))
    if tag is not None:
        return tag[1]
    versions = [_installed(name) for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12")]
    return next((version.split(".")[0] for version in versions if version), "")


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _top(nvcc: str) -> Path:
    """The toolkit's folder, as nvcc itself says: the program found may be a wrapper elsewhere."""
    try:
        done = subprocess.run(
            [nvcc, "--dryrun", "-c", "-x", "cu", os.devnull, "-o", os.devnull],
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{nvcc} does not run: {error}") from error
    found = _TOP.search(done.stderr)
    if found is None:
        words = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
        raise ToolchainError(f"{nvcc} does not run: {words[-1]}")
    return Path(found[1].strip()).resolve()


def _holding(name: str, first: Path, second: Path, nvcc: str) -> Path:
    for folder in (first, second):
        if (folder / name).is_file():
            return folder
    raise ToolchainError(f"the CUDA toolkit of {nvcc} is incomplete: no {name} in {first}")


def _signature(nvcc: str) -> str:
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{nvcc} does not run: {error}") from error
    lines = done.stdout.strip().splitlines()
    release = _RELEASE.search(done.stdout)
    if release is None:
        raise ToolchainError(f"{nvcc} --version does not name a release")
    return f"nvcc {release['version']} ({lines[-1].removeprefix('Build ')})"
