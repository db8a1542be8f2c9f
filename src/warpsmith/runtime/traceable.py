"""An optimized module as torch's tracers see it: operators for its kernels, ATen for the rest, nothing that breaks a graph.

In: the original module, the graph that is deployed, the kernels. Out: for `torch.compile` a call made of tests that dynamo turns
into guards; for `torch.export` a module with the original's parameters. Calls that nest their tensors, or change objects, are the
original's under `torch.compile`, and exported all the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MethodType
from typing import Any

import torch

from ..errors import TaskError
from ..records import Graph, Region
from ..tasks.functions import find_called_function
from ..tasks.hosted import find_tensor
from ..tasks.values import torch_dtype
from .calls import CallMatcher, Results
from .fx_graphs import Replacement, to_fx
from .module_form import ModuleForm, WatchedModule, count_hooks
from .unit_operators import define_unit_operator

_Input = tuple[Any, str, tuple[int, ...], torch.dtype]  # owner (None: an argument), name, shape, dtype


class Traceable:
    """A call in the terms of dynamo; None for what is not like the example."""

    def __init__(
        self, original: torch.nn.Module, graph: Graph, deployed: Graph, kernels: Sequence[tuple[Region, bytes]], device: str,
        watched: Sequence[WatchedModule],
    ) -> None:  # fmt: skip
        """Raises TaskError for a call that tracers cannot follow."""
        tree, call = json.loads(graph.tree), json.loads(graph.call)
        count = sum(i.role == "input" for i in graph.inputs)
        if call != {"tuple": [{"tuple": list(range(count))}, {"dict": {}}]} or not _is_plain(tree):
            raise TaskError("its arguments or results are nested, or it changes objects")
        self.count, self.tree, self.device = count, tree, device
        self.forms = [(w.module, w.form, w.children) for w in watched if w.forward is None]
        if len(self.forms) < len(watched):
            raise TaskError("a forward of its own takes the place of a submodule's")
        self.inputs = [_describe_input(original, i) for i in graph.inputs if not i.data]
        self.program = make_program(deployed, kernels, device)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """The result in a tuple of one, or None where the original must answer."""
        if kwargs or len(args) != self.count or torch.is_autocast_enabled(self.device):
            return None
        for module, form, children in self.forms:
            if not _is_alike(module, form, children):
                return None
        tensors, position = [], 0
        for owner, name, shape, dtype in self.inputs:
            if owner is None:
                tensor, position = args[position], position + 1
            else:
                tensor = getattr(owner, name)
            if not isinstance(tensor, torch.Tensor) or tuple(tensor.shape) != shape or tensor.dtype != dtype:
                return None
            if tensor.device.type != self.device or (torch.is_grad_enabled() and tensor.requires_grad):
                return None
            tensors.append(tensor)
        return (_nest(self.tree, self.program(*tensors)),)


class Exportable(torch.nn.Module):
    """The module for `torch.export`: the original's tensors, under the original's names, and the program with operators."""

    def __init__(
        self, original: torch.nn.Module, graph: Graph, deployed: Graph, kernels: Sequence[tuple[Region, bytes]],
        device: str, names: Mapping[str, Any],
    ) -> None:  # fmt: skip
        super().__init__()
        for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            vars(self)[table] = vars(original)[table]
        self.training = original.training
        hidden = (original, make_program(deployed, kernels, device))  # in a tuple: they are no submodules
        self._hidden, self._graph = hidden, graph
        self._call = CallMatcher(find_called_function(original), json.loads(graph.call))
        self._results = Results(original, json.loads(graph.tree), names)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        original, program = self._hidden
        matched = self._call.match(args, kwargs)
        if matched is None:
            raise TaskError("this call is not the one that the kernels were made for")
        waiting = iter(matched[0])
        items = [i for i in self._graph.inputs if not i.data]
        tensors = [next(waiting) if i.role == "input" else find_tensor(original, i.target) for i in items]
        return self._results.build(program(*tensors), matched[1])


def _is_alike(module: torch.nn.Module, form: ModuleForm, children: Mapping[str, Any]) -> bool:
    """Return whether a submodule is what it was, in the words that dynamo makes guards of."""
    if module.training != form.training or count_hooks(module) != form.hooks:
        return False
    if not isinstance(module.forward, MethodType):  # one of its own
        return False
    for name, child in children.items():
        if getattr(module, name, None) is not child:
            return False
    for name, value in form.settings:  # noqa: SIM110 - dynamo follows a loop
        if getattr(module, name, None) != value:
            return False
    return True


def make_program(graph: Graph, kernels: Sequence[tuple[Region, bytes]], device: str) -> torch.fx.GraphModule:
    """The graph with an operator for each kernel."""
    replacements = []
    with TemporaryDirectory(prefix="warpsmith-") as folder:
        for number, (region, library) in enumerate(kernels):
            path = Path(folder) / f"unit{number}.so"
            path.write_bytes(library)
            replacements.append(Replacement(region, define_unit_operator(graph, region, path, device)))
    return to_fx(graph, replacements, device)


def _describe_input(original: torch.nn.Module, item: Any) -> _Input:
    shape, dtype = tuple(item.spec.shape), torch_dtype(item.spec.dtype)
    if item.role == "input":
        return None, item.target, shape, dtype
    path, _, name = item.target.rpartition(".")
    try:
        owner = original.get_submodule(path)
        getattr(owner, name)
    except AttributeError as error:
        raise TaskError(f"{item.target} lies in a list or a dict") from error
    return owner, name, shape, dtype


def _is_plain(tree: Any) -> bool:
    """Return whether results are tensors and constants in tuples, lists and dicts."""
    if isinstance(tree, int):
        return True
    if isinstance(tree, list):
        return all(map(_is_plain, tree))
    if not isinstance(tree, dict) or len(tree) != 1:
        return False
    ((tag, content),) = tree.items()
    if tag == "const":
        return True
    if tag not in ("tuple", "dict"):
        return False
    return all(map(_is_plain, content.values() if tag == "dict" else content))


def _nest(tree: Any, leaves: Sequence[Any]) -> Any:
    if isinstance(tree, int):
        return leaves[tree]
    if isinstance(tree, list):
        return [_nest(t, leaves) for t in tree]
    if "const" in tree:
        return tree["const"]
    if "tuple" in tree:
        return tuple([_nest(t, leaves) for t in tree["tuple"]])
    return {name: _nest(t, leaves) for name, t in tree["dict"].items()}


__all__ = ["Exportable", "Traceable", "make_program"]
