"""The changes of a call beside what it returns: attributes of the module, and objects that it was given or that they hold.

In: objects, or a module, before a call. Out: which of them differ after it, and all of them as they were. An object is compared
by what it holds, item by item: the same object, or an equal number or string.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .structure import NotRebuildable, Parts

_RECURRENT = {"_flat_weights", "_flat_weight_refs"}  # of recurrent layers, whose subclasses are users' own
_TORCHS_OWN = frozenset(vars(torch.nn.Module())) | {"forward"}
_HOOKS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)  # fmt: skip
_ABSENT = object()
_PLAIN = (bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)
_Holding = tuple[list[Any] | None, dict[Any, Any] | None, dict[str, Any] | None]


class Snapshot:
    """The contents of mutable objects at one moment."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._kept = [(part, _holding(part)) for part in objects]

    def list_changed(self) -> list[int]:
        """Positions of the objects that hold something else now."""
        return [n for n, (part, before) in enumerate(self._kept) if not _equal(before, _holding(part))]

    def restore(self) -> None:
        """Put back what changed. The rest is not touched: it may refuse that, as a frozen dict does."""
        for part, (items, pairs, attributes) in [self._kept[n] for n in self.list_changed()]:
            if items is not None:
                part[:] = items
            if pairs is not None:
                part.clear()
                part.update(pairs)
            if attributes is not None:
                vars(part).clear()
                vars(part).update(attributes)


@contextmanager
def keep_buffers(module: torch.nn.Module) -> Iterator[None]:
    """Leave the module's buffers as they are: calls in the block change their values for the block alone."""
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                if name in buffers:
                    buffer.copy_(buffers[name])


class ModuleState:
    """The attributes of a module and its submodules at one moment, but for what torch keeps there itself, and their hooks.

    Libraries install hooks at the first call and note that in an attribute: one without the other installs them twice.
    """

    def __init__(self, module: torch.nn.Module, apart: type[torch.nn.Module] | None = None) -> None:
        """`apart`: a class of modules whose own attributes do not count."""
        counting = [
            (path, part) for path, part in module.named_modules() if not apart or not isinstance(part, apart)
        ]
        self._attributes = [(path, part, list_attributes(part)) for path, part in counting]
        self._hooks = Snapshot(vars(part)[name] for _, part, _ in self._attributes for name in _HOOKS)
        self._reached: dict[int, list[Any]] = {}  # by address of a value: the objects that it leads to
        for _, _, values in self._attributes:
            for value in values.values():
                if id(value) not in self._reached:
                    self._reached[id(value)] = _reach(value)
        objects = {id(o): o for several in self._reached.values() for o in several}
        self._objects = list(objects.values())
        self._snapshot = Snapshot(self._objects)

    def changes(self) -> list[tuple[str, str]]:
        """(qualified name of the module, name) of each attribute that is new, gone, another one or holds something else."""
        altered = {id(self._objects[n]) for n in self._snapshot.list_changed()}
        differing = []
        for path, part, before in self._attributes:
            if type(part).__module__.startswith("torch."):
                continue  # what torch's own modules keep follows from their parameters
            current = list_attributes(part)
            for name in dict.fromkeys(n for n in [*before, *current] if n not in _RECURRENT):
                value = before.get(name, _ABSENT)
                attributes = self._reached.get(id(value), ())
                if not _alike(value, current.get(name, _ABSENT)) or any(id(o) in altered for o in attributes):
                    differing.append((path, name))
        return differing

    def restore(self) -> None:
        """Every attribute as it was, and what it holds."""
        for _, part, before in self._attributes:
            for name in [n for n in list_attributes(part) if n not in before]:
                vars(part).pop(name)
            vars(part).update(before)
        self._snapshot.restore()
        self._hooks.restore()


def list_attributes(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name not in _TORCHS_OWN}


def _reach(value: Any) -> list[Any]:
    """The mutable objects that a value leads to; none where it cannot be described: it is compared by identity then."""
    if isinstance(value, (*_PLAIN, torch.Tensor, torch.nn.Module)) or value is None or callable(value):
        return []
    parts = Parts()
    try:
        parts.add(value)
    except NotRebuildable:
        return []
    return [o for o in parts.objects if not isinstance(o, (*_PLAIN, tuple, frozenset))]


def _holding(thing: Any) -> _Holding:
    items = list(thing) if isinstance(thing, list) else None
    pairs = dict(thing) if isinstance(thing, dict) else None
    return items, pairs, dict(vars(thing)) if hasattr(thing, "__dict__") else None


def _equal(before: _Holding, now: _Holding) -> bool:
    (items, pairs, attributes), (new_items, new_pairs, new_attributes) = before, now
    if items is not None and (
        len(items) != len(new_items or ()) or not all(map(_alike, items, new_items or ()))
    ):
        return False
    return _equal_dicts(pairs, new_pairs) and _equal_dicts(attributes, new_attributes)


def _equal_dicts(before: dict[Any, Any] | None, now: dict[Any, Any] | None) -> bool:
    if before is None or now is None:
        return before is now
    return before.keys() == now.keys() and all(_alike(v, now[k]) for k, v in before.items())


def _alike(value: Any, other: Any) -> bool:
    if value is other:
        return True
    return type(value) is type(other) and isinstance(value, _PLAIN) and bool(value == other)
