"""The fork server is a process that imports the workers' modules once and forks each worker from itself: importing torch takes seconds of
a processor, a fork milliseconds.

`python -m warpsmith.processes.fork_server FD PARENT` answers requests, a JSON object a message, on a socket. `fork` comes with
three files (the worker's two pipes and its log) and names a module that is then run as by `python -m`, in a session, an environment
and a folder of its own; `reap` gives a child's exit code, None while it runs; `ahead` names modules to import while nobody asks, and gets no
answer. A worker sets its number of threads itself: OpenMP read it when it was loaded. The server runs no code but the package's own and stays
single-threaded, without a CUDA context: neither survives a fork. So modules that may start either are tried in a child first. It ends with the
process that started it, and kills all that its children have started: what is stopped then would stay so for ever.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import random
import runpy
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psutil

from .fork_fitness import Trial, why_unfit
from .waiting import is_readable
from .worker import die_with_parent

MAX_REQUEST_BYTES = 4 << 20  # of a request: an environment, mostly
FILES = 3
PAUSE_S = 0.5


class ForkServer:
    def __init__(self, control: socket.socket) -> None:
        self.control = control
        entries = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        self.path = [p for p in sys.path[1:] if p not in entries]
        self.loaded: set[str] = set()
        self.frozen = False  # whether the collector leaves alone all that is loaded
        self.ahead: list[str] = []
        self.passed: list[str] = []  # modules that passed the trial, still to import
        self.trial: Trial | None = None

    def serve(self) -> None:
        """Answer requests until the other end closes."""
        while True:
            self._work_ahead()
            data, files, _, _ = socket.recv_fds(self.control, MAX_REQUEST_BYTES, FILES)
            if not data:
                return
            request = json.loads(data)
            match request["op"]:
                case "ahead":
                    self.ahead += request["modules"]
                    self.trial = Trial(request["doubtful"])
                    continue
                case "fork":
                    answer = self._fork(request, files)
                case _:
                    answer = {"code": reap(request["pid"])}
            self.control.send(json.dumps({**answer, "number": request["number"]}).encode())

    def _work_ahead(self) -> None:
        """Import what was named ahead, one module after another, until there is a request. What passed the trial waits for a pause:
        the first workers, which come one upon another, do not need it here.
        """
        while not is_readable(self.control.fileno(), PAUSE_S if self.passed and not self.ahead else 0.0):
            if modules := self.ahead or self.passed:
                self._load([modules.pop(0)])
            elif self.trial is None:
                return
            elif self.trial.wait(self.control):
                self.passed, self.trial = self.trial.fit, None

    def _fork(self, message: dict[str, Any], files: Sequence[int]) -> dict[str, Any]:
        """Fork a child; return {"pid"}, or {"unfit"} with the reason why nothing can be forked."""
        try:
            self._load(message["preload"])
            reason = why_unfit()
            if reason:
                return {"unfit": reason}
            self._freeze()
            pid = os.fork()
            if pid == 0:
                self.control.close()
                run_child(message, files, self.path)
            return {"pid": pid}
        finally:
            for file in files:
                os.close(file)

    def _load(self, modules: Sequence[str]) -> None:
        """Import modules that are not loaded yet. A worker reports a failed import itself."""
        for module in modules:
            if module not in self.loaded:
                with suppress(Exception):
                    importlib.import_module(module)
                self.loaded.add(module)
                self.frozen = False

    def _freeze(self) -> None:
        """Have the children share the pages of what is loaded, as long as no collector writes to them."""
        if not self.frozen:
            gc.collect()
            gc.freeze()
            self.frozen = True


def run_child(message: dict[str, Any], files: Sequence[int], path: Sequence[str]) -> None:
    """Run the module in the fork, and exit."""
    code, server = 1, os.getppid()
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        _set_process_name(message["module"])
        request, answer, log = files
        quiet = os.open(os.devnull, os.O_RDONLY)
        for file, number in ((quiet, 0), (log, 1), (log, 2)):
            os.dup2(file, number)
        os.chdir(message["folder"])
        with suppress(OSError):  # a processor that has been taken away meanwhile
            os.sched_setaffinity(0, message["processors"])
        os.environ.clear()
        os.environ.update(message["env"])
        entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [message["folder"], *(p for p in entries if p), *path]
        sys.argv = [message["module"], str(request), str(answer), str(server), *message["args"]]
        importlib.invalidate_caches()
        _seed_generators()
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # it is loaded already
            runpy.run_module(message["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter would
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _set_process_name(module: str) -> None:
    """Set the name that `ps` and `top` show for this process: its command line is the server's. Linux keeps 15 characters:
    "judge.reference" says more than "judge.correctne".
    """
    parts = module.removeprefix("warpsmith.").split(".")
    name = ".".join(dict.fromkeys((parts[0], parts[-1]))).encode()[:15]
    ctypes.CDLL(None).prctl(15, ctypes.c_char_p(name), 0, 0, 0)  # PR_SET_NAME


def _seed_generators() -> None:
    """Seed the generators anew: children that share a state would draw the same numbers."""
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()


def reap(pid: int) -> int | None:
    """Return the exit code of a child, negative for a signal; None while it runs."""
    try:
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if ended_pid else None


def end_server(*_: object) -> None:
    """Kill all descendants, and exit. The parent's death is signalled twice, by SIGTERM and by the socket; a second start in
    the middle would miss the children of a killed child, so SIGTERM is ignored from here on.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            process.kill()
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, end_server)
    die_with_parent(int(sys.argv[2]), signal.SIGTERM)
    ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve()
    end_server()


if __name__ == "__main__":
    main()
