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
from collections.abc import Callable, Iterator
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

MODES, FUNCTION_MODES = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
LIBC_SIGNALS = 1 << 31 | 1 << 32  # 32 and 33, which glibc keeps for threads
ABSENT = object()
OURS = (__name__.partition(".")[0], "__main__")
Part = tuple[Callable[[], list[Any]], list[Any]]  # how to look at it, and the objects that are to be there
Entry = tuple[Any, Any, str, Any, list[Part]]  # owner, its dictionary, a name, what that is, its parts


class Seal:
    """What the judge's names mean at the time it is made. To look whether they still do takes some 0.2 ms, and 50 µs for those
    that `take` uses: that happens between the end of a call and the copying of its outputs.
    """

    def __init__(self, *extra: type | ModuleType, take: Callable[..., Any] | None = None) -> None:
        modules = [
            *JUDGE_MODULES, sys.modules[__name__], sys.modules["__main__"], *(e for e in extra if isinstance(e, ModuleType)),
        ]  # fmt: skip
        classes = [*TENSOR_CLASSES, *(e for e in extra if isinstance(e, type))]
        for module in modules:
            classes += [v for v in vars(module).values() if _is_class_of(v, module)]
        owners: list[Any] = list(dict.fromkeys([builtins, *modules, *classes]))
        self._sizes = [(owner, vars(owner), len(vars(owner))) for owner in owners]
        compared = ((o, n) for o in owners for n in vars(o) if n not in WRITTEN_BY_PYTHON)
        self._sealed = [
            (owner, vars(owner), name, vars(owner)[name], _list_parts(vars(owner)[name]))
            for owner, name in (*compared, *_list_used(modules, classes))
        ]
        reached = _list_reached(take, self._sealed) if take is not None else set()
        self._first = [
            e for e in self._sealed if e[2] in reached or (e[0] in classes and e[2].startswith("__"))
        ]

    def find_broken_first(self) -> str:
        """The same as `find_broken`, of what `take` uses, and of what that uses."""
        return _find_mode() or _find_broken(self._first) or self._find_added()

    def find_broken(self) -> str:
        """The name of the first thing that is not what it was, else empty."""
        return _find_mode() or _find_broken(self._sealed) or self._find_added()

    def _find_added(self) -> str:
        for owner, names, size in self._sizes:
            if len(names) != size:
                sealed = {entry[2] for entry in self._sealed if entry[0] is owner}
                added = [n for n in names if n not in sealed and n not in WRITTEN_BY_PYTHON]
                if added:
                    return f"{owner.__name__}.{added[0]}"
        return ""


def _find_mode() -> str:
    """Name a mode that was entered and not left, whose code would run at the judge's next operation."""
    if MODES() or FUNCTION_MODES():
        return "the stack of torch's modes"
    return ""


def _find_broken(entries: list[Entry]) -> str:
    for owner, names, name, value, parts in entries:
        if names.get(name, ABSENT) is not value:
            return f"{owner.__name__}.{name}"
        if parts and not all(_same(look(), sealed) for look, sealed in parts):
            return f"{owner.__name__}.{name}"
    return ""


def _list_reached(function: Callable[..., Any], entries: list[Entry]) -> set[str]:
    """List the names that a function uses, that those of the judge's functions use which it may call by these names, and so on."""
    code_by_name: dict[str, list[CodeType]] = {}
    for owner, _, name, value, _ in entries:
        inner = getattr(value, "__func__", value)
        if isinstance(inner, FunctionType) and owner is not builtins and inner.__module__.startswith(OURS):
            code_by_name.setdefault(name, []).append(inner.__code__)
    names, pending = set[str](), _names_in(function.__code__)
    while pending:
        names |= pending
        pending = {
            n for name in pending for code in code_by_name.get(name, ()) for n in _names_in(code)
        } - names
    return names


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


def _same(now: list[Any], sealed: list[Any]) -> bool:
    """Compare by identity: nobody's own `==` runs."""
    return len(now) == len(sealed) and all(a is b for a, b in zip(now, sealed, strict=True))


def _list_parts(value: Any) -> list[Part]:
    """List what can change of a value while it stays the same object."""
    inner = value.__func__ if type(value) in (staticmethod, classmethod, MethodType) else value
    if type(inner) is property:
        return [part for function in (inner.fget, inner.fset) for part in _list_parts(function)]
    looks: list[Callable[[], list[Any]]] = []
    if type(inner) is FunctionType:
        looks = [lambda: _list_function_parts(inner)]
    elif type(inner) is dict:
        looks = [lambda: [part for pair in inner.items() for part in pair]]
    elif type(inner) in (list, set, frozenset):
        looks = [lambda: list(inner)]
    return [(look, look()) for look in looks]


def _list_function_parts(function: FunctionType) -> list[Any]:
    parts: list[Any] = [function.__code__, function.__defaults__, *(function.__defaults__ or ())]
    parts += [part for pair in (function.__kwdefaults__ or {}).items() for part in pair]
    parts += [_content(cell) for cell in function.__closure__ or ()]
    parts += [part for pair in vars(function).items() for part in pair]
    return parts


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


def read_caught_signals() -> int:
    """Return the signals that this process handles, a bit each, as the kernel says."""
    with open("/proc/self/status") as status:
        line = next((line for line in status if line.startswith("SigCgt:")), "SigCgt: 0")
    return int(line.split()[1], 16) & ~LIBC_SIGNALS


__all__ = ["Seal", "read_caught_signals"]
