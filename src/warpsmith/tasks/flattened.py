"""A user's module behind a wall: flat tensors in, flat tensors out, so that nothing of the user's classes is in what is exported.

In: a module and the arguments of one call, of any classes (see `structure`). Out: a module whose `forward` takes the tensors of
these arguments one by one and returns the tensors of the results; and, once it was called, descriptions of both. What a call
changes beside that becomes results, too: objects that it was given (a cache that grows), and attributes that `forward` sets.
The description of a call's results (`Graph.tree`) is that of what is returned, or where a call changes something
`{"result": …, "updates": [[object, contents]], "attributes": [[module, name, before, after]]}`.
"""

from __future__ import annotations

import inspect
import itertools
import keyword
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import TaskError
from .functions import find_called_function
from .module_state import ModuleState, Snapshot
from .outside_state import OutsideState
from .structure import Builder, NotRebuildable, Parts, attribute, form, same


@dataclass(frozen=True)
class CallShape:
    """The nesting of a call's arguments: `tree` describes the pair (args, kwargs)."""

    tree: Any
    parts: Parts

    @classmethod
    def of(
        cls, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], unused: Collection[int] = (),
    ) -> CallShape:  # fmt: skip
        """Describe the shape of a call by its arguments, keywords in the order of the signature. `unused`: tensors to leave out (see
        `structure`). Raises TaskError for a class that cannot be rebuilt.
        """
        parts = Parts(unused=unused)
        try:
            tree = _describe_arguments(parts, function, *in_order(function, tuple(args), dict(kwargs)))
        except NotRebuildable as error:
            raise TaskError(f"the module takes {error}") from error
        return cls(tree, parts)

    def input_names(self) -> list[str]:
        """Return an identifier for each tensor. Where some were left out, numbers do not count: each layer has a part of a cache for itself."""
        numbered = not self.parts.skipped
        return name_inputs([[p for p in path if numbered or not p.isdigit()] for path in self.parts.paths])

    def arguments(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
        """New arguments with these tensors, and the mutable objects among them."""
        builder = Builder(tensors, self.parts.names, skipped=self.parts.skipped)
        args = tuple(builder.build(tree) for tree in self.tree["tuple"][0]["tuple"])
        kwargs = {name: builder.build(tree) for name, tree in self.tree["tuple"][1]["dict"].items()}
        return args, kwargs, builder.objects


def in_order(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with keywords in the order of the signature, where there is one that takes them."""
    try:
        signature = inspect.signature(function)
        signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs
    names = [n for n in signature.parameters if n in kwargs]
    return args, {n: kwargs[n] for n in [*names, *sorted(set(kwargs) - set(names))]}


def _describe_arguments(
    parts: Parts, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Neither the tuple nor the dictionary of arguments is an object that anybody else holds."""
    described = [parts.add(a, path) for a, path in zip(args, _paths(function, len(args)), strict=True)]
    return {"tuple": [{"tuple": described}, {"dict": {k: parts.add(v, (k,)) for k, v in kwargs.items()}}]}


def _paths(function: Callable[..., Any], count: int) -> list[tuple[str, ...]]:
    """List what the signature calls each positional argument."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    several = inspect.Parameter.VAR_POSITIONAL
    paths = [(p.name,) for p in itertools.takewhile(lambda p: p.kind < several, parameters)][:count]
    rest_name = next((p.name for p in parameters if p.kind is several), "args")
    return paths + [(rest_name, str(n)) for n in range(count - len(paths))]


class FlatModule(torch.nn.Module):
    """The module, taking the tensors of its arguments one by one and returning those of its results.

    It shares the tables of parameters, buffers and submodules with the original, so that these have the original's names.
    """

    def __init__(
        self, original: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], unused: Collection[int] = (),
    ) -> None:  # fmt: skip
        """Raises TaskError for arguments that cannot be taken apart, and for modules that cannot be exported."""
        super().__init__()
        refuse_scripted(original)
        for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            vars(self)[table] = vars(original)[table]
        for name, value in vars(original).items():
            if isinstance(value, torch.Tensor) and name not in vars(self):
                vars(self)[name] = value  # an attribute: torch looks for it here
        self.training = original.training
        self.call = CallShape.of(find_called_function(original), args, kwargs, unused)
        self.returns = Returns()
        self.forward = _flat_forward(original, self.call, self.returns)

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The tensors among the arguments, in order."""
        return tuple(self.call.parts.leaves)


class Returns:
    """The values that the last call of a flat module returned and changed; `tree` as `Graph.tree` has it."""

    def __init__(self) -> None:
        self.tree: Any = None
        self.names: dict[str, Any] = {}
        self.unsteady = ""  # an attribute that the call leaves in another form: the next call is another

    def collect(
        self, module: torch.nn.Module, result: Any, objects: Sequence[Any], updated: Sequence[int],
        attributes: Sequence[tuple[str, str]],
    ) -> list[torch.Tensor]:  # fmt: skip
        """The tensors of a result, of the updated objects and of the attributes; how they nest is `tree` afterwards.

        Raises NotRebuildable.
        """
        parts = Parts(objects)
        tree = parts.add(result)
        if updated or attributes:
            attribute_values = [[p, n, None, parts.add(attribute(module, p, n))] for p, n in attributes]
            updates = [[n, parts.contents(objects[n])] for n in updated]
            tree = {"result": tree, "updates": updates, "attributes": attribute_values}
        self.tree, self.names = tree, parts.names
        return parts.leaves


def _flat_forward(
    original: torch.nn.Module, call: CallShape, returns: Returns
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A function with one named argument a tensor, after which torch names the inputs of the graph."""

    def forward(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs, objects = call.arguments(tensors)
        before, state, outside = Snapshot(objects), ModuleState(original), OutsideState(original)
        try:
            result = original(*args, **kwargs)
            outside.refuse_changes()
            changes = state.changes()
            leaves = returns.collect(original, result, objects, before.list_changed(), changes)
            after = [form(original, *change) for change in changes]
        except NotRebuildable as error:
            raise TaskError(f"the module returns or keeps {error}") from error
        finally:
            state.restore()
        former = [form(original, *change) for change in changes]
        for entry, old_value in zip(returns.tree["attributes"] if changes else (), former, strict=True):
            entry[2] = old_value
        differing = (
            c
            for c, old_value, after_value in zip(changes, former, after, strict=True)
            if not same(old_value, after_value)
        )
        returns.unsteady = ".".join(filter(None, next(differing, ())))
        return tuple(leaves)

    names = call.input_names()
    parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
    vars(forward)["__signature__"] = inspect.Signature(parameters)
    return forward


def name_inputs(paths: Iterable[Sequence[str]]) -> list[str]:
    """An identifier for each path, none twice."""
    names: list[str] = []
    for path in paths:
        name = re.sub(r"\W", "_", "_".join(path))
        name = f"x_{name}" if not name or name[0].isdigit() or keyword.iskeyword(name) else name
        number, unique = 1, name
        while unique in names:
            number, unique = number + 1, f"{name}_{number}"
        names.append(unique)
    return names


def refuse_scripted(module: torch.nn.Module) -> None:
    """Raise TaskError, with its name, for a scripted module: its Python is gone."""
    for path, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise TaskError(
                f"{path or 'the module'} is scripted (torch.jit); use the module that it was made from"
            )
