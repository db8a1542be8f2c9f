"""A content-addressed cache of compiled libraries, safe for many processes and for kill -9 at any moment.

In: files, a command and the parts of its key. Out: a folder `<cache>/<key>` that holds the files, the library and
`build.json`, the record of the build; failures are stored like successes. A folder is filled under a temporary name
and then renamed, so it is there entirely or not at all (after DeepGEMM, `csrc/jit/compiler.hpp`). The
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
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from ..config import CACHE_REMEDY
from ..errors import JudgeError, ToolchainError
from ..processes import sandbox
from ..processes.readable import SYSTEM, python_folders, tool_folders
from ..processes.worker import kill_tree
from ..records import Build

TIMEOUT_S = 60.0  # for one compilation
MEMORY_BYTES = 4 << 30  # of each process of the compiler
MAX_OUTPUT_CHARS = 1 << 20  # characters of a compiler's output that are read
RECORD = "build.json"


@dataclass(frozen=True)
class CommandRun:
    """The outcome of commands. `transient`: they were stopped from outside, so the outcome must not be stored."""

    code: int
    output: str
    seconds: float
    timed_out: bool = False

    @property
    def transient(self) -> bool:
        return self.timed_out or self.code < 0 or "Killed signal" in self.output


class BuildCache:
    def __init__(self, directory: Path) -> None:
        """Creates `directory` on first use. Raises JudgeError when it cannot."""
        self.directory = directory.absolute()  # the compiler runs in a folder of its own
        self._guard = threading.Lock()
        self._held: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # by key

    def hold(self, key: str) -> threading.Lock:
        """Return the lock of a key, so that threads of this process do not make the same one side by side."""
        with self._guard:
            return self._held[key]

    @staticmethod
    def key(parts: Sequence[str]) -> str:
        """Hash every part into forty hex digits; the length of each counts, so no two lists of parts collide."""
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode()
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()[:40]

    def find(self, key: str) -> Build | None:
        """Return the stored outcome, with the library's path here; None when there is none or it is damaged."""
        folder = self.directory / key
        try:
            build = Build.model_validate_json((folder / RECORD).read_bytes())
        except (OSError, ValueError):
            return None
        if build.ok and not (folder / build.library).is_file():
            return None
        return self._locate_library(build, folder, cached=True)

    def make(
        self, key: str, files: Mapping[str, str], compile_in: Callable[[Path], tuple[Build, bool]]
    ) -> Build:
        """Write `files` into a temporary folder, compile there, store the outcome under `key`.

        `compile_in(folder)` returns the build, its library named relative to the folder, and whether to
        keep it."""
        with self._convert_disk_errors():
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
                return self._locate_library(build, self._publish(folder, key), cached=False)
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
    def _locate_library(build: Build, folder: Path, cached: bool) -> Build:
        library = str(folder / build.library) if build.ok else ""
        return build.model_copy(update={"library": library, "cached": cached})

    def _sweep(self) -> None:
        """Remove the temporary folders of killed processes."""
        for folder in self.directory.glob(".new-*-*"):
            pid = folder.name.split("-")[1]
            if pid.isdigit() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _convert_disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JudgeError(
                f"cannot write the build cache {self.directory}: {error.strerror or error}; {CACHE_REMEDY}"
            ) from error


def _list_libraries(commands: Sequence[Sequence[str]]) -> list[str]:
    """List the folders that the commands are told to take libraries from."""
    return [argument[2:] for command in commands for argument in command if argument.startswith("-L/")]


def run_confined(commands: Sequence[Sequence[str]], folder: Path, timeout: float = TIMEOUT_S) -> CommandRun:
    """Run commands one after another in `folder` until one fails, confined to it: beside it they read only the system's and the
    compilers' own files.

    Standard output and error are read as one text. Raises JudgeError on a full disk, ToolchainError
    when there is no such command.
    """
    script = " && ".join(shlex.join(c) for c in commands)
    argv = sandbox.command(
        [folder],
        readable=[
            *SYSTEM,
            *python_folders(),
            *tool_folders(*(c[0] for c in commands)),
            *_list_libraries(commands),
        ],
        memory_bytes=MEMORY_BYTES,
        cpu_seconds=int(2 * timeout) + 1,
        argv=["/bin/sh", "-c", f"{script} 2>&1"],
    )
    # The confined process is told LC_ALL=C so that its messages can be read, and little else.
    env = {k: os.environ[k] for k in ("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "HOME") if k in os.environ}
    start = time.monotonic()
    process = subprocess.Popen(
        argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True, env={**env, "LC_ALL": "C", "TMPDIR": str(folder)},
    )  # fmt: skip
    output, timed_out = b"", False
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        kill_tree(process)
    text = output[:MAX_OUTPUT_CHARS].decode("utf-8", "replace")
    if "No space left on device" in text:
        raise JudgeError(f"the disk that holds the build cache is full: {folder.parent}")
    if process.returncode in (126, 127):  # the shell found no such program
        raise ToolchainError(f"{commands[0][0]} does not run: {text.strip()[-200:]}")
    return CommandRun(process.returncode, text, time.monotonic() - start, timed_out)
