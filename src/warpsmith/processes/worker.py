"""A child Python process that answers one JSON object a line, over pipes of its own.

`Worker(module)` runs a module as `python -m module` does, in its own session with its own working directory, forked from a server that has
imported it (`forked.py`); `call(op, …)` sends a request and returns the answer. The child side is `serve(handlers)`. Standard output and error of the child go to a log file in its
working directory, so that nothing a task prints is ever taken for an answer. A worker is killed with everything it started.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from ..errors import JudgeError, WarpsmithError
from .forked import WORKER_ENV, Forked, Unfit, fork
from .waiting import is_readable

MAX_LINE_BYTES = 64 << 20  # of one message; a child that sends more is broken


class WorkerFailed(WarpsmithError):
    """The child answered with an error. `kind` is the exception's class name there."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class WorkerDied(WarpsmithError):
    """The child ended without an answer (crash, kill, out of memory)."""


class WorkerTimeout(WarpsmithError):
    """The child did not answer in time and was killed."""


def make_cache_folder(folder: Path) -> dict[str, str]:
    """Make the folder for torch's compiled code and return the variables that name it: a confined process can create none,
    least of all where the user's settings say.
    """
    cache_folder = folder / "caches"
    cache_folder.mkdir(exist_ok=True)
    return {name: str(cache_folder) for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}


class Worker:
    def __init__(
        self,
        module: str,
        workdir: Path,
        env: Mapping[str, str] | None = None,
        inherit: bool = True,
        args: tuple[str, ...] = (),
        preload: tuple[str, ...] = (),
    ) -> None:
        """`preload`: modules that the fork server imports before, for this worker and later ones; its own always. Without
        `inherit` it starts by itself, and has nothing of this process's environment.
        """
        self.module, self.workdir = module, workdir
        workdir.mkdir(parents=True, exist_ok=True)
        self.log = workdir / "log.txt"
        request_r, self._request = os.pipe()
        self._answer, answer_w = os.pipe()
        self._buffer = b""
        variables = {
            **(os.environ if inherit else {}),
            **make_cache_folder(workdir),
            **(env or {}),
            **(WORKER_ENV if inherit else {}),
            "PYTHONUNBUFFERED": "1",
        }
        self.process: subprocess.Popen[bytes] | Forked
        try:
            with self.log.open("ab") as log:
                files = (request_r, answer_w, log.fileno())
                try:
                    if not inherit:
                        raise Unfit
                    needed = (module, *preload) if module.startswith("warpsmith.") else preload
                    self.process = fork(module, args, variables, workdir, files, needed)
                except Unfit:
                    self.process = self._start_interpreter(args, variables, files)
        except OSError as error:
            raise JudgeError(f"cannot start a {module} process: {error}") from error
        finally:
            os.close(request_r)
            os.close(answer_w)

    def _start_interpreter(
        self, args: tuple[str, ...], variables: Mapping[str, str], files: tuple[int, int, int]
    ) -> subprocess.Popen[bytes]:
        """Start the worker as an interpreter of its own, without the fork server."""
        request, answer, log = files
        return subprocess.Popen(
            [sys.executable, "-m", self.module, str(request), str(answer), str(os.getpid()), *args],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.workdir, start_new_session=True,
            pass_fds=(request, answer), env=dict(variables),
        )  # fmt: skip

    def call(self, op: str, timeout: float = 60.0, **fields: Any) -> dict[str, Any]:
        """Send one request and wait for its answer. Raises WorkerFailed, WorkerDied or WorkerTimeout."""
        self.send(op, **fields)
        return self.receive(timeout)

    def send(self, op: str, **fields: Any) -> None:
        try:
            _write_message(self._request, {"op": op, **fields})
        except OSError as error:
            raise self._make_died_error() from error

    def receive(self, timeout: float) -> dict[str, Any]:
        line = self._read_line(time.monotonic() + timeout)
        try:
            answer = json.loads(line)
            if not isinstance(answer, dict):
                raise TypeError("not an object")
        except (ValueError, TypeError) as error:
            self.close()
            raise WorkerDied(f"{self.module} sent a malformed answer") from error
        if "error" in answer:
            raise WorkerFailed(str(answer.get("kind", "Error")), str(answer["error"]))
        return answer

    def _read_line(self, deadline: float) -> bytes:
        while b"\n" not in self._buffer:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or not is_readable(self._answer, remaining_s):
                self.close()
                raise WorkerTimeout(f"{self.module} gave no answer in time and was stopped")
            chunk = os.read(self._answer, 1 << 20)
            if not chunk or len(self._buffer) > MAX_LINE_BYTES:
                raise self._make_died_error()
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def _make_died_error(self) -> WorkerDied:
        self.close()
        code = self.process.returncode
        ending = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        return WorkerDied(f"{self.module} ended unexpectedly ({ending})")

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def pause(self) -> None:
        """Stop the process and what it started until `resume`; nothing where it has ended."""
        if self.alive:
            pause_group(self.process.pid)

    def resume(self) -> None:
        if self.alive:
            resume_group(self.process.pid)

    def close(self) -> None:
        """Kill the process and everything it started. Safe to call twice."""
        kill_tree(self.process)
        for fd in (self._request, self._answer):
            if fd >= 0:
                os.close(fd)
        self._request = self._answer = -1

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pause_group(pid: int) -> None:
    """Stop a process group until `resume_group`; nothing where it has ended."""
    _quietly(os.killpg, pid, signal.SIGSTOP)


