"""Tensors that have shapes and no memory, in which a module may also be converted to another dtype.

torch converts a fake parameter (`module.half()`, `module.to(torch.bfloat16)`) by swapping it with its successor, which fails for all of
them: fake tensors are weakly referenced by their mode (torch 2.13: "Couldn't swap"). Here the module gets the successor instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

Convert = Callable[[torch.Tensor], torch.Tensor]


class FakeTensors:
    """A mode in which tensors are fake, which may be entered again; tensors made outside it are let in."""

    def __init__(self) -> None:
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._apply = torch.nn.Module._apply

    def __enter__(self) -> None:
        torch.nn.Module._apply = _replacing(self._apply)  # type: ignore[method-assign]
        self._mode.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._mode.__exit__(*error)
        torch.nn.Module._apply = self._apply  # type: ignore[method-assign]


def _replacing(original: Callable[..., torch.nn.Module]) -> Callable[..., torch.nn.Module]:
    """`torch.nn.Module._apply`, but for parameters that are fake."""
    successors: dict[tuple[int, torch.dtype], tuple[torch.Tensor, torch.nn.Parameter]] = {}

    def successor(parameter: torch.Tensor, convert: Convert) -> torch.nn.Parameter:
        """The same for all modules that share the parameter."""
        with torch.no_grad():
            value = convert(parameter)
        replacement = torch.nn.Parameter(value, requires_grad=parameter.requires_grad)
        return successors.setdefault((id(parameter), value.dtype), (parameter, replacement))[1]

    def apply(self: torch.nn.Module, fn: Convert, recurse: bool = True) -> torch.nn.Module:
        value = {
            n: successor(p, fn)
            for n, p in self._parameters.items()
            if p is not None and isinstance(p, FakeTensor)
        }
        self._parameters.update(dict.fromkeys(value))  # left to us, in their places
        original(self, fn, recurse)
        self._parameters.update(value)
        return self

    return apply
