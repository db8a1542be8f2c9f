"""A call of a whole model, or of most of it, as one CUDA graph: the host matches the call and launches once, however many layers there are.

In: a module, optimized layers in it or not, and one of its calls. Out: `FullGraph`, which replays the calls that are like that one. The module
itself answers all others, and the first ones. Layers inside have no graphs of their own then: theirs are the piecewise ones, this is the full one.

Source: PyTorch's notes on CUDA semantics, "CUDA Graphs"; the names are those of servers of language models ("full" and "piecewise" CUDA graphs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import TaskError
from ..tasks.flattened import CallShape
from ..tasks.functions import find_called_function
from ..tasks.module_state import ModuleState, Snapshot, keep_buffers, list_attributes
from ..tasks.outside_state import OutsideState
from ..tasks.structure import NotRebuildable, Parts, list_held, take_apart
from .calls import CallMatcher, Matched, Results
from .graph_replays import Device, GraphReplays, Leaves, launches_only
from .module_form import WatchedModule, count_hooks, watch_modules
from .stand_in import StandIn, find_surroundings

Spec = tuple[torch.Size, torch.dtype, torch.device]


class GraphedCall(NamedTuple):
    """The kind of calls that is replayed: how arguments nest, the classes in them by name, shapes, and which tensors instances keep."""

    tree: Any
    names: Mapping[str, Any]
    specs: tuple[Spec, ...]
    in_instances: frozenset[int]

    @classmethod
    def of(cls, module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> GraphedCall:
        """Describe a call. Raises TaskError for arguments that cannot be taken apart."""
        shape = CallShape.of(find_called_function(module), args, kwargs)
        if not shape.parts.leaves:
            raise TaskError("a call without a tensor is no call to replay")
        specs = tuple(map(_describe, shape.parts.leaves))
        return cls(shape.tree, shape.parts.names, specs, frozenset(list_held(shape.tree)))

    def build(self, leaves: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
        """Make arguments of these tensors; return the mutable objects among them, too."""
        parts = Parts()
        parts.names = dict(self.names)
        return CallShape(self.tree, parts).arguments(leaves)


class FullGraph(StandIn):
    """A stand-in whose calls of one kind are replays of one CUDA graph. A copy captures its own.

    It applies without gradients and autocast, on one GPU, where the module and what it holds are as at the first call, and where a call
    changes nothing but its results and tensors that stay where they are: a cache of a fixed size, buffers.
    """

    def __init__(self, original: torch.nn.Module, call: GraphedCall, device: Device | None = None) -> None:
        super().__init__(original)
        self._graphed, self._device = call, device
        self._matcher = CallMatcher(find_called_function(original), call.tree)
        self._watched: list[WatchedModule] | None = None
        self._tensors: list[Callable[[], Any]] = []
        self._replays: GraphReplays | None = None
        self._results: Results | None = None
        self._refusal = ""  # why no call is replayed
        self._complete = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.original(*args, **kwargs)
        matched = self._match(args, kwargs)
        if isinstance(matched, str):
            return self._answer_otherwise(args, kwargs, matched)
        inputs, objects = matched
        if self._replays is None:
            self._begin(inputs)
            if self._refusal:
                return self._answer_otherwise(args, kwargs, self._refusal)
        assert self._replays is not None
        before = self._replays.replays
        leaves = self._replays(inputs)
        self.fast_calls += self._replays.replays - before
        self._refusal = self.last_fallback = (
            self._replays.reason
        )  # layers inside have graphs of their own from the next call on
        assert self._results is not None
        return self._results.build(leaves, objects)

    def explain(self) -> str:
        """Tell how many calls were replays, and why others were not."""
        described = self._replays.describe() if self._replays is not None else "none"
        why = f", the last because {self.last_fallback}" if self.last_fallback else ""
        return f"replays of one CUDA graph: {described}\n  calls by the original: {self.fallbacks}{why}"

    def extra_repr(self) -> str:
        return "calls are replays of one CUDA graph"

    def __reduce__(self) -> tuple[Any, ...]:
        return FullGraph, (self.original, self._graphed)

    def _match(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Matched | str:
        """The tensors that a call reads and its objects, or why it is no replay."""
        if self._refusal:
            return self._refusal
        matched = self._matcher.match(args, kwargs)
        if matched is None:
            return "the arguments nest in another way, or a constant argument has another value"
        leaves, objects = matched
        if len(leaves) != len(self._graphed.specs) or any(map(_differs, leaves, self._graphed.specs)):
            return "a tensor is of another shape, dtype, device or class"
        if surroundings := find_surroundings(leaves[0].device.type):
            return surroundings
        if self._watched is None and (reason := self._watch()):
            return reason
        for watched in self._watched or ():
            if change := watched.find_change():
                return change
        inputs = [*leaves, *(read() for read in self._tensors)]
        if not all(isinstance(t, Tensor) for t in inputs):
            return "a tensor of the module is gone"
        if torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
            return "a tensor needs gradients; call under torch.no_grad()"
        return inputs, objects

    def _watch(self) -> str:
        """Note what the module is like and where its tensors are; or return why its calls are not replayed. Counters of the layers inside may
        change.
        """
        parts = list(self.original.named_modules())
        if any(part.training for _, part in parts):
            return "a submodule is in training mode"
        counting = [(path, name) for path, part in parts if isinstance(part, StandIn) for name in vars(part)]
        self._watched = watch_modules(self.original, counting)
        tables = [t for _, part in parts for t in (part._parameters, part._buffers, vars(part))]
        self._tensors = [
            partial(table.get, name)
            for table in tables
            for name, value in table.items()
            if isinstance(value, Tensor)
        ]
        self._refusal = next(filter(None, (_refuse_part(part) for _, part in parts)), "")
        return self._refusal

    def _begin(self, inputs: Sequence[Tensor]) -> None:
        """Make the first call, on copies, to see what a call changes beside its results."""
        devices = {t.device for t in inputs}
        if len(devices) > 1:
            self._refusal = f"its tensors are on {len(devices)} devices"
            return
        count = len(self._graphed.specs)
        moving = [i for i in range(count) if i not in self._graphed.in_instances]
        copies = [t.clone() for t in inputs[:count]]
        before = [copies[i].clone() for i in moving]
        with keep_buffers(self.original):
            self._refusal = self._find_side_effects(copies)
        if not self._refusal and not all(
            equal_bits(copies[i], t) for i, t in zip(moving, before, strict=True)
        ):
            self._refusal = "it changes a tensor among its arguments"
        steady = frozenset(range(len(inputs))) - frozenset(moving)
        self._replays = None if self._refusal else GraphReplays(self._run, steady, self._device)

    def _find_side_effects(self, leaves: Sequence[Tensor]) -> str:
        """Return what a call changes that no replay would; empty for nothing."""
        args, kwargs, objects = self._graphed.build(leaves)
        state, snapshot = ModuleState(self.original, StandIn), Snapshot(objects)
        outside = OutsideState(self.original)
        try:
            with launches_only():
                result = self.original(*args, **kwargs)
            Parts(objects).add(result)
            outside.refuse_changes()
        except TaskError as error:
            return str(error)
        except NotRebuildable as error:
            return f"it returns {error}"
        if changes := state.changes():
            state.restore()
            return f"a call sets {'.'.join(filter(None, changes[0]))}"
        return "a call changes an object among its arguments" if snapshot.list_changed() else ""

    def _run(self, inputs: Sequence[Tensor]) -> Leaves:
        args, kwargs, objects = self._graphed.build(inputs[: len(self._graphed.specs)])
        with launches_only():
            result = self.original(*args, **kwargs)
        parts = Parts(objects)
        self._results = Results(self.original, parts.add(result), parts.names)
        return tuple(parts.leaves)


def _describe(tensor: Tensor) -> Spec:
    return tensor.shape, tensor.dtype, tensor.device


def _differs(tensor: Tensor, spec: Spec) -> bool:
    return (
        type(tensor) not in (Tensor, torch.nn.Parameter)
        or tensor.shape != spec[0] or tensor.dtype is not spec[1] or tensor.device != spec[2]
    )  # fmt: skip


def _refuse_part(part: torch.nn.Module) -> str:
    """Return why calls of a submodule are not replayed; empty for no reason."""
    kind = type(part).__name__
    if count_hooks(part):
        return f"{kind} has hooks, which a replay would not run"
    attributes = {} if isinstance(part, StandIn) else list_attributes(part)
    holder = next((name for name, value in attributes.items() if _holds_tensors(value)), "")
    return f"{holder} of {kind} holds tensors" if holder else ""


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, (Tensor, torch.nn.Module)) or callable(value):
        return False
    try:
        return bool(take_apart(value)[1].leaves)
    except NotRebuildable:
        return False


def equal_bits(tensor: Tensor, other: Tensor) -> bool:
    """Compare bit by bit."""
    return tensor.shape == other.shape and torch.equal(_as_bytes(tensor), _as_bytes(other))


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


__all__ = ["FullGraph", "GraphedCall", "equal_bits"]