def resume_group(pid: int) -> None:
    _quietly(os.killpg, pid, signal.SIGCONT)


def kill_tree(process: subprocess.Popen[bytes] | Forked) -> None:
    """SIGKILL to the process's group and to every descendant, wherever it moved itself."""
    if process.poll() is None:
        try:
            family = psutil.Process(process.pid).children(recursive=True)
        except psutil.Error:
            family = []
        _quietly(os.killpg, process.pid, signal.SIGKILL)
        _quietly(os.kill, process.pid, signal.SIGKILL)  # a forked one that has no group of its own yet
        for child in family:
            _quietly(os.kill, child.pid, signal.SIGKILL)
    else:
        _quietly(os.killpg, process.pid, signal.SIGKILL)
    process.wait()


def _quietly(call: Callable[..., object], *args: object) -> None:
    try:
        call(*args)
    except OSError:
        return


def die_with_parent(parent_pid: int, how: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when its parent dies; end at once if it already has."""
    ctypes.CDLL(None).prctl(1, how, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent_pid:
        os._exit(1)


def serve(handlers: Mapping[str, Callable[..., dict[str, Any] | None]]) -> None:
    """Answer requests until the pipe closes. An exception becomes an error answer of one line. An answer's `after`, a function, is
    called when the answer has been written, which no clock of the other side holds; what it raises answers the next request.
    """
    request_fd, answer_fd, parent = (int(a) for a in sys.argv[1:4])
    die_with_parent(parent)
    failure: dict[str, Any] | None = None
    with os.fdopen(request_fd, "rb") as requests:
        for line in requests:
            message = json.loads(line)
            answer = failure or _answer(handlers[message.pop("op")], message)
            after = answer.pop("after", None)
            _write_message(answer_fd, answer)
            failure = _answer(after, {}) if after is not None else None


def tell(**fields: Any) -> None:
    """Send the other side a message of the request that is being served, before its answer; `Worker.receive` returns it."""
    _write_message(int(sys.argv[2]), fields)


def _write_message(file: int, message: Mapping[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(file, data) :]


def _answer(handler: Callable[..., dict[str, Any] | None], fields: dict[str, Any]) -> dict[str, Any]:
    try:
        return handler(**fields) or {}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the process boundary
        if not isinstance(error, WarpsmithError):
            import traceback

            traceback.print_exc()
        return {"error": one_line(error), "kind": type(error).__name__}


def one_line(error: BaseException, limit: int = 300) -> str:
    """The first non-empty line of an exception's message, with what follows its colon and with a compiler's first error; with
    its class when the message alone says little.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines.pop(0) if lines else ""
    while lines and text.endswith(":"):
        text = f"{text} {lines.pop(0)}"
    text += next((f": {line}" for line in lines if "error: " in line), "")
    name = type(error).__name__
    text = text if isinstance(error, WarpsmithError) else (f"{name}: {text}" if text else name)
    return text[:limit]
