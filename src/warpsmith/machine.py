"""Reads the facts of this machine: processor, caches, vector width, memory, threads, compiler. None is
measured, and torch is not loaded.

Nothing in; an `Environment` record and plain numbers out. `environment` fields identify a machine in
archives, so they must not change from run to run."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil

from .errors import ToolchainError
from .records import Environment

CPU_DIR = Path("/sys/devices/system/cpu")
CACHE_DEFAULT = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}  # where the system does not say
LOOK_S = 2.0  # over which the load of the processors is averaged
BUSY_PROCESSORS = 0.25  # that others may use on a machine that counts as quiet
BUSY_GPU_PERCENT = 5.0
COMPILERS = ("g++", "c++", "clang++")
UNNAMED_GPU = "an NVIDIA GPU that nvidia-smi does not name"
NO_COMPILER = "no C++ compiler: install g++ (apt install g++) or set WARPSMITH_COMPILER to the path of one"


@dataclass(frozen=True)
class Gpu:
    name: str
    uuid: str
    driver: str
    memory_mb: int
    capability: str  # of compute, such as "9.0"


def describe(compiler: str | None = None, device: str = "cpu") -> Environment:
    """Describe this machine and its software. `compiler` as in `find_compiler`; "none" is recorded where there is no
    compiler. `device`: "cpu" or "cuda"; on the latter the GPU is what results were measured on."""
    device_gpu = gpu() if device == "cuda" else None
    try:
        signature = compiler_signature(find_compiler(compiler))
    except ToolchainError:
        signature = "none"
    return Environment(
        cpu=cpu_name(),
        cores=physical_cores(),
        threads=threads(),
        memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
        simd=simd_level(),
        os=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        torch=_version("torch"),
        compiler=signature,
        device=_device_name(device),
        warpsmith=_version("warpsmith"),
        gpu_driver=device_gpu.driver if device_gpu else "",
    )


def _device_name(device: str) -> str:
    """Name the processor, or the GPU; a GPU never gets the processor's name."""
    if device != "cuda":
        return cpu_name()
    device_gpu = gpu()
    return device_gpu.name if device_gpu is not None else UNNAMED_GPU


@functools.cache
def gpu() -> Gpu | None:
    """Describe the GPU that CUDA takes first, from nvidia-smi; None where there is none."""
    fields = ("name", "uuid", "driver_version", "memory.total", "compute_cap")
    values = query_gpu(fields)
    if values is None:
        return None
    name, uuid, driver, memory, capability = values
    return Gpu(name, uuid, driver, int(memory) if memory.isdigit() else 0, capability)


def query_gpu(fields: Sequence[str]) -> list[str] | None:
    """Query nvidia-smi's fields of the GPU that CUDA takes first; None where it does not answer."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    which = ["-i", visible or "0"]
    command = ["nvidia-smi", *which, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        line = read_first_line(command)
    except ToolchainError:
        return None
    values = [value.strip() for value in line.split(",")]
    return values if len(values) == len(fields) else None


def device_files() -> list[Path]:
    """List the files and folders that a process must be able to write to use NVIDIA GPUs.

    The driver names its threads below /proc/self; where it may not, cuInit fails with error 304.
    """
    return [*sorted(Path("/dev").glob("nvidia*")), Path("/proc/self")]


def has_gpu_device() -> bool:
    """Look for the device file of an NVIDIA GPU, which costs nothing; `gpu` asks the driver."""
    return any(Path("/dev").glob("nvidia*")) or Path("/dev/dxg").exists()  # the latter in WSL


def affinity() -> tuple[int, ...]:
    """Return the logical processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


@functools.cache
def physical_cores() -> int:
    """Count the distinct cores behind the logical processors of the affinity mask; hyperthreads share one."""
    return max(1, len(_list_cores()))


def _list_cores() -> list[list[int]]:
    """List the logical processors of the affinity mask by the core that they share."""
    cores: dict[str, list[int]] = {}
    for cpu in affinity():
        siblings = _read(CPU_DIR / f"cpu{cpu}" / "topology" / "thread_siblings_list")
        cores.setdefault(siblings or str(cpu), []).append(cpu)
    return list(cores.values())


def split_cores(count: int) -> list[list[int]]:
    """Split the logical processors of this process into `count` shares of as many whole cores each; what does not divide is left
    out, so that all shares describe the same machine. Where there are fewer cores than shares, each share is all processors.
    """
    cores = _list_cores()
    size = len(cores) // count
    if not size:
        return [list(affinity()) for _ in range(count)]
    return [sorted(cpu for core in cores[n * size : (n + 1) * size] for cpu in core) for n in range(count)]


def threads() -> int:
    """Count the threads that torch uses for one operation: OMP_NUM_THREADS (its first level) when set, else the
    physical cores."""
    setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(setting) if setting.isdigit() and int(setting) > 0 else physical_cores()


