"""The user's own Python, brought to life in an untrusted process: its module, its inputs, its graph, its
values.

In: a `TaskSource` and overrides of the file's constants. Out: an exported graph (under fake tensors, so
that nothing big is allocated), a values file of real parameters and inputs, or the module itself, for the
eager and compiled baselines. Nothing here may be called by a trusted process.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..errors import TaskError
from ..records import Graph, GraphInput, TaskSource
from .convert import tensor_spec, to_graph
from .drawn import drawn_arguments
from .export import decompose, export_program
from .fake import FakeTensors
from .taskfile import TaskFile
from .values import literal_tensor

_FAKE_TROUBLE = (
    "FakeTensor",
    "fake",
    "DataDependentOutput",
    "DynamicOutputShape",
    "data pointer",
    "numpy()",
    "meta tensor",
)


@dataclass
class HostedModule:
    """The user's module and the arguments of one call. Calling it runs the user's own code eagerly."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    note: str = ""

    def __call__(self) -> Any:
        return self.module(*self.args, **self.kwargs)

    def bind(self, graph: Graph, values: list[torch.Tensor]) -> None:
        """Take parameters and buffers (copied in place) and inputs (as they are) from `values`, in the order
        of `graph.inputs`.
        """
        tensors = []
        for item, value in zip(graph.inputs, values, strict=True):
            if item.role == "input":
                tensors.append(value)
            else:
                self._set_state(item, value)
        names, count = [i.target for i in graph.inputs if i.role == "input"], len(self.inputs())
        self.kwargs |= dict(zip(names[count:], tensors[count:], strict=True))  # what forward would draw
        self._set_inputs(tensors)

    def _set_state(self, item: GraphInput, value: torch.Tensor) -> None:
        if item.data:
            return  # a literal in the user's code: the module makes it itself
        state = find_tensor(self.module, item.target)
        if state is None:
            raise TaskError(f"the module has no {item.role} {item.target!r}")
        with torch.no_grad():
            state.copy_(value)

    def _set_inputs(self, tensors: list[torch.Tensor]) -> None:
        leaves, spec = pytree.tree_flatten((self.args, self.kwargs))
        waiting = iter(tensors)
        leaves = [next(waiting) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.args, self.kwargs = pytree.tree_unflatten(leaves, spec)

    def inputs(self) -> list[torch.Tensor]:
        return [
            leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, torch.Tensor)
        ]


def find_tensor(module: torch.nn.Module, target: str) -> torch.Tensor | None:
    """The parameter, buffer or plain tensor attribute of that qualified name."""
    current: Any = module
    for part in target.split("."):
        if isinstance(current, list | tuple) and part.isdigit() and int(part) < len(current):
            current = current[int(part)]
        elif isinstance(current, dict) and part in current:
            current = current[part]
        else:
            current = getattr(current, part, None)
    return current if isinstance(current, torch.Tensor) else None


def load_reference(source: TaskSource, overrides: Mapping[str, Any] | None = None) -> HostedModule:
    """The user's module for real; its arguments are placeholders until `bind`. Raises TaskError."""
    if source.kind == "memory":
        return _from_export(source)
    file = TaskFile(source, overrides or {})
    hosted = build(file, inputs=False)
    try:
        with FakeTensors():
            hosted.args, hosted.kwargs = TaskFile(source, overrides or {}).inputs()
    except TaskError:
        hosted.args, hosted.kwargs = file.inputs()
    return hosted


def export_source(source: TaskSource, overrides: Mapping[str, Any]) -> tuple[Graph, str]:
    """The graph of a task file, and a note for people. Raises TaskError."""
    file = TaskFile(source, overrides)
    mode: AbstractContextManager[Any] = FakeTensors()
    try:
        hosted = build(file, mode)
    except TaskError as error:
        if not any(word in str(error) for word in _FAKE_TROUBLE):
            raise
        # Code that looks at values (.item(), .numpy()) while it builds: only real tensors will do, within
        # the memory limit.
        mode = nullcontext()
        hosted = build(file)
    with mode:  # the one the tensors were made in
        tensors_to_buffers(hosted.module)
        program = export_program(hosted.module, hosted.args, hosted.kwargs, file.filename)
        program = decompose(program, file.filename)
    # Outside it: the elements of literal tensors are read here.
    return to_graph(program, file.filename), hosted.note


def tensors_to_buffers(module: torch.nn.Module) -> None:
    """Make plain tensor attributes buffers of the same name: decomposing crashes on fake constants."""
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                delattr(part, name)
                part.register_buffer(name, value, persistent=False)


def real_values(
    source: TaskSource, overrides: Mapping[str, Any], seed: int, inputs: tuple[GraphInput, ...]
) -> list[torch.Tensor]:
    """The task's own parameters, buffers, constants and inputs, in order.

    Raises TaskError when one differs from its spec.
    """
    torch.manual_seed(seed)
    hosted = build(TaskFile(source, overrides))
    return collect_values(hosted, inputs)


def collect_values(hosted: HostedModule, inputs: tuple[GraphInput, ...]) -> list[torch.Tensor]:
    """Tensors of a hosted module in the order of `inputs`, each checked against its spec."""
    own, values = iter(hosted.inputs()), []
    for item in inputs:
        if item.role == "input":
            value = next(own, None)
        else:
            value = literal_tensor(item) if item.data else find_tensor(hosted.module, item.target)
        if value is None:
            raise TaskError(f"the module has no {item.role} {item.target!r} when it is built for real")
        value = value.detach()
        spec = tensor_spec(value)
        if (spec.shape, spec.dtype) != (item.spec.shape, item.spec.dtype):
            raise TaskError(
                f"{item.target} is {spec.dtype}{list(spec.shape)} when built for real and "
                f"{item.spec.dtype}{list(item.spec.shape)} in the graph: sizes must not depend on chance"
            )
        values.append(value)
    return values


def build(
    file: TaskFile, mode: AbstractContextManager[Any] | None = None, *, inputs: bool = True
) -> HostedModule:
    """The module, constructed in that mode, and its inputs when asked. Raises TaskError."""
    with mode or nullcontext():
        file.run()
        module, note = file.module()
        args, kwargs = file.inputs() if inputs else ((), {})
        kwargs = {**kwargs, **drawn_arguments(module, args, kwargs, fake=isinstance(mode, FakeTensors))}
    return HostedModule(module, args, kwargs, note)


def _from_export(source: TaskSource) -> HostedModule:
    program = torch.export.load(source.export_file)
    args, kwargs = program.example_inputs or ((), {})
    return HostedModule(program.module(), tuple(args), dict(kwargs))
