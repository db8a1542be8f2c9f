"""The kernels of an exported package on this machine, copied into it as `_kernels.py`: it needs torch and nothing of warpsmith.

In: the package's folder and manifest. Out: paths of the libraries, built ones where they fit this processor or GPU, else rebuilt with
its compiler; or `Unusable` with the reason.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch

BUILD_SECONDS = 300
EXACT = (
    "sm_90a",
    "sm_100a",
    "sm_103a",
    "sm_110a",
    "sm_120a",
    "sm_121a",
)  # code that runs on this one architecture


class Unusable(Exception):
    """The kernels cannot run on this machine."""


def load_program(folder: Path) -> Any:
    """`bind` of the generated program."""
    return load_generated(folder, "_program").bind


def load_generated(folder: Path, name: str) -> Any:
    """A generated module of the package."""
    spec = importlib.util.spec_from_file_location(f"{folder.name}.{name}", folder / f"{name}.py")
    if spec is None or spec.loader is None:
        raise Unusable(f"its generated {name} is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_kernels(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """Paths of the libraries in order, rebuilt when they were made for another processor. Raises Unusable."""
    if platform.system() != "Linux":
        raise Unusable(f"its kernels are for Linux, not {platform.system()}")
    arch = choose_arch(manifest) if manifest["device"] == "cuda" else ""
    fits = bool(arch) if manifest["device"] == "cuda" else runs_here(manifest)
    shipped = [folder / unit["library"].format(arch=arch) for unit in manifest["units"]]
    if fits and all(path.is_file() for path in shipped):
        return [str(path) for path in shipped]
    return [str(_rebuilt(folder, unit, manifest["device"])) for unit in manifest["units"]]


def choose_arch(manifest: dict[str, Any]) -> str:
    """The architecture, of those that kernels were built for, that this GPU runs; empty where there is none. Raises Unusable."""
    if platform.machine() != manifest["machine"]:
        return ""
    major, minor = gpu_capability()
    numbers = {arch: int(arch.removeprefix("sm_").rstrip("af")) for arch in manifest["archs"]}
    fitting = [
        a for a, n in numbers.items()
        if n == 10 * major + minor or (a not in EXACT and n // 10 == major and n % 10 <= minor)
    ]  # fmt: skip
    return max(fitting, key=lambda a: (numbers[a], a), default="")


def gpu_capability() -> tuple[int, int]:
    """The compute capability of the GPU. Raises Unusable where torch sees none."""
    if not torch.cuda.is_available():
        raise Unusable("its kernels are for an NVIDIA GPU, and torch sees none")
    return torch.cuda.get_device_capability()


def runs_here(manifest: dict[str, Any]) -> bool:
    """Return whether this processor can do all that the one could for which the kernels were built."""
    return manifest["machine"] == platform.machine() and set(manifest["processor"]) <= processor_features()


def processor_features() -> set[str]:
    """The instruction set extensions that the system names."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    flags = next((line for line in lines if line.lower().startswith(("flags", "features"))), ":")
    return set(flags.split(":", 1)[1].split())


def _rebuilt(folder: Path, unit: dict[str, Any], device: str) -> Path:
    compiler, linker = find_compilers(device)
    flags = list(unit["flags"])
    if device == "cuda":
        number = "{}{}".format(*gpu_capability())
        suffix = "a" if f"sm_{number}a" in EXACT else ""
        flags.append(f"-gencode=arch=compute_{number}{suffix},code=sm_{number}{suffix}")
    source = folder / unit["source"]
    headers = sorted([*source.parent.glob("*.h"), *source.parent.parent.glob("*.h")])
    features = " ".join(sorted(processor_features())).encode()
    texts = [source.read_bytes(), *(h.read_bytes() for h in headers), features, " ".join(flags).encode()]
    key = hashlib.sha256(b"\0".join(texts)).hexdigest()[:32]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / folder.name
    library = cache / f"{key}.so"
    if not library.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        _compile([*compiler, *flags], linker, source, unit["link"], library)
    return library


def find_compilers(device: str) -> tuple[list[str], list[str]]:
    """The commands that compile and link. Raises Unusable where there is no compiler."""
    host = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if host is None:
        raise Unusable(
            "its kernels were built for another processor and there is no C++ compiler to rebuild them"
        )
    if device == "cpu":
        return [host], [host]
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        raise Unusable("its kernels were built for another GPU and there is no nvcc to rebuild them")
    return [nvcc, "-ccbin", host], [nvcc, "-ccbin", host, "-cudart=shared"]


def _compile(compiler: list[str], linker: list[str], source: Path, link: list[str], library: Path) -> None:
    """Build aside, then rename whole, so that a second process never loads half a library."""
    with tempfile.TemporaryDirectory(dir=library.parent) as aside:
        object_file, shared_object = Path(aside) / "unit.o", Path(aside) / "unit.so"
        includes = ["-I", str(source.parent), "-I", str(source.parent.parent)]
        commands = [
            [*compiler, *includes, "-c", str(source), "-o", str(object_file)],
            [*linker, str(object_file), "-o", str(shared_object), *link],
        ]
        for command in commands:
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
            except subprocess.TimeoutExpired as error:
                raise Unusable("rebuilding its kernels takes too long") from error
            if done.returncode != 0:
                first = (done.stderr.strip().splitlines() or ["no message"])[0]
                raise Unusable(f"its kernels cannot be rebuilt here: {first}")
        shared_object.replace(library)
