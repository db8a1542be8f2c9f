"""The outputs of one run of the user's workload: what it returns and what the model answered, as samples that can be kept.

In: a function that runs a model. Out: flat tensors on the CPU, in a fixed order; of a large one elements at random places, the same
ones in every run. Numbers that the run returns count as outputs: a loss is one. An instance that calls are given and return, as a KV cache is,
counts once, as the last of them leaves it: what it holds is in each answer of a `generate` again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import UsageError
from ..tasks.structure import NotRebuildable, Parts, take_apart

MOST_ELEMENTS = 1 << 20  # of each output that are compared
Run = Callable[[torch.nn.Module], Any]


def collect_outputs(run: Run, model: torch.nn.Module, seed: int) -> list[torch.Tensor]:
    """Run the workload with a fixed random seed and collect its outputs. Raises UsageError where it gives none."""
    answers: list[list[torch.Tensor]] = []
    passed: dict[int, Any] = {}  # instances that calls were given and returned, by id

    def keep(module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        answers.append(_sample(result, _list_instances((args, kwargs)), passed))

    handle = model.register_forward_hook(keep, with_kwargs=True)
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed)
            result = run(model)
    finally:
        handle.remove()
    states = [_sample(instance) for instance in passed.values()]
    outputs = [tensor for answer in [*answers, *states, _sample(result)] for tensor in answer]
    if not outputs:
        raise UsageError(
            "run(model) returns no tensor or number and calls the model nowhere: return what should stay the same"
        )
    return outputs


def _sample(
    value: Any, given: Sequence[Any] = (), passed: dict[int, Any] | None = None
) -> list[torch.Tensor]:
    """Sample a value without the `given` instances that it holds; these are noted in `passed`."""
    parts = Parts(given)
    try:
        tree = parts.add(value)
    except NotRebuildable:
        return []
    if passed is not None:
        passed |= {id(given[n]): given[n] for n in _list_references(tree) if n < len(given)}
    numbers = [torch.tensor(n, dtype=torch.float32) for n in _list_floats(tree)]
    return [_take(t.detach()) for t in (*parts.leaves, *numbers)]


def _list_instances(arguments: Any) -> list[Any]:
    try:
        objects = take_apart(arguments)[1].objects
    except NotRebuildable:
        return []
    return [instance for instance in objects if type(instance) not in (list, dict)]


def _list_references(tree: Any) -> list[int]:
    """List the numbers of the objects that a description refers to."""
    if isinstance(tree, dict):
        if isinstance(tree.get("ref"), int):
            return [tree["ref"]]
        tree = list(tree.values())
    return [number for item in tree for number in _list_references(item)] if isinstance(tree, list) else []


def _take(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() > MOST_ELEMENTS:
        indices = torch.randint(tensor.numel(), (MOST_ELEMENTS,), generator=torch.Generator().manual_seed(0))
        tensor = tensor.reshape(-1)[indices.to(tensor.device)]
    return tensor.reshape(-1).to("cpu", copy=True)


def _list_floats(tree: Any) -> list[float]:
    """Floats in the description of a value; other constants are settings rather than results."""
    if isinstance(tree, dict):
        if isinstance(tree.get("const"), float):
            return [tree["const"]]
        if "float" in tree:
            return [float(tree["float"])]
        tree = list(tree.values())
    if isinstance(tree, list):
        return [number for item in tree for number in _list_floats(item)]
    return []
