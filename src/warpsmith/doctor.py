"""Can this machine run Warpsmith?

In: the settings. Out: findings, each what was looked at, whether it is well, and a fact or a hint. Nothing is
changed, apart from the archive and cache folders being made.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import plugins
from .archive.store import Archive
from .config import CACHE_REMEDY, Config
from .errors import WarpsmithError
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
