"""The form of a module, apart from its tensors: what its answer depends on, and whether that is as it was when kernels were made.

In: a module. Out: for each of its submodules a `WatchedModule`, whose `find_change` says what is another now: mode, hooks, submodules
put in the place of others, settings. What hangs on objects (a `config`) is not watched. `ModuleForm` is what copies take along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import torch

_SETTING_TYPES = (bool, int, float, str, type(None), torch.dtype)
_TORCHS_OWN = frozenset(vars(torch.nn.Module()))
_ABSENT = object()


class ModuleForm(NamedTuple):
    """What one submodule was like."""

    training: bool
    hooks: int
    children: tuple[tuple[str, str], ...]  # names and classes
    settings: tuple[tuple[str, Any], ...]


class WatchedModule:
    """One submodule, beside what it was like."""

    def __init__(self, module: torch.nn.Module, form: ModuleForm) -> None:
        self.module, self.form = module, form
        self.children = dict(module._modules)
        self.forward = vars(module).get("forward")
        names = [name for name, _ in form.settings]
        self._read = itemgetter(*names) if names else lambda attributes: ()
        values = tuple(value for _, value in form.settings)
        self._values = values[0] if len(values) == 1 else values

    def find_change(self) -> str:
        """Return what is another now; empty where nothing is."""
        module = self.module
        if module.training is not self.form.training:
            return "a submodule's training mode is not the exported one"
        if count_hooks(module) != self.form.hooks:
            return "a submodule has other hooks than when it was exported"
        if module._modules != self.children:
            return f"a submodule of {type(module).__name__} was replaced after the export"
        attributes = vars(module)
        try:
            if self._read(attributes) == self._values and attributes.get("forward") is self.forward:
                return ""
        except (KeyError, RuntimeError):  # it is gone, or a tensor stands there
            pass
        return f"{self._name_change()} of {type(module).__name__} was changed after the export"

    def _name_change(self) -> str:
        attributes = vars(self.module)
        for name, value in self.form.settings:
            current = attributes.get(name, _ABSENT)
            if current is not value and (
                not isinstance(current, (*_SETTING_TYPES, tuple)) or current != value
            ):
                return name
        return "forward"


def watch_modules(module: torch.nn.Module, changing: Iterable[tuple[str, str]] = ()) -> list[WatchedModule]:
    """Watch a module and its submodules. `changing`: attributes, by path and name, that a call changes by itself."""
    names: dict[str, set[str]] = {}
    for path, name in changing:
        names.setdefault(path, set()).add(name)
    return [
        WatchedModule(part, describe_form(part, names.get(path, set())))
        for path, part in module.named_modules()
    ]


def has_same_parts(module: torch.nn.Module, forms: Sequence[ModuleForm]) -> bool:
    """Return whether submodules of the same names and classes are in it as when it was described."""
    parts = list(module.modules())
    return len(parts) == len(forms) and all(
        _list_children(part) == form.children for part, form in zip(parts, forms, strict=True)
    )


def watch_as_before(module: torch.nn.Module, forms: Sequence[ModuleForm]) -> list[WatchedModule]:
    """Watch a copy, which has the same parts, as what it was copied from."""
    return [WatchedModule(part, form) for part, form in zip(module.modules(), forms, strict=True)]


def describe_form(module: torch.nn.Module, changing: Iterable[str] = ()) -> ModuleForm:
    """Describe one submodule. Settings are its numbers, strings, types, and tuples of them."""
    settings = tuple(
        (name, value) for name, value in vars(module).items()
        if name not in _TORCHS_OWN and name not in changing and _is_setting(value)
    )  # fmt: skip
    return ModuleForm(module.training, count_hooks(module), _list_children(module), settings)


def count_hooks(module: torch.nn.Module) -> int:
    """Count how many hooks run around a call of it."""
    return len(module._forward_hooks) + len(module._forward_pre_hooks)


def _is_setting(value: Any) -> bool:
    return isinstance(value, _SETTING_TYPES) or (type(value) is tuple and all(map(_is_setting, value)))


def _list_children(module: torch.nn.Module) -> tuple[tuple[str, str], ...]:
    return tuple((name, type(child).__qualname__) for name, child in module._modules.items())


__all__ = [
    "ModuleForm",
    "WatchedModule",
    "count_hooks",
    "describe_form",
    "has_same_parts",
    "watch_as_before",
    "watch_modules",
]
