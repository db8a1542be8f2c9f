"""A process can be forked while it has one thread and no CUDA context: a fork keeps neither.

Some modules may start either when they are imported, where there is a GPU. `Trial` imports them in a child and says which leave it fit.
"""

from __future__ import annotations

import array
import ctypes
import importlib
import os
import select
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress

from .worker import die_with_parent

NOT_INITIALISED = 3  # CUDA_ERROR_NOT_INITIALIZED


def why_unfit() -> str:
    """Explain why children of this process would not work; empty when they would."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"{threads} threads"
    with open("/proc/self/maps") as maps:
        driver = next((line.split()[-1] for line in maps if "libcuda.so" in line), "")
    if not driver:
        return ""
    count = array.array("i", [0])
    address = ctypes.c_void_p(count.buffer_info()[0])
    return "" if ctypes.CDLL(driver).cuDeviceGetCount(address) == NOT_INITIALISED else "CUDA has been started"


class Trial:
    """The import of modules, one after another, in a child of this process. `fit`: those at the front that left it fit, once it is over."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = list(modules)
        self._child = 0
        self.fit: list[str] = []

    def wait(self, control: socket.socket) -> bool:
        """Start the child if need be; wait for its end, or for something to read from `control`. Return whether it is over."""
        if not self._modules or (not self._child and why_unfit()):
            return True
        if not self._child:
            self._start(control)
        poll, end = select.poll(), os.pidfd_open(self._child)
        for descriptor in (control.fileno(), end):
            poll.register(descriptor, select.POLLIN)
        poll.poll()
        os.close(end)
        ended, status = os.waitpid(self._child, os.WNOHANG)
        if ended:
            self.fit = self._modules[: max(0, os.waitstatus_to_exitcode(status))]
        return bool(ended)

    def _start(self, control: socket.socket) -> None:
        parent = os.getpid()
        self._child = os.fork()
        if self._child == 0:
            count = 0
            try:
                control.close()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                die_with_parent(parent)
                count = count_fit(self._modules)
            finally:
                os._exit(count)


def count_fit(modules: Sequence[str]) -> int:
    """Import modules until one fails or leaves this process unfit; return how many came before it."""
    count = 0
    with suppress(Exception):
        for module in modules:
            importlib.import_module(module)
            if why_unfit():
                break
            count += 1
    return count


__all__ = ["Trial", "why_unfit"]
