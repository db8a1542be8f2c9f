"""Changes that `forward` makes outside of its module: global variables, variables of an enclosing function, attributes of classes.

A graph holds none of them, so a module that makes some is refused by the variable's name: a counter would stay behind in silence.
In: a module, before a call. Out: after it, the first variable that holds another plain value; all of them are put back.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import TaskError
from .functions import FunctionModule

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True)
class _Variable:
    """A variable by what holds it: a table of globals, a class, or the cell of an enclosing function."""

    name: str
    holder: Any
    key: str = ""

    def read(self) -> Any:
        if isinstance(self.holder, types.CellType):
            return _read(self.holder)
        return (self.holder if isinstance(self.holder, dict) else vars(self.holder)).get(self.key)

    def write(self, value: Any) -> None:
        if isinstance(self.holder, dict):
            self.holder[self.key] = value
        else:
            setattr(self.holder, self.key or "cell_contents", value)


class OutsideState:
    """The plain values that code of a module's classes could assign, at one moment."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._before = [(v, v.read()) for v in _list_variables(module)]

    def refuse_changes(self) -> None:
        """Put back what changed. Raises TaskError with the variable's name."""
        changed = [(variable, value) for variable, value in self._before if variable.read() != value]
        for variable, value in changed:
            variable.write(value)
        if changed:
            raise TaskError(
                f"forward changes {changed[0][0].name}, which lies outside of the module; "
                "make it an argument and a result, or a registered buffer"
            )


def _list_variables(module: torch.nn.Module) -> Iterator[_Variable]:
    visited: set[Any] = set()
    for part in module.modules():
        kind = type(part)
        if isinstance(part, FunctionModule):
            yield from _list_of_function(getattr(part.function, "__func__", part.function))
        if kind in visited or kind.__module__.partition(".")[0] == "torch":
            continue
        visited.add(kind)
        for base in kind.__mro__:
            if base.__module__.partition(".")[0] in ("torch", "builtins", "warpsmith"):
                continue
            yield from _list_of_class(base)
            yield from (v for f in list(vars(base).values()) for v in _list_of_function(f))


def _list_of_class(kind: type) -> Iterator[_Variable]:
    for name, value in list(vars(kind).items()):
        if isinstance(value, _PLAIN) and not name.startswith("__"):
            yield _Variable(f"{kind.__name__}.{name}", kind, name)


def _list_of_function(function: Any) -> Iterator[_Variable]:
    """The globals and the enclosing function's variables that its code assigns."""
    if not isinstance(function, types.FunctionType):
        return
    code, table = function.__code__, function.__globals__
    stored = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_GLOBAL", "STORE_DEREF")}
    for name in sorted(stored & set(table)):
        if isinstance(table[name], _PLAIN):
            yield _Variable(name, table, name)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name in stored and isinstance(_read(cell), _PLAIN):
            yield _Variable(name, cell)


def _read(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


__all__ = ["OutsideState"]
