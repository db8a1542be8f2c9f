"""A seal on what measures and copies: it must still be what was loaded.

In: nothing. Out: a `Seal`, taken before a solution's code runs, that names what was replaced, added or taken away since. The
dictionaries of the judge's modules, of their classes, of `builtins`, the running program and the tensor classes are compared
whole: functions with their code and defaults, constants, double-underscore methods. Of other modules it compares each function and
class that the judge's own code uses. What it cannot stop is bounded by the supervisor's own clock and by the bytes.
"""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from ..judge import layout
from ..judge.isolation import arena
from ..judge.timing import cuda_clock, heap, input_perturbation, stopwatch
from ..processes import buffers, worker
from ..runtime import tensors
from ..tasks import values

TENSOR_CLASSES = (torch.Tensor, torch._C.TensorBase, torch.nn.Parameter)
JUDGE_MODULES = (
    stopwatch, cuda_clock, input_perturbation, heap, worker, values, tensors, buffers, arena, layout,
)  # fmt: skip
# Python itself writes these; `__builtins__` is compared as the module that it names.
WRITTEN_BY_PYTHON = frozenset({"__warningregistry__", "__builtins__", "__static_attributes__", "_"})

Fingerprint = tuple[Any, ...]


class Seal:
    """What the judge's names mean at the time it is made."""

    def __init__(self, *extra: type | ModuleType) -> None:
        modules = [
            *JUDGE_MODULES, sys.modules[__name__], sys.modules["__main__"], *(e for e in extra if isinstance(e, ModuleType)),
        ]  # fmt: skip
        classes = [*TENSOR_CLASSES, *(e for e in extra if isinstance(e, type))]
        for module in modules:
            classes += [v for v in vars(module).values() if _is_class_of(v, module)]
        owners: list[Any] = [builtins, *modules, *classes]
        self._whole = [(owner.__name__, vars(owner)) for owner in dict.fromkeys(owners)]
        self._used = list(_list_used(modules, classes))
        self._kept = dict(self._look())

    def find_broken(self) -> str:
        """The name of the first thing that is not what it was, else empty."""
        current = dict(self._look())
        changed = (n for n, was in self._kept.items() if n not in current or not _same(was, current[n]))
        return next(changed, "") or next((n for n in current if n not in self._kept), "")

    def _look(self) -> Iterator[tuple[str, Fingerprint]]:
        for owner, names in self._whole:
            for name, value in list(names.items()):
                if name not in WRITTEN_BY_PYTHON:
                    yield f"{owner}.{name}", _fingerprint(value)
        for module, name in self._used:
            yield f"{module.__name__}.{name}", _fingerprint(getattr(module, name, None))


def _is_class_of(value: Any, module: ModuleType) -> bool:
    return type(value) is type and value.__module__ == module.__name__


def _list_used(modules: list[ModuleType], classes: list[type]) -> Iterator[tuple[Any, str]]:
    """List the callables of other modules, and of torch's own classes, that the judge's code may look up."""
    names: set[str] = set()
    for owner in (*modules, *classes):
        for value in vars(owner).values():
            function = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if isinstance(function, FunctionType):
                names |= _names_in(function.__code__)
    used: dict[int, Any] = {id(v): v for m in modules for v in vars(m).values() if isinstance(v, ModuleType)}
    watched = [torch.cuda, torch.cuda.Event, torch.cuda.Stream, json.encoder, json.decoder, *used.values()]
    for owner in dict.fromkeys(watched):
        if owner not in modules:
            candidates = sorted(names | _public(owner))
            yield from ((owner, n) for n in candidates if callable(vars(owner).get(n)))


def _public(module: Any) -> set[str]:
    """List all of a small module's public functions: one that measures may call others of its module."""
    public = {n for n, v in vars(module).items() if callable(v) and not n.startswith("_")}
    return public if len(public) < 100 else set()


def _names_in(code: CodeType) -> set[str]:
    nested = (c for c in code.co_consts if isinstance(c, CodeType))
    return {*code.co_names, *(n for inner in nested for n in _names_in(inner))}


def _fingerprint(value: Any) -> Fingerprint:
    """A value, and the parts of it that can change while it stays the same object."""
    inner = value.__func__ if type(value) in (staticmethod, classmethod, MethodType) else value
    if type(inner) is FunctionType:
        defaults = inner.__kwdefaults__
        cells = tuple(_content(c) for c in inner.__closure__ or ())
        return (
            value, inner.__code__, inner.__defaults__, *(defaults or {}).items(), *cells, *vars(inner).items(),
        )  # fmt: skip
    if type(inner) is property:
        return (value, *(_fingerprint(f) for f in (inner.fget, inner.fset) if f is not None))
    if type(inner) is dict:
        return (value, *inner.items())
    if type(inner) in (list, set, frozenset):
        return (value, *inner)
    return (value,)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


def _same(was: Any, now: Any) -> bool:
    """Return whether two fingerprints are one: by identity, part by part; nobody's own `==` runs, but that of builtin types."""
    if was is now:
        return True
    if type(was) is not type(now):
        return False
    if type(was) is tuple:
        return len(was) == len(now) and all(_same(a, b) for a, b in zip(was, now, strict=True))
    # Attribute lookup makes bound builtin methods anew each time.
    plain = type(was).__module__ == "builtins" and type(was) not in (type, FunctionType)
    return plain and type(was) not in (dict, list, set, frozenset) and bool(was == now)


__all__ = ["Seal"]
