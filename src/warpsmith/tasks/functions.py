"""Plain functions as modules, and the function whose signature a call of a module follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import TaskError


class FunctionModule(torch.nn.Module):
    """A plain function as a module without parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def as_module(module: torch.nn.Module | Callable[..., Any]) -> torch.nn.Module:
    """The module itself, or a plain function wrapped as one. Raises TaskError for anything else."""
    if isinstance(module, torch.nn.Module):
        return module
    if isinstance(module, type) or not callable(module):
        raise TaskError(f"expected an nn.Module or a function, got {module!r}; build the module first")
    return FunctionModule(module)


def find_called_function(module: torch.nn.Module) -> Callable[..., Any]:
    """The function that takes the arguments of a call: forward, or the function that the module stands for."""
    return module.function if isinstance(module, FunctionModule) else module.forward