def wait_until_quiet(seconds: float, threads: int, device: str = "cpu") -> bool:
    """Wait until the processors have room for so many threads, or the GPU has no work, `seconds` at most; return whether it is so.

    The caller has nothing running meanwhile: what is busy is another's.
    """
    deadline = time.monotonic() + seconds
    while (seconds_left := deadline - time.monotonic()) > 0:
        percents = psutil.cpu_percent(min(LOOK_S, seconds_left), percpu=True)
        if device != "cpu":
            used = query_gpu(["utilization.gpu"])
            quiet = used is None or float(used[0]) <= BUSY_GPU_PERCENT
        else:
            idle = sum(100.0 - percents[cpu] for cpu in affinity() if cpu < len(percents)) / 100.0
            quiet = idle >= min(threads, len(affinity())) - BUSY_PROCESSORS
        if quiet:
            return True
    return False


@functools.cache
def cpu_name() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "Hardware") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()


@functools.cache
def _cpu_flags() -> frozenset[str]:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def simd_level() -> str:
    """Return one of "avx512", "avx2", "sse2", "sve", "neon", "scalar"."""
    flags = _cpu_flags()
    if platform.machine() in ("x86_64", "AMD64"):
        if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
            return "avx512"
        return "avx2" if {"avx2", "fma"} <= flags else "sse2"
    if platform.machine() in ("aarch64", "arm64"):
        return "sve" if "sve" in flags else "neon"
    return "scalar"


def simd_width_floats() -> int:
    """Count the floats in one vector register."""
    return {"avx512": 16, "avx2": 8, "scalar": 1}.get(simd_level(), 4)


def simd_registers() -> int:
    """Count the vector registers that a core's instructions can name."""
    return 32 if simd_level() in ("avx512", "sve", "neon") else 16


@functools.cache
def _read_caches() -> tuple[tuple[str, int], ...]:
    bytes_by_level = {}
    for index in sorted((CPU_DIR / f"cpu{affinity()[0]}" / "cache").glob("index*")):
        if _read(index / "type") in ("Data", "Unified"):
            bytes_by_level[f"L{_read(index / 'level')}"] = _size(_read(index / "size"))
    return tuple((bytes_by_level or CACHE_DEFAULT).items())


def cache_bytes() -> dict[str, int]:
    """Return level → bytes of one data or unified cache as the first processor sees it: {"L1": …, "L2": …, "L3":
    …}."""
    return dict(_read_caches())


def find_compiler(name: str | None = None) -> str:
    """Find the path of the C++ compiler: `name`, else CXX, else g++, c++, clang++ from PATH. Raises ToolchainError,
    one line."""
    named = name or os.environ.get("CXX")
    path = next(filter(None, map(shutil.which, [named] if named else COMPILERS)), None)
    if path is not None:
        return path
    if named:
        raise ToolchainError(
            f"no C++ compiler: {named} ({compiler_origin(name)}) is no executable; install it, or set "
            "WARPSMITH_COMPILER to the path of another, without arguments"
        )
    raise ToolchainError(NO_COMPILER)


def compiler_origin(name: str | None = None) -> str:
    """Say who chose the compiler that `find_compiler` finds."""
    cxx = os.environ.get("CXX")
    if name and name == os.environ.get("WARPSMITH_COMPILER"):
        origin = "from WARPSMITH_COMPILER"
    else:
        origin = "from the setting compiler" if name else "from CXX" if cxx else "the first on PATH"
    return f"{origin}; CXX={cxx} is not used" if name and cxx and cxx != name else origin


def compiler_signature(path: str) -> str:
    """Return name and version, e.g. "g++ (Debian 12.2.0-14) 12.2.0". Raises ToolchainError where it does not run."""
    stat = os.stat(path)
    return _compiler_signature(path, stat.st_mtime_ns, stat.st_size)


@functools.cache
def _compiler_signature(path: str, _mtime: int, _size: int) -> str:
    return read_first_line([path, "--version"])


def read_first_line(command: Sequence[str]) -> str:
    """Run a tool of the tool chain and return the first line that it prints. Raises ToolchainError where it does not run."""
    try:
        env = {**os.environ, "LC_ALL": "C"}
        completed = subprocess.run(command, capture_output=True, text=True, timeout=20, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{command[0]} does not run: {error}") from error
    if completed.returncode != 0:
        raise ToolchainError(f"{' '.join(command)} fails: {completed.stderr.strip().splitlines()[:1]}")
    return next(iter(completed.stdout.splitlines()), "")


def make_processor_key() -> str:
    """Make the key of code built with -march=native: the processor's name and its features."""
    return f"{cpu_name()} {platform.machine()} {sys.byteorder} {' '.join(sorted(_cpu_flags()))}"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text and text[-1] in units else int(text or 0)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
