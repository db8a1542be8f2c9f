"""A seal on the functions that measure and copy: they must still be those that were loaded.

In: nothing. Out: a `Seal`, taken before a solution's code runs, that names what was replaced or added since. The
dictionaries of the tensor classes are compared whole; of `builtins`, the running program and the judge's modules and classes all
functions but those with double underscores; of the standard library and torch the functions that they call. What it cannot stop is bounded by the
supervisor's own clock and by the bytes.
"""

from __future__ import annotations

import builtins
import gc
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

from ..judge.timing import cuda_clock, heap, input_perturbation, stopwatch
from ..processes import worker
from ..tasks import values

_TORCH = (
    "empty", "empty_like", "empty_strided", "as_strided", "frombuffer", "equal", "allclose", "isclose", "no_grad",
)  # fmt: skip
TENSOR_CLASSES = (torch.Tensor, torch._C.TensorBase, torch.nn.Parameter)
_CUDA = ("synchronize", "current_stream", "Event", "Stream")


class Seal:
    """Identities of functions, and of their code, at the time it is made."""

    def __init__(self, *extra: type | ModuleType) -> None:
        self._owners = extra
        self._kept = dict(self._look())

    def find_broken(self) -> str:
        """The name of the first function that is not what it was, else empty."""
        current = dict(self._look())
        changed = (n for n, was in self._kept.items() if not _same(was, current.get(n)))
        return next(changed, "") or next((n for n in current if n not in self._kept), "")

    def _look(self) -> Iterator[tuple[str, tuple[Any, Any]]]:
        watched: list[tuple[Any, tuple[str, ...]]] = [
            (time, tuple(n for n in dir(time) if not n.startswith("_"))),
            (gc, ("get_objects", "collect", "disable", "freeze")), (json, ("dumps", "loads")),
            (os, ("write", "read")), (random, ("Random", "choice", "shuffle")), (torch, _TORCH),
            (torch.cuda, _CUDA), (torch.cuda.Event, ("record", "elapsed_time")),
        ]  # fmt: skip
        modules = (
            stopwatch,
            cuda_clock,
            input_perturbation,
            heap,
            worker,
            values,
            sys.modules["__main__"],
            builtins,
        )
        for owner in (*modules, *self._owners):
            watched.append((owner, _functions(owner)))
        for owner, names in watched:
            for name in names:
                function = getattr(owner, name, None)
                yield f"{owner.__name__}.{name}", (function, getattr(function, "__code__", None))
        for owner in (*TENSOR_CLASSES, heap.Holes):
            for name, value in vars(owner).items():
                yield f"{owner.__name__}.{name}", (value, getattr(value, "__code__", None))


def _functions(owner: Any) -> tuple[str, ...]:
    return tuple(n for n, v in vars(owner).items() if callable(v) and not n.startswith("__"))


def _same(was: tuple[Any, Any], now: tuple[Any, Any] | None) -> bool:
    # Attribute lookup on a class makes builtin methods anew each time, so equality where identity fails.
    if now is None or was[1] is not now[1]:
        return False
    return was[0] is now[0] or (type(was[0]) is type(now[0]) and bool(was[0] == now[0]))
