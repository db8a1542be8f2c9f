"""A content-addressed cache of what a compiler made, safe for many processes and for kill -9 at any moment.

In: files, a command and what decides its outcome. Out: a folder `<cache>/<key>` that holds the files, what
the command made and `build.json` with how it went; failures are kept like successes. A folder is made aside
and renamed whole, so it is there entirely or not at all (after DeepGEMM, `csrc/jit/compiler.hpp`). The
command runs confined: it may write its own folder only, has no network, and is killed with everything it
started when its time is over."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from ..config import CACHE_REMEDY
from ..errors import JudgeError, ToolchainError
from ..processes import sandbox
from ..processes.worker import kill_tree
from ..records import Build

TIMEOUT = 60.0  # seconds for one compilation
MEMORY_BYTES = 4 << 30  # of each process of the compiler
MAX_OUTPUT = 1 << 20  # characters of a compiler's output that are read
RECORD = "build.json"


@dataclass(frozen=True)
class Ran:
    """Commands that ended. `transient`: stopped from outside, so the outcome is not to be kept."""

    code: int
    output: str
    seconds: float
    timed_out: bool = False

    @property
    def transient(self) -> bool:
        return self.timed_out or self.code < 0 or "Killed signal" in self.output


class BuildCache:
    def __init__(self, directory: Path) -> None:
        """`directory` is made on first use. Raises JudgeError when it cannot be."""
        self.directory = directory.absolute()  # the compiler runs in a folder of its own

    @staticmethod
    def key(parts: Sequence[str]) -> str:
        """Forty hex digits over every part; the length of each counts, so no two lists of parts collide."""
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode()
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()[:40]

    def find(self, key: str) -> Build | None:
        """The stored outcome, with the library's path here; None when there is none or it is damaged."""
        folder = self.directory / key
        try:
            build = Build.model_validate_json((folder / RECORD).read_bytes())
        except (OSError, ValueError):
            return None
        if build.ok and not (folder / build.library).is_file():
            return None
        return self._placed(build, folder, cached=True)

    def make(
        self, key: str, files: Mapping[str, str], compile_in: Callable[[Path], tuple[Build, bool]]
    ) -> Build:
        """Write `files` into a folder aside, compile there, keep the outcome under `key`.

        `compile_in(folder)` returns the build, its library named relative to the folder, and whether to
        keep it."""
        with self._full_disk():
            self.directory.mkdir(parents=True, exist_ok=True)
            self._sweep()
            folder = Path(tempfile.mkdtemp(prefix=f".new-{os.getpid()}-", dir=self.directory))
            try:
                for name, text in files.items():
                    (folder / name).write_text(text)
                build, keep = compile_in(folder)
                if not keep:
                    return build.model_copy(update={"library": ""})
                (folder / RECORD).write_text(build.model_dump_json())
                return self._placed(build, self._publish(folder, key), cached=False)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _publish(self, folder: Path, key: str) -> Path:
        final = self.directory / key
        folder.chmod(0o755)
        for _ in range(2):
            try:
                folder.rename(final)
                return final
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            if self.find(key) is not None:  # another process made the same one first
                return final
            shutil.rmtree(final, ignore_errors=True)  # a damaged entry
        return final

    @staticmethod
    def _placed(build: Build, folder: Path, cached: bool) -> Build:
        library = str(folder / build.library) if build.ok else ""
        return build.model_copy(update={"library": library, "cached": cached})

    def _sweep(self) -> None:
        """Remove what killed processes left behind."""
        for old in self.directory.glob(".new-*-*"):
            pid = old.name.split("-")[1]
            if pid.isdigit() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(old, ignore_errors=True)

    @contextlib.contextmanager
    def _full_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JudgeError(
                f"cannot write the build cache {self.directory}: {error.strerror or error}; {CACHE_REMEDY}"
            ) from error


def run_confined(commands: Sequence[Sequence[str]], folder: Path, timeout: float = TIMEOUT) -> Ran:
    """Run commands one after another in `folder` until one fails, confined to it.

    Standard output and error are read as one text. Raises JudgeError on a full disk, ToolchainError
    for no such command.
    """
    script = " && ".join(shlex.join(c) for c in commands)
    argv = sandbox.command(
        [folder],
        memory_bytes=MEMORY_BYTES,
        cpu_seconds=int(2 * timeout) + 1,
        argv=["/bin/sh", "-c", f"{script} 2>&1"],
    )
    # The confined process is told LC_ALL=C so that its messages can be read, and little else.
    kept = {k: os.environ[k] for k in ("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "HOME") if k in os.environ}
    started = time.monotonic()
    process = subprocess.Popen(
        argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True, env={**kept, "LC_ALL": "C", "TMPDIR": str(folder)},
    )  # fmt: skip
    output, timed_out = b"", False
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        kill_tree(process)
    text = output[:MAX_OUTPUT].decode("utf-8", "replace")
    if "No space left on device" in text:
        raise JudgeError(f"the disk that holds the build cache is full: {folder.parent}")
    if process.returncode in (126, 127):  # the shell found no such program
        raise ToolchainError(f"{commands[0][0]} does not run: {text.strip()[-200:]}")
    return Ran(process.returncode, text, time.monotonic() - started, timed_out)
