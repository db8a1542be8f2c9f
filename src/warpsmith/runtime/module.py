"""The drop-in result: a module with the original's parameters that runs verified kernels where they apply.

In: the original module, the graph it was exported to, the winning (region, library) pairs. Out: an
`nn.Module` that answers like the original: at the exported shapes, dtypes and mode, without gradients,
through the candidate; in every other case through the original.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..errors import TaskError
from ..records import Graph, GraphInput, Region, RunSummary
from ..tasks.hosted import find_tensor
from ..tasks.memory import FunctionModule, as_module
from ..tasks.values import literal_tensor, torch_dtype
from .deployed import deploy


class OptimizedModule(torch.nn.Module):
    """Drop-in for `original`, whose parameters it shares.

    `fallbacks` counts calls that the original answered, `fast_calls` the others.
    """

    def __init__(
        self,
        original: torch.nn.Module,
        graph: Graph,
        parts: Sequence[tuple[Region, Path]],
        summary: RunSummary | None = None,
        device: str = "cpu",
        rewritten: Graph | None = None,
    ) -> None:
        """`rewritten`: the graph that the parts are put into, where units in ATen changed it."""
        super().__init__()
        self.device_type = device
        self.original = original
        self.summary = summary
        self.fallbacks = self.fast_calls = 0
        self.last_fallback = ""  # why the original answered last
        self.training = original.training
        self._modes = [(module, module.training) for module in original.modules()]
        self._guards = [_Guard(original, item, device) for item in graph.inputs]
        self._call = _CallShape(original, graph)
        self._leaves = json.loads(graph.tree)
        self._run = deploy(rewritten or graph, parts, device) if parts or rewritten is not None else None
        self.register_load_state_dict_pre_hook(_take_original_names)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inputs = self._inputs(args, kwargs)
        if isinstance(inputs, str):
            self.fallbacks += 1
            self.last_fallback = inputs
            return self.original(*args, **kwargs)
        assert self._run is not None
        self.fast_calls += 1
        return _nest(self._leaves, self._run(inputs))

    def _inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor] | str:
        """The graph's inputs for this call, or why the candidate does not apply."""
        if self._run is None:
            return "nothing faster was found"
        if torch.compiler.is_compiling() or torch.is_autocast_enabled(self.device_type):
            return "torch.compile or autocast is active"
        if any(module.training is not mode for module, mode in self._modes):
            return "a submodule's training mode is not the exported one"
        given = self._call.tensors(args, kwargs)
        if given is None:
            return "the arguments nest in another way, or a constant argument has another value"
        waiting, gradients = iter(given), torch.is_grad_enabled()
        inputs: list[Any] = []
        for guard in self._guards:
            tensor = next(waiting) if guard.given else guard.lookup()
            reason = guard.refuses(tensor, gradients)
            if reason:
                return reason
            inputs.append(tensor)
        return inputs

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The original's, under the original's names."""
        return self.original.state_dict(*args, **kwargs)

    def report(self) -> str:
        """What was measured, one line.

        Speedup with its baseline, interval, hardware and share of the limit.
        """
        best = self.summary.best if self.summary is not None else None
        if self.summary is None or best is None or self._run is None:
            why = self.summary.reason if self.summary is not None else ""
            return f"no faster version: the original runs{f' ({why})' if why else ''}"
        ratio = best.speedup
        return (
            f"{ratio.median:.2f}x over {ratio.baseline} (95% {ratio.low:.2f}-{ratio.high:.2f}), "
            f"{best.median_us:.0f} us, {best.limit_share:.0%} of the physical limit, "
            f"on {self.summary.hardware or 'this machine'}; {', '.join(best.labels)}"
        )

    def extra_repr(self) -> str:
        return self.report()


class _Guard:
    """What one input must be for the candidate to apply, and where to find it if it is the module's."""

    def __init__(self, original: torch.nn.Module, item: GraphInput, device: str) -> None:
        self.device = device
        self.name, self.given = item.target, item.role == "input"
        self.shape, self.dtype = torch.Size(item.spec.shape), torch_dtype(item.spec.dtype)
        axes = enumerate(zip(item.spec.shape, item.spec.stride, strict=True))
        self.expanded = [axis for axis, (n, s) in axes if s == 0 and n > 1]
        # Looked up at each call, since a caller may put another parameter in its place.
        self.lookup: Callable[[], torch.Tensor | None] = lambda: None
        if item.data:
            literal = literal_tensor(item).to(device)
            self.lookup = lambda: literal
        elif not self.given:
            self.lookup = _lookup(original, item)

    def refuses(self, tensor: torch.Tensor | None, gradients: bool) -> str:
        kind = type(tensor)
        if tensor is None or (kind is not torch.Tensor and kind is not torch.nn.Parameter):
            return f"{self.name} is a {kind.__name__}"
        if tensor.shape != self.shape or tensor.dtype is not self.dtype or tensor.device.type != self.device:
            found = f"{tensor.dtype}{list(tensor.shape)} on {tensor.device}"
            return f"{self.name} is {found}, not {self.dtype}{list(self.shape)} on {self.device}"
        if gradients and tensor.requires_grad:
            return f"{self.name} needs gradients; call under torch.no_grad()"
        if self.expanded and any(tensor.stride(axis) != 0 for axis in self.expanded):
            return f"{self.name} is not expanded as it was when exported"
        return ""


