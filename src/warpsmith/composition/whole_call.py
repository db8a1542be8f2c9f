"""The part of a composition that is no kernel: calls of the whole model, or of most of it, as one CUDA graph.

In: a module of the composed model and a call that was recorded. Out: its place in the composition, and whether replays answer like
launches, whatever the call's tensors hold: bit by bit, or as near as a library may come that computes otherwise while it is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..runtime.full_graph import FullGraph, GraphedCall, equal_bits
from ..runtime.graph_replays import CALLS_BEFORE
from ..runtime.stand_in import StandIn
from ..tasks.flattened import CallShape
from ..tasks.functions import find_called_function
from ..tasks.structure import list_held, take_apart
from .outputs import Run

CHECKED_REPLAYS = 3  # with other contents each
# Of the root mean square, that an answer may miss. Other algorithms miss less, and an input that a graph does not read far more.
NEAR = {torch.bfloat16: 0.05, torch.float16: 0.02}
NEAR_FLOAT = 1e-3


@dataclass(frozen=True)
class WholeCall:
    """A module, by its path, and the arguments of one of its calls."""

    name: str
    path: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    saving_share: float = 0.0  # predicted, of the model's time

    def stand_in_for(self, module: torch.nn.Module) -> FullGraph:
        """Return a full graph for such calls of a module. Raises TaskError for arguments that cannot be taken apart."""
        return FullGraph(module, GraphedCall.of(module, self.args, self.kwargs))


class _Probe(StandIn):
    def __init__(self, original: torch.nn.Module) -> None:
        super().__init__(original)
        self._complete = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.fast_calls += 1
        return self.original(*args, **kwargs)


def calls_stand_in(run: Run, model: torch.nn.Module) -> bool:
    """Run the workload with a stand-in for the model; tell whether it is called. A method of the model, as `generate`, calls the model instead."""
    probe = _Probe(model)
    try:
        run(probe)
    except Exception:  # noqa: BLE001 - the user's code, which may ask for the model's class
        return False
    return probe.fast_calls > 0


def find_difference(graph: FullGraph, call: WholeCall) -> str:
    """Return how the answers of replays differ from those of the module itself; empty where they do not. The arguments' values are shuffled for
    each call; what instances hold, as a cache, stays where it is, and is as before for both.
    """
    shape = CallShape.of(find_called_function(graph.original), call.args, call.kwargs)
    kept_in_place = set(list_held(shape.tree))
    steady = [t.detach().clone() for t in shape.parts.leaves]
    replays = graph.fast_calls
    state = [(t, t.clone()) for t in (*(steady[i] for i in kept_in_place), *graph.original.buffers())]
    for number in range(CALLS_BEFORE + CHECKED_REPLAYS + 1):
        leaves = [t if i in kept_in_place else _shuffle(t, number) for i, t in enumerate(steady)]
        args, kwargs, _ = shape.arguments(leaves)
        truth = _list_after(graph.original, args, kwargs, leaves)
        _restore(state)
        answer = _list_after(graph, args, kwargs, leaves)
        if isinstance(truth, str):
            return f"its results cannot be compared: {truth}"
        if isinstance(answer, str):
            return f"its results cannot be compared: {answer}"
        if len(answer) != len(truth) or not all(map(_is_near, answer, truth)):
            return f"call {number + 1} of the same kind has another answer"
        _restore(state)
    return "" if graph.fast_calls > replays else graph.last_fallback or "no call was a replay"


@torch.no_grad()
def _list_after(
    module: torch.nn.Module, args: Any, kwargs: Any, leaves: Sequence[Tensor]
) -> list[Tensor] | str:
    """Call it; copy its results and what its arguments hold by then. Return why not as a line: its code may refuse shuffled values."""
    try:
        results = take_apart(module(*args, **kwargs))[1].leaves
    except Exception as error:  # noqa: BLE001 - the user's code
        return next(iter(str(error).splitlines()), type(error).__name__)
    return [t.detach().clone() for t in (*results, *leaves)]


@torch.no_grad()
def _restore(state: Iterable[tuple[Tensor, Tensor]]) -> None:
    for tensor, content in state:
        tensor.copy_(content)


def _is_near(answer: Tensor, truth: Tensor) -> bool:
    if answer.shape != truth.shape or equal_bits(answer, truth):
        return answer.shape == truth.shape
    if not truth.is_floating_point():
        return False
    error = (answer.double() - truth.double()).square().mean().sqrt()
    return bool(error <= NEAR.get(truth.dtype, NEAR_FLOAT) * truth.double().square().mean().sqrt())


def _shuffle(tensor: Tensor, number: int) -> Tensor:
    """The same values in other places; floating-point ones change their sign every other time."""
    moved = tensor.reshape(-1).roll(number).reshape(tensor.shape)
    return -moved if number % 2 and tensor.is_floating_point() else moved
