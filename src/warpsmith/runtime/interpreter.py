"""Run an exported graph in torch, node by node, natively or as the float64 oracle.

In: a graph and its input tensors by name. Out: the values asked for. Only ops of the `aten` namespace run,
looked up by name, so that a trusted process can run a task's graph without running a line of the task.
Values are dropped after their last use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch

from ..errors import TaskError
from ..records import Graph, Node
from ..tasks.values import torch_dtype

_FORBIDDEN = frozenset({"from_file"})  # maps a file of its choice into memory
_VIEWS = frozenset({"aten.view.default", "aten._unsafe_view.default"})
_LOW_PRECISION = (torch.float32, torch.float16, torch.bfloat16)


def run_graph(
    graph: Graph, values: Mapping[str, torch.Tensor], *, float64: bool = False, wanted: set[str] | None = None
) -> dict[str, torch.Tensor]:
    """Values by name, those the graph returns unless `wanted` names others.

    With `float64` every floating input, dtype argument and intermediate is float64 (complex128 for complex
    ones): the oracle against which rounding is judged. Inputs are not modified. Raises TaskError for an op
    outside ATen or a missing input.
    """
    needed = set(graph.returned) if wanted is None else wanted
    live = {name: _to_float64(t) if float64 else t for name, t in values.items()}
    with torch.no_grad():
        for node, dead in plan(graph, needed):
            _run_node(node, live, float64)
            for name in dead:
                live.pop(name, None)
    missing = needed - live.keys()
    if missing:
        raise TaskError(f"the graph has no value {sorted(missing)[0]!r}")
    return {name: live[name] for name in needed}


def plan(graph: Graph, asked: set[str]) -> list[tuple[Node, list[str]]]:
    """The nodes that lead to a wanted value, in order, each with the values that nobody needs after it."""
    needed, steps = set(asked), []
    for node in reversed(graph.nodes):
        names = [v.name for v in node.outputs if v is not None]
        if any(name in needed for name in names):
            dead = [name for name in dict.fromkeys([*node.uses, *names]) if name not in needed]
            needed.update(node.uses)
            needed.update(dead)
            steps.append((node, dead))
    return steps[::-1]


def _run_node(node: Node, live: dict[str, torch.Tensor], float64: bool) -> None:
    op = aten_op(find_executed_op(node.op))
    try:
        args = [decode(a, live, float64) for a in node.args]
        kwargs = {k: decode(v, live, float64) for k, v in node.kwargs.items()}
    except KeyError as error:
        raise TaskError(f"{node.op} needs the value {error.args[0]!r}, which was not given") from error
    result = op(*args, **kwargs)
    results = result if isinstance(result, list | tuple) else (result,)
    for value, tensor in zip(node.outputs, results, strict=True):
        if value is not None:
            live[value.name] = _to_float64(tensor) if float64 else tensor


def find_executed_op(name: str) -> str:
    """The op that is run for a node. A view becomes a reshape: where the strides differ from those of the export (another device
    or attention backend, another layout of an input) it copies, as the module's own `reshape` would.
    """
    return "aten.reshape.default" if name in _VIEWS else name


@lru_cache(maxsize=1024)
def aten_op(name: str) -> Callable[..., Any]:
    """The overload of "aten.add.Tensor".

    Raises TaskError for anything outside the aten namespace and for ops that write in place.
    """
    namespace, _, remainder = name.partition(".")
    packet, _, overload = remainder.partition(".")
    if (
        namespace != "aten"
        or packet in _FORBIDDEN
        or not overload
        or not remainder.replace(".", "").replace("_", "").isalnum()
    ):
        raise TaskError(f"{name} is no ATen op; a task's graph may hold nothing else")
    try:
        op: torch._ops.OpOverload = getattr(getattr(torch.ops.aten, packet), overload)
    except (AttributeError, RuntimeError) as error:
        raise TaskError(f"this torch ({torch.__version__}) has no op {name}") from error
    if op._schema.is_mutable:
        raise TaskError(f"{name} writes to its arguments; a task's graph is functional")
    return op


def takes_device(name: str) -> bool:
    """Return whether an op can be told on which device to make its result."""
    schema: torch.FunctionSchema = aten_op(name)._schema  # type: ignore[attr-defined]
    return any(argument.name == "device" for argument in schema.arguments)


def decode(arg: Any, live: Mapping[str, Any], float64: bool = False) -> Any:
    """An argument of a node from its JSON form (see `records.graph`).

    KeyError for a value that is not there.
    """
    if isinstance(arg, dict):
        (tag, content), *remainder = arg.items()
        if remainder:
            raise TaskError(f"malformed argument in a graph: {arg}")
        if tag == "v":
            return live[content]
        if tag == "f":
            return float(content)
        if tag == "dtype":
            dtype = torch_dtype(content)
            return torch.float64 if float64 and dtype in _LOW_PRECISION else dtype
        if tag == "device":
            return torch.device(content)
        if tag in ("layout", "memory_format"):
            return getattr(torch, content)
        raise TaskError(f"malformed argument in a graph: {arg}")
    if isinstance(arg, list | tuple):
        return [decode(a, live, float64) for a in arg]
    return arg


def _to_float64(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype in _LOW_PRECISION:
        return tensor.double()
    return tensor.to(torch.complex128) if tensor.dtype == torch.complex64 else tensor
