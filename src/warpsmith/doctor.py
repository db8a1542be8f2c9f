"""Can this machine run Warpsmith, and what is known of its peak rates?

In: the settings. Out: findings, each what was looked at, whether it is well, and a fact or a hint; and the measured
`Peaks` of each device. Nothing is changed, apart from the archive and cache folders being made, and from peaks that are
measured where that is asked for.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import machine, plugins
from .archive.store import Archive
from .config import CACHE_REMEDY, Config
from .errors import WarpsmithError
from .judge.device.device_lock import DeviceLock, lock_file
from .judge.roofline.peaks import Peaks, load_peaks, measure_peaks
from .llm.setup import models_line
from .places import ArchiveUrl
from .progress import counted
from .targets.target import Finding, Target

SHM = Path("/dev/shm")
SHM_BYTES = 1 << 30  # room below which larger tasks spill to the temporary folder
CACHE_BYTES = 1 << 30
TORCH_PROBE = (
    "import torch; print(torch.__version__, torch.get_num_threads(), torch.backends.cpu.get_cpu_capability())"
)
SANDBOX_PROBE = (
    "import sys; from pathlib import Path; from warpsmith.processes.sandbox import restrict; "
    "print(restrict([Path(sys.argv[1])], memory_bytes=1 << 30))"
)


def findings(config: Config, target: str = "cpu") -> list[Finding]:
    return [
        _python(), _torch(), *_target(target, config), _check_sandbox(), _check_shared_memory(), _check_cache(config.cache),
        _check_archive(config.archive), models_line(),
    ]  # fmt: skip


def list_peaks(config: Config, target: str = "cpu") -> dict[str, Peaks | None]:
    """Load the peaks that judges know of each device that this machine, or the target, has; None where none were measured."""
    devices = ["cpu", *(["cuda"] if target == "cuda" or machine.gpu() is not None else [])]
    return {device: load_peaks(config.cache, machine.threads(), device=device) for device in devices}


def measure_missing_peaks(
    config: Config, target: str, progress: Callable[[str], None] = lambda text: None
) -> Peaks:
    """Measure the target's peaks where none were measured on a quiet machine. Raises ToolchainError, JudgeError."""
    device = "cuda" if target == "cuda" else "cpu"
    with DeviceLock(lock_file(device), progress).hold_exclusive():
        return measure_peaks(
            config.cache, machine.threads(), compiler=config.compiler, device=device, progress=progress
        )


def describe_peaks(peaks: Peaks | None) -> str:
    """Describe the rates, cold and cached ones apart, when they were measured, and under which conditions."""
    how = "as does `warpsmith doctor --peaks`"
    if peaks is None:
        return f"none measured yet: the next run measures them, {how}"
    cold = ", ".join(f"{kind} {rate / 1e9:.1f}" for kind, rate in peaks.cold.items())
    cached = ", ".join(f"{size >> 10} KiB {rate / 1e9:.0f}" for size, rate in peaks.cached.items())
    arithmetic = ", ".join(
        f"{name} {rate / 1e9:,.0f}"
        for name, rate in (("FP32", peaks.flops), ("TF32", peaks.tf32), ("16-bit", peaks.narrow)) if rate
    )  # fmt: skip
    conditions = [counted(peaks.threads, "thread")] if peaks.threads else []
    conditions.append("busy machine" if peaks.busy else "quiet machine")
    waited = max((c.waited for c in peaks.conditions.values()), default=0.0)
    conditions += [f"at most {waited:.0%} of the time in run queues"] if waited else []
    conditions += [f"the next run measures again, {how}"] if peaks.busy else []
    return (
        f"memory {peaks.memory / 1e9:.1f} GB/s ({cold}); cached {cached or 'not measured'} GB/s; {arithmetic} GFLOP/s; "
        f"peaks {peaks.used.key} of {peaks.measured_at or 'unknown date'}: {', '.join(conditions)}"
    )


def make_peaks_data(peaks: Peaks) -> dict[str, Any]:
    """Return the same for programs: bytes and operations per second, each rate with its conditions."""
    return {
        **peaks.used.model_dump(mode="json"), "threads": peaks.threads, "cold": peaks.cold, "cached": peaks.cached,
        "fp32": peaks.flops, "tf32": peaks.tf32, "narrow": peaks.narrow,
        "conditions": {name: c.model_dump(mode="json") for name, c in peaks.conditions.items()},
    }  # fmt: skip


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return "python", sys.version_info >= (3, 11), version


def _torch() -> Finding:
    """In a process of its own, as every use of torch."""
    ok, answer = _run([sys.executable, "-c", TORCH_PROBE], 120)
    if not ok:
        return "torch", False, f"does not import ({answer}): pip install 'torch>=2.9,<2.14'"
    version, threads, simd = answer.split(maxsplit=2)
    return "torch", True, f"{version}, {counted(int(threads), 'thread')}, {simd}"


def _target(name: str, config: Config) -> list[Finding]:
    try:
        target: Target = plugins.load("targets", name)(config.cache, config.compiler, config.threads)
        return target.doctor()
    except WarpsmithError as error:
        return [(f"target {name}", False, str(error))]


def _check_sandbox() -> Finding:
    """Check which confinement this kernel offers; without Landlock and seccomp, only resource limits."""
    with tempfile.TemporaryDirectory() as folder:
        ok, answer = _run([sys.executable, "-c", SANDBOX_PROBE, folder], 30)
    if not ok:
        return "sandbox", False, f"cannot be set up: {answer}"
    weak = "" if "landlock" in answer and "seccomp" in answer else " (weaker: judge only code that you trust)"
    return "sandbox", True, answer + weak


def _check_shared_memory() -> Finding:
    if not SHM.is_dir():
        return "shared memory", True, "no /dev/shm: buffers go to the temporary folder"
    free = shutil.disk_usage(SHM).free
    hint = "" if free >= SHM_BYTES else ": large tasks need more (in a container: --shm-size=2g)"
    return "shared memory", free >= SHM_BYTES // 8, f"{free / 2**30:.1f} GiB free in {SHM}{hint}"


def _check_cache(folder: Path) -> Finding:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        return (
            "cache",
            False,
            f"{folder}: {error.strerror}: {CACHE_REMEDY}",
        )
    hint = "" if free >= CACHE_BYTES else ": make room"
    return "cache", free >= CACHE_BYTES // 8, f"{folder}, {free / 2**30:.1f} GiB free{hint}"


def _check_archive(path: Path | ArchiveUrl) -> Finding:
    try:
        archive = Archive(path)
        counts = archive.counts()
        archive.close()
    except WarpsmithError as error:
        return "archive", False, str(error)
    contents = f"{counted(counts['runs'], 'run')}, {counted(counts['results'], 'result')}"
    return "archive", True, f"{path}: {contents}"


def _run(command: list[str], timeout: float) -> tuple[bool, str]:
    """Run a command; return its success and its last line of output."""
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    lines = (completed.stdout if completed.returncode == 0 else completed.stderr).strip().splitlines()
    return completed.returncode == 0 and bool(lines), lines[
        -1
    ] if lines else f"exit code {completed.returncode}"
