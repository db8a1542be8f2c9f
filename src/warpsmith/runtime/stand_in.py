"""Modules in the place of another one, whose parameters, attributes and checkpoints they show as their own."""

from __future__ import annotations

from typing import Any

import torch


class ModuleWrapper(torch.nn.Module):
    """A module around `original`. Attributes that it does not have are the original's, and so is its state."""

    def __init__(self, original: torch.nn.Module) -> None:
        super().__init__()
        self.original = original
        self.training = original.training

    def __getattr__(self, name: str) -> Any:
        """Attributes that it does not have are the original's, as whoever calls a layer reads its settings."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            original = self.__dict__.get("_modules", {}).get("original")
            if original is None:
                raise
            return getattr(original, name)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the original's state under the original's names, so that checkpoints fit both."""
        return self.original.state_dict(*args, **kwargs)


class StandIn(ModuleWrapper):
    """Stands where `original` stood. What is not its own is set and loaded there, too.

    Attributes:
        original: The module that was given, unchanged.
        fast_calls: Calls that were answered the quick way.
        fallbacks: Calls that the original answered.
        last_fallback: Why the original answered last; empty where it never did.
    """

    def __init__(self, original: torch.nn.Module) -> None:
        """A subclass sets `_complete` when all that is its own is set."""
        super().__init__(original)
        self.reset_counts()
        self.register_load_state_dict_pre_hook(_take_original_names)

    def reset_counts(self) -> None:
        """Forget which calls were answered so far, and how."""
        self.fallbacks = self.fast_calls = 0
        self.last_fallback = ""

    def _answer_otherwise(self, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
        """Let the original answer a call."""
        self.fallbacks += 1
        self.last_fallback = reason
        return self.original(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of its own, once it is complete, or else the original's, from which it is read, too."""
        attributes = self.__dict__
        if (
            "_complete" not in attributes
            or name in attributes
            or name == "original"
            or hasattr(type(self), name)
        ):
            super().__setattr__(name, value)
        else:
            setattr(attributes["_modules"]["original"], name, value)


def find_surroundings(device: str) -> str:
    """Return why a call runs other operations than its module's code says: autocast, or a transform; empty where none is active."""
    if torch.is_autocast_enabled(device):
        return "autocast is active"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a transform of torch.func (vmap, grad) is active"
    return ""


def _take_original_names(module: torch.nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Let a checkpoint of the original load: its names lie one level deeper here."""
    inner = f"{prefix}original."
    for name in [n for n in state_dict if n.startswith(prefix) and not n.startswith(inner)]:
        state_dict[inner + name.removeprefix(prefix)] = state_dict.pop(name)
