"""The user's own Python, brought to life in an untrusted process: its module, its inputs, its graph, its
values.

In: a `TaskSource` and overrides of the file's constants. Out: an exported graph (under fake tensors, so
that nothing big is allocated), a values file of real parameters and inputs, or the module itself, for the
eager and compiled baselines. Nothing here may be called by a trusted process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.passes import move_to_device_pass

from ..errors import TaskError
from ..records import Graph, GraphInput, TaskSource
from .convert import tensor_spec, to_graph
from .drawn import drawn_arguments
from .export import Exported, decompose, export_program
from .fake import FakeTensors
from .flattened import CallShape, Returns
from .functions import find_called_function
from .operator_libraries import load_program
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
    flat: bool = False  # takes and returns tensors alone, one by one
    unused: frozenset[int] = frozenset()  # tensors among the arguments that are no inputs (see `structure`)

    def __post_init__(self) -> None:
        self._call = CallShape.of(find_called_function(self.module), self.args, self.kwargs, self.unused)
        self._tensors: list[torch.Tensor] = self._call.parts.leaves
        self._objects: list[Any] = self._call.parts.objects
        self._drawn: dict[str, torch.Tensor] = {}

    def __call__(self) -> Any:
        return self.module(*self.args, **self.kwargs)

    def bind(self, graph: Graph, values: list[torch.Tensor]) -> None:
        """Take parameters and buffers (copied in place) and inputs (as they are) from `values`, in the order
        of `graph.inputs`.
        """
        state_values = {name.lower() for name in self._call.input_names()}
        tensors, self._drawn = [], {}
        for item, value in zip(graph.inputs, values, strict=True):
            if item.role != "input":
                self._set_state(item, value)
            elif self.flat or item.target in state_values:
                tensors.append(value)
            else:
                self._drawn[item.target] = value  # what forward would draw
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
        self._tensors = tensors
        self.renew()

    def renew(self) -> None:
        """Arguments as they were before a call: other objects, the same tensors."""
        self.args, kwargs, self._objects = self._call.arguments(self._tensors)
        self.kwargs = {**kwargs, **self._drawn}

    def renews(self, graph: Graph) -> bool:
        """True if a call changes objects or attributes, so that the next needs them as they were."""
        tree = json.loads(graph.tree)
        return not self.flat and isinstance(tree, dict) and "updates" in tree

    def inputs(self) -> list[torch.Tensor]:
        return self._tensors

    def results(self, graph: Graph, result: Any) -> list[torch.Tensor]:
        """The tensors that a call returned, or left in objects and attributes, as the graph returns them."""
        if self.flat:
            return list(result)
        tree = json.loads(graph.tree)
        changes = tree if isinstance(tree, dict) and "result" in tree else {"updates": [], "attributes": []}
        updated = [number for number, _ in changes["updates"]]
        attributes = [(path, name) for path, name, *_ in changes["attributes"]]
        return Returns().collect(self.module, result, self._objects, updated, attributes)


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


def load_reference(
    source: TaskSource, overrides: Mapping[str, Any] | None = None, device: str = "cpu"
) -> HostedModule:
    """The user's module for real; its arguments are placeholders until `bind`. An exported program is put on the device.

    Raises TaskError.
    """
    if source.kind == "memory":
        return _from_export(source, device)
    file = TaskFile(source, overrides or {})
    file.run()
    module, note = file.module()
    try:
        with FakeTensors():
            args, kwargs = TaskFile(source, overrides or {}).inputs()
    except TaskError:
        args, kwargs = file.inputs()
    return HostedModule(module, args, kwargs, note)


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
        exported = export_program(hosted.module, hosted.args, hosted.kwargs, file.filename, "get_inputs()")
        refuse_unsteady(exported)
        exported = decompose(exported, file.filename)
    # Outside it: the elements of literal tensors are read here.
    return to_graph(exported.program, file.filename, exported.call, exported.tree), hosted.note


def refuse_unsteady(exported: Exported) -> None:
    """Raise TaskError for an attribute that each call leaves in another form: no fixed graph does what the module does."""
    if exported.unsteady:
        raise TaskError(
            f"forward changes {exported.unsteady}, a value that is no tensor or has another shape each time; "
            "make it an argument and a result, or a registered buffer"
        )


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
    buffers, values = iter(hosted.inputs()), []
    for item in inputs:
        if item.role == "input":
            value = next(buffers, None)
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


def build(file: TaskFile, mode: AbstractContextManager[Any] | None = None) -> HostedModule:
    """The module and its inputs, constructed in that mode. Raises TaskError."""
    with mode or nullcontext():
        file.run()
        module, note = file.module()
        args, kwargs = file.inputs()
        kwargs = {**kwargs, **drawn_arguments(module, args, kwargs, fake=isinstance(mode, FakeTensors))}
    return HostedModule(module, args, kwargs, note)


def _from_export(source: TaskSource, device: str) -> HostedModule:
    program = load_program(source.export_file)
    tensors = [
        *program.state_dict.values(),
        *program.constants.values(),
        *(program.example_inputs or ((),))[0],
    ]
    if any(isinstance(t, torch.Tensor) and t.device.type != device for t in tensors):
        program = move_to_device_pass(program, device)  # also the devices that its operations name
    args, _ = program.example_inputs or ((), {})
    return HostedModule(program.module(), tuple(args), {}, flat=True)
