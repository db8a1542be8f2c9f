"""The calls inside of a call that came before: each belongs to the group that its predecessor did, so that its arguments are not taken apart again.

In: the calls of one thread. Out: for a call at the same place as one of the last outermost call of the same form, the same module with
tensors of the same shapes, that one's `Step`. What recording takes, a GPU that waits for the host waits for, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Signature = tuple[Any, ...]


@dataclass
class Step:
    """A call inside of an outermost one. `group`: that it was counted in."""

    module: torch.nn.Module
    signature: Signature
    group: Any


class Tape:
    """What the present outermost call of a thread has done so far, beside what the last one of its form did."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._former: Sequence[Step] = ()

    def begin(self, former: Sequence[Step]) -> None:
        """An outermost call begins; `former`: the steps of the last one."""
        self.steps, self._former = [], former

    def follow(self, module: torch.nn.Module, signature: Signature) -> Step | None:
        """Return the former step in this place, if this call is like it; after one that is not, there is none any more."""
        at = len(self.steps)
        if at < len(self._former):
            step = self._former[at]
            if step.module is module and step.signature == signature:
                return step
        self._former = ()
        return None

    def note(self, step: Step) -> None:
        self.steps.append(step)


def sign(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Signature:
    """Describe what is quickly seen of a call: how many arguments it has, their names, types and dtypes of tensors among them."""
    values = (*args, *kwargs.values())
    return (
        len(args), *kwargs, torch.is_grad_enabled(),
        *((v.shape, v.dtype) if isinstance(v, torch.Tensor) else type(v) for v in values),
    )  # fmt: skip
