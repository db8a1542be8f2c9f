"""Optional arguments that forward draws itself where the caller gives none: they become inputs of the task.

In: a module, and the arguments of one call. Out: the missing arguments by name. The result of
`forward(self, x, h0=None)` that sets `h0 = torch.randn(...)` depends on chance, and nothing can be compared
with it; with `h0` given it does not. A parameter counts when passing it leaves forward one draw fewer, which
is tried on tensors without memory. Every other draw stays, and the export refuses it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .export import recurrence_in_one_step
from .fake import FakeTensors

FACTORIES: dict[Callable[..., Any], Callable[..., torch.Tensor]] = {
    torch.randn: torch.randn, torch.randn_like: torch.randn, torch.rand: torch.rand, torch.rand_like: torch.rand,
}  # fmt: skip
NAMES = frozenset(f.__name__ for f in FACTORIES)


@dataclass(frozen=True)
class Draw:
    factory: Callable[..., torch.Tensor]
    shape: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        return self.factory(self.shape, dtype=self.dtype)


class DrawRecorder(TorchFunctionMode):
    """Notes every random tensor that torch's factories make inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[Draw] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in FACTORIES:
            self.draws.append(Draw(FACTORIES[func], tuple(result.shape), result.dtype))
        return result


def drawn_arguments(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, fake: bool
) -> dict[str, torch.Tensor]:
    """`fake`: the module and the arguments are without memory, and the mode they were made in is entered."""
    names = _list_undecided(module, args, kwargs)
    if not names:
        return {}
    with nullcontext() if fake else FakeTensors():
        chosen = _choose(module, args, kwargs, names)
    return {name: draw.tensor() for name, draw in chosen.items()}


def _list_undecided(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """Parameters that this call leaves at None, of a forward whose own code draws."""
    forward = inspect.unwrap(type(module).forward)
    code = getattr(forward, "__code__", None)
    if code is None or not NAMES.intersection(code.co_names):
        return []
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError:
        return []  # the export says what does not match
    parameters = bound.signature.parameters.values()
    return [p.name for p in parameters if p.default is None and p.name not in bound.arguments]


def _choose(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], names: list[str]
) -> dict[str, Draw]:
    chosen: dict[str, Draw] = {}
    remaining = _record(module, args, kwargs)
    for name in names:
        if not remaining:
            break
        trial = {**chosen, name: remaining[0]}
        after = _record(module, args, {**kwargs, **{n: d.tensor() for n, d in trial.items()}})
        if after is not None and len(after) < len(remaining):
            chosen, remaining = trial, after
    return chosen


def _record(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Draw] | None:
    """Record what forward draws; None where it fails, for which the export has the words."""
    recorder = DrawRecorder()
    try:
        with torch.no_grad(), recurrence_in_one_step(), recorder:
            module(*args, **kwargs)
    except Exception:  # noqa: BLE001 - the user's code, whose failure the export reports
        return None
    return recorder.draws
