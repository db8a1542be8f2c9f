"""The supervisor's side of the fork server starts workers' processes, waits for them and reads their exit codes.

In: a module, an environment, three files. Out: a `Forked`, with as much of `subprocess.Popen` as a worker needs. There is one
server a supervisor for each set of variables that are read while modules load, such as `LD_PRELOAD`; each child gets the others from its own request.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from .waiting import is_readable

MODULE = "warpsmith.processes.fork_server"
# Beginnings of the names of variables that Python, the loader and libraries read when they start; but for these.
EARLY = (
    "LD_",
    "MALLOC_",
    "GLIBC_",
    "PYTHON",
    "TORCH",
    "PYTORCH",
    "MKL_",
    "KMP_",
    "GOMP_",
    "NVIDIA_",
    "CC",
    "CXX",
)
LATE = ("PYTHONPATH", "PYTHONUNBUFFERED", "TORCHINDUCTOR_CACHE_DIR")
# Of every worker, forked or not: no threads before the fork, and what compiles one module compiles no header in advance, nor in other processes.
WORKER_ENV = {
    "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0", "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}  # fmt: skip
ANSWER_BYTES = 1 << 16
KILLED = -signal.SIGKILL

Key = tuple[tuple[str, str], ...]


class Unfit(Exception):
    """Nothing can be forked from the server: start a process of its own."""


class Server:
    """One fork server. Its process is started by a thread that outlives all others: it dies with it. `doubtful`: whether it was told
    to import modules after which it might not be able to fork.
    """

    doubtful = False

    def __init__(self, early: Mapping[str, str]) -> None:
        self._lock, self._asked = threading.Lock(), 0
        self._control, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = {k: v for k, v in os.environ.items() if not _is_early(k)}
        started = threading.Event()
        self._failed: OSError | None = None

        def live() -> None:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", MODULE, str(server_end.fileno()), str(os.getpid())],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                    start_new_session=True, pass_fds=(server_end.fileno(),), env={**env, **early, **WORKER_ENV},
                )  # fmt: skip
            except OSError as error:
                self._failed = error
                started.set()
            else:
                started.set()
                process.wait()

        threading.Thread(target=live, name="fork server", daemon=True).start()
        started.wait()
        server_end.close()
        if self._failed is not None:
            raise self._failed

    def ask(self, files: Sequence[int] = (), **message: Any) -> dict[str, Any]:
        """Send a request and return the answer. Raises OSError where the server has ended. Whoever was interrupted while it waited has
        left an answer behind, so each says which request it is for.
        """
        with self._lock:
            self._asked += 1
            data = json.dumps({**message, "number": self._asked}).encode()
            socket.send_fds(self._control, [data], list(files)) if files else self._control.send(data)
            while received := self._control.recv(ANSWER_BYTES):
                answer: dict[str, Any] = json.loads(received)
                if answer.pop("number") == self._asked:
                    return answer
        raise ConnectionResetError("the fork server has ended")

    def tell(self, **message: Any) -> None:
        """Send a request that has no answer."""
        with self._lock, suppress(OSError):
            self._control.send(json.dumps(message).encode())

    @property
    def alive(self) -> bool:
        """True while the server's end of the socket is open: it never sends without a request."""
        return not self._lock.acquire(blocking=False) or self._is_silent()

    def _is_silent(self) -> bool:
        try:
            return not is_readable(self._control.fileno())
        finally:
            self._lock.release()


class Forked:
    """A child of a server. As `subprocess.Popen`: `pid`, `returncode`, `poll`, `wait`."""

    def __init__(self, server: Server, pid: int) -> None:
        self._server, self.pid = server, pid
        self.returncode: int | None = None

    @cached_property
    def _end(self) -> int:
        """A descriptor that becomes readable when the child ends. Its pid stays taken until the server reaps it."""
        return os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """Ask the server only when the child has ended: it may be importing."""
        if self.returncode is None and self._has_ended():
            try:
                self.returncode = self._server.ask(op="reap", pid=self.pid)["code"]
            except OSError:
                self.returncode = KILLED  # it died with the server
        return self.returncode

    def _has_ended(self, seconds: float | None = 0.0) -> bool:
        """Wait for so long (None: for ever) for the end."""
        try:
            return is_readable(self._end, seconds)
        except ProcessLookupError:
            return True

    def wait(self) -> int:
        while self.poll() is None:
            self._has_ended(None)
        if "_end" in self.__dict__:
            os.close(self.__dict__.pop("_end"))
        assert self.returncode is not None
        return self.returncode


_servers: dict[tuple[int, Key], Server] = {}
_starting = threading.Lock()


def fork(
    module: str, args: Sequence[str], env: Mapping[str, str], folder: Path, files: tuple[int, int, int],
    preload: Sequence[str],
) -> Forked:  # fmt: skip
    """Run a module with these files as its pipes' ends and its log. Raises Unfit, and OSError where no process starts."""
    early = {k: v for k, v in env.items() if _is_early(k) and k not in WORKER_ENV}
    request = {
        "op": "fork", "module": module, "args": list(args), "env": dict(env), "folder": str(folder.absolute()),
        "processors": sorted(os.sched_getaffinity(0)), "preload": list(preload),
    }  # fmt: skip
    server = _get_server(early)
    answer = server.ask(files, **request)
    if "unfit" in answer and server.doubtful:
        server = _replace_server(early, server)
        answer = server.ask(files, **request)
    if "unfit" in answer:
        raise Unfit(str(answer["unfit"]))
    return Forked(server, int(answer["pid"]))


def start_ahead(modules: Sequence[str], doubtful: Sequence[str] = ()) -> None:
    """Start the server of this process's environment and return while it imports modules, between its requests; where there is one,
    nothing is done. `doubtful`: modules that are tried in a child first, since a process may not be forked any more after them.
    """
    early = {k: v for k, v in os.environ.items() if _is_early(k) and k not in WORKER_ENV}
    with _starting:
        if not _has_server(early):
            with suppress(OSError):  # whoever needs a worker is told
                server = _start_server(early)
                server.doubtful = bool(doubtful)
                server.tell(op="ahead", modules=list(modules), doubtful=list(doubtful))


def _get_server(early: Mapping[str, str]) -> Server:
    with _starting:
        return _servers[_make_key(early)] if _has_server(early) else _start_server(early)


def _has_server(early: Mapping[str, str]) -> bool:
    server = _servers.get(_make_key(early))
    return server is not None and server.alive


def _start_server(early: Mapping[str, str]) -> Server:
    server = _servers[_make_key(early)] = Server(early)
    return server


def _replace_server(early: Mapping[str, str], unfit: Server) -> Server:
    """Start a server that imports nothing ahead; what the other one has forked lives on."""
    with _starting:
        server = _servers[_make_key(early)]
        return _start_server(early) if server is unfit else server


def _make_key(early: Mapping[str, str]) -> tuple[int, Key]:
    return os.getpid(), tuple(sorted(early.items()))  # a supervisor that was forked has its own


def _is_early(name: str) -> bool:
    return name.startswith(EARLY) and name not in LATE
