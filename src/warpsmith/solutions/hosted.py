"""A `ModelNew` brought to life in an untrusted process, as something that the judge's stopwatch can call.

In: the solution's text, the task's constructor arguments, a variant's graph. Out: a `Solution`, which takes the
values of a call (parameters by name, where they are to be taken over), calls the module as the task is called,
and hands out the tensors that came back, if they are what the reference returns: plain `torch.Tensor`s of the
reference's number, shape, dtype, stride and device.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ..errors import TaskError, WarpsmithError
from ..judge.timing.stopwatch import arrange, map_updated_inputs
from ..records import Graph, GraphInput, GraphOutput, TaskSource, TensorSpec
from ..tasks.arguments import decode
from ..tasks.convert import tensor_spec
from ..tasks.hosted import find_tensor
from ..tasks.structure import put_together
from ..tasks.taskfile import TaskFile
from ..tasks.values import torch_dtype
from .source import ENTRY

# What torch's own operators return several tensors in.
RETURN_TYPES = tuple(v for v in vars(torch.return_types).values() if isinstance(v, type))
CONTAINERS = (tuple, list, dict, OrderedDict, torch.Size, *RETURN_TYPES)
SCALARS = (type(None), bool, int, float, complex, str)


class OutputRefused(WarpsmithError):
    """The result is not what the reference returns. The message is "rule: detail"."""


def build(
    text: str, name: str, overrides: dict[str, Any], init: dict[str, Any], seed: int
) -> torch.nn.Module:
    """`ModelNew(*args, **kwargs)` with the task's arguments, seeded as the reference was. Raises TaskError with
    the line that failed."""
    file = TaskFile(TaskSource(kind="kernelbench", path=name, text=text, entry=ENTRY), overrides)
    file.run()
    init_arguments = [list(decode(init["args"])), dict(decode(init["kwargs"]))]
    file.namespace["get_init_inputs"] = lambda: init_arguments
    torch.manual_seed(seed)
    return file.module()[0]


def list_needed_state(graph: Graph) -> list[GraphInput]:
    """Parameters, buffers and constants that a returned output depends on."""
    values = {o.value for o in graph.outputs if o.role == "output"}
    for node in reversed(graph.nodes):
        if values & {v.name for v in node.outputs if v is not None}:
            values |= set(node.uses)
    return [i for i in graph.inputs if i.role != "input" and not i.data and i.name in values]


def list_plain_tensors(result: Any) -> list[Tensor]:
    """List the tensors of a result in exact builtin containers. Nothing of a solution's own code runs here: a subclass of a
    container or a tensor, or a tensor with attributes of its own, could compute when it is looked at, after the clock.
    Raises OutputRefused.
    """
    kind = type(result)
    if any(
        kind is container for container in CONTAINERS
    ):  # by identity: a metaclass may have an == of its own
        children = result.values() if kind is dict or kind is OrderedDict else result
        return [tensor for child in children for tensor in list_plain_tensors(child)]
    if kind is Tensor or kind is torch.nn.Parameter:
        if vars(result):
            raise OutputRefused("output-type: a tensor with attributes of its own came back")
        return [result]
    if any(kind is scalar for scalar in SCALARS):
        return []
    raise OutputRefused(
        f"output-type: a {kind.__name__} came back; return plain tensors in tuples, lists or dicts"
    )


def stride_inputs(callee: Any) -> bool:
    """Replace the arguments of the next call by views with equal values: every second element of a larger buffer. False
    where there is nothing to replace."""
    leaves, shape = pytree.tree_flatten((callee.args, callee.kwargs))
    views = [_stride(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    callee.args, callee.kwargs = pytree.tree_unflatten(views, shape)
    return any(view is not leaf for view, leaf in zip(views, leaves, strict=True))


def _stride(tensor: Tensor) -> Tensor:
    if tensor.ndim == 0 or tensor.layout != torch.strided:
        return tensor
    view = torch.empty((*tensor.shape, 2), dtype=tensor.dtype, device=tensor.device)[..., 0]
    return view.copy_(tensor)


class Solution:
    """A `Callee` (see `judge.timing.bench_worker`)."""

    def __init__(self, graph: Graph, module: torch.nn.Module, *, copy: bool, device: str) -> None:
        self.graph, self.module, self.device = graph, module.to(device), device
        self.updated = map_updated_inputs(graph)
        if '"of": ' in graph.call:
            raise TaskError(
                "the task's arguments are objects of classes: it judges units, not ModelNew files"
            )
        self.shape = json.loads(graph.call)
        self.copied = [i for i in range(len(graph.inputs)) if copy and self._state(i) is not None]
        self.other_strides = False  # a dense output came in another order of dimensions than the reference's
        self.absent = [
            o.target for o in graph.outputs if o.role == "buffer_update" and self._taker(o) is None
        ]

    def list_unnamed(self) -> list[str]:
        """List what the outputs depend on and this module does not have under the reference's name and shape."""
        needed = {i.name for i in list_needed_state(self.graph)}
        return [
            item.target for n, item in enumerate(self.graph.inputs)
            if item.name in needed and self._state(n) is None
        ]  # fmt: skip

    def bind(self, values: Sequence[Tensor]) -> None:
        self.values = list(values)
        with torch.no_grad():
            for index in self.copied:
                self._place(index).copy_(values[index])
        inputs = [v for v, i in zip(values, self.graph.inputs, strict=True) if i.role == "input"]
        self.args, self.kwargs = put_together(self.shape, inputs, {})

    def reset(self, values: Sequence[Tensor]) -> None:
        for index in self.updated.values():
            if self.graph.inputs[index].role == "input" or self._state(index) is not None:
                self._place(index).copy_(values[index])

    def call(self) -> Any:
        return self.module(*self.args, **self.kwargs)

    def leaves(self, result: Any) -> list[Tensor]:
        """In the order of `Graph.outputs`; an update whose buffer this module lacks comes as its given value.
        Raises OutputRefused."""
        tensors = list_plain_tensors(result)
        outputs = [o for o in self.graph.outputs if o.value is not None and o.role == "output"]
        if len(tensors) != len(outputs):
            kind = type(result).__name__
            raise OutputRefused(
                f"output-type: {len(tensors)} tensors came back (in a {kind}), not {len(outputs)}"
            )
        for number, (leaf, output) in enumerate(zip(tensors, outputs, strict=True)):
            self._check(number, leaf, self.graph.specs[output.value or ""])
        return arrange(self.graph, iter(tensors), self._update)

    def find_owned(self, result: Any) -> list[Tensor]:
        """None: whose memory a module returns is not known."""
        return []

    def _check(self, number: int, leaf: Tensor, spec: TensorSpec) -> None:
        where = f"output {number}"
        if leaf.layout != torch.strided or leaf.is_conj() or leaf.is_neg():
            raise OutputRefused(f"output-type: {where} is not a strided tensor with its values in memory")
        if leaf.device.type != self.device:
            raise OutputRefused(f"device: {where} is on {leaf.device}, not on {self.device}")
        if tuple(leaf.shape) != spec.shape:
            raise OutputRefused(f"shape: {where} is {list(leaf.shape)}, not {list(spec.shape)}")
        if leaf.dtype != torch_dtype(spec.dtype):
            raise OutputRefused(f"dtype: {where} is {leaf.dtype}, not torch.{spec.dtype}")
        if not spec.numel or _same_strides(spec, leaf.stride()):
            return
        if not (_is_dense(spec.shape, leaf.stride()) and _is_dense(spec.shape, spec.stride)):
            raise OutputRefused(f"stride: {where} has strides {list(leaf.stride())}, not {list(spec.stride)}")
        self.other_strides = True

    def _update(self, output: GraphOutput) -> Tensor:
        input_index = self._taker(output)
        return self.values[self.updated[output.role, output.target]] if input_index is None else input_index

    def _taker(self, output: GraphOutput) -> Tensor | None:
        index = self.updated[output.role, output.target]
        return self.values[index] if output.role == "input_update" else self._state(index)

    def _place(self, index: int) -> Tensor:
        state = None if self.graph.inputs[index].role == "input" else self._state(index)
        return self.values[index] if state is None else state

    def _state(self, index: int) -> Tensor | None:
        """The module's own tensor for an input of the graph; None when it has none of that name and shape."""
        item = self.graph.inputs[index]
        if item.role == "input" or item.data:
            return None
        tensor = find_tensor(self.module, item.target)
        if tensor is None:
            return None
        spec = tensor_spec(tensor)
        return tensor if (spec.shape, spec.dtype) == (item.spec.shape, item.spec.dtype) else None


def _same_strides(spec: TensorSpec, stride: Sequence[int]) -> bool:
    return all(n <= 1 or a == b for n, a, b in zip(spec.shape, stride, spec.stride, strict=True))


def _is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Return whether the elements fill their memory, each place once, in some order of the dimensions."""
    step = 1
    for by, size in sorted((s, n) for n, s in zip(shape, stride, strict=True) if n > 1):
        if by != step:
            return False
        step *= size
    return True
