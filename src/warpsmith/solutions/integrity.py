"""A seal on the functions that measure and copy: they must still be those that were loaded.

In: nothing. Out: a `Seal`, taken before a solution's code runs, that names what was replaced since. It stops
the usual patches of timers and comparisons (`time.perf_counter_ns`, `torch.cuda.Event`, `torch.allclose`, a
method of the stopwatch); what it cannot stop is bounded by the supervisor's own clock and by the bytes.
"""

from __future__ import annotations

import gc
import json
import os
import random
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
_TENSOR = (
    "copy_", "fill_", "as_strided", "view", "clone", "detach", "shape", "dtype", "stride", "data_ptr", "mul_",
    "__imul__", "__getitem__", "__setitem__", "__eq__",
)  # fmt: skip
_CUDA = ("synchronize", "current_stream", "Event", "Stream")


class Seal:
    """Identities of functions, and of their code, at the time it is made."""

    def __init__(self, *extra: type | ModuleType) -> None:
        self._owners = extra
        self._kept = dict(self._look())

    def find_broken(self) -> str:
        """The name of the first function that is not what it was, else empty."""
        current = dict(self._look())
        return next((n for n, was in self._kept.items() if not _same(was, current.get(n))), "")

    def _look(self) -> Iterator[tuple[str, tuple[Any, Any]]]:
        watched: list[tuple[Any, tuple[str, ...]]] = [
            (time, tuple(n for n in dir(time) if not n.startswith("_"))),
            (gc, ("get_objects", "collect", "disable", "freeze")), (json, ("dumps", "loads")),
            (os, ("write", "read")), (random, ("Random", "choice", "shuffle")), (torch, _TORCH),
            (torch.Tensor, _TENSOR), (torch.cuda, _CUDA), (torch.cuda.Event, ("record", "elapsed_time")),
        ]  # fmt: skip
        owners = (stopwatch, cuda_clock, input_perturbation, heap, heap.Holes, worker, values, *self._owners)
        watched += [(owner, _functions(owner)) for owner in owners]
        for owner, names in watched:
            for name in names:
                function = getattr(owner, name, None)
                yield f"{owner.__name__}.{name}", (function, getattr(function, "__code__", None))


def _functions(owner: Any) -> tuple[str, ...]:
    return tuple(n for n, v in vars(owner).items() if callable(v) and not n.startswith("__"))


def _same(was: tuple[Any, Any], now: tuple[Any, Any] | None) -> bool:
    # Attribute lookup on a class makes builtin methods anew each time, so equality where identity fails.
    if now is None or was[1] is not now[1]:
        return False
    return was[0] is now[0] or (type(was[0]) is type(now[0]) and bool(was[0] == now[0]))