def _lookup(original: torch.nn.Module, item: GraphInput) -> Callable[[], torch.Tensor | None]:
    """A quick way to the module's tensor of that name: straight from the table that holds it."""
    owner_name, _, name = item.target.rpartition(".")
    if find_tensor(original, item.target) is None:
        raise TaskError(f"the module has no {item.role} {item.target!r}; it is not the one that was exported")
    try:
        owner = original.get_submodule(owner_name)
    except AttributeError:  # an entry of a list or dict attribute
        return partial(find_tensor, original, item.target)
    for table in (owner._parameters, owner._buffers, owner.__dict__):
        if name in table:
            return partial(table.get, name)
    return partial(find_tensor, original, item.target)


class _CallShape:
    """How the arguments nested when the module was exported.

    Finds the tensors in a call that nests likewise.
    """

    def __init__(self, original: torch.nn.Module, graph: Graph) -> None:
        shape: Any = json.loads(graph.call)
        self.args, self.kwargs = shape["tuple"][0]["tuple"], shape["tuple"][1]["dict"]
        self.count = sum(i.role == "input" for i in graph.inputs)
        function = original.function if isinstance(original, FunctionModule) else original.forward
        try:
            self.signature: inspect.Signature | None = inspect.signature(function)
            self.expected = self._named(tuple(self.args), self.kwargs, expected=True)
        except (ValueError, TypeError):
            self.signature = None
        self.plain = not self.kwargs and self.args == list(range(self.count))

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
        if self.plain and not kwargs and len(args) == self.count:
            return list(args)
        found: list[Any] = [None] * self.count
        expected: Any = [{"tuple": self.args}, {"dict": self.kwargs}]
        given: Any = [args, kwargs]
        if self.signature is not None:
            try:
                expected, given = [{"dict": self.expected}], [self._named(args, kwargs)]
            except TypeError:
                return None
        return found if _collect(expected, given, found) else None

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any], expected: bool = False) -> dict[str, Any]:
        """Arguments by the name of their parameter, so that a call may pass by position what the example
        passed by name.
        """
        assert self.signature is not None
        bound = self.signature.bind(*args, **kwargs)
        given = set(bound.arguments)
        bound.apply_defaults()
        named = dict(bound.arguments)
        for name, value in named.items() if expected else ():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                named[name] = {"tuple": list(value)}
            elif kind is inspect.Parameter.VAR_KEYWORD:
                named[name] = {"dict": dict(value)}
            elif name not in given:
                named[name] = {"const": value}
        return named


def _collect(expected: Any, given: Any, found: list[Any]) -> bool:
    """Put each tensor of `given` at its number; False when the two nest differently or a constant differs."""
    if isinstance(expected, dict) and "const" in expected:
        return type(given) is type(expected["const"]) and bool(given == expected["const"])
    if isinstance(expected, dict) and "tuple" in expected:
        expected, given = expected["tuple"], list(given) if isinstance(given, tuple) else None
    if isinstance(expected, dict) and "dict" in expected:
        names = expected["dict"]
        return (
            isinstance(given, dict)
            and names.keys() == given.keys()
            and all(_collect(names[k], given[k], found) for k in names)
        )
    if isinstance(expected, list):
        same = isinstance(given, list) and len(given) == len(expected)
        return same and all(_collect(e, g, found) for e, g in zip(expected, given, strict=True))
    found[expected] = given
    return True


def _take_original_names(module: torch.nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Let a checkpoint of the original load: its names lie one level deeper here."""
    inner = f"{prefix}original."
    for name in [n for n in state_dict if n.startswith(prefix) and not n.startswith(inner)]:
        state_dict[inner + name.removeprefix(prefix)] = state_dict.pop(name)


def _nest(tree: Any, leaves: tuple[Any, ...]) -> Any:
    if isinstance(tree, int):
        return leaves[tree]
    if isinstance(tree, list):
        return [_nest(t, leaves) for t in tree]
    if "tuple" in tree:
        return tuple(_nest(t, leaves) for t in tree["tuple"])
    return {k: _nest(t, leaves) for k, t in tree["dict"].items()}


__all__ = ["OptimizedModule", "as_module"]
