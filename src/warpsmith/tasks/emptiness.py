"""A task whose main shapes have no elements is refused; a variant or a region may be empty, and kernels must stand it."""

from __future__ import annotations

from ..errors import TaskError
from ..records import Graph


def refuse_empty(graph: Graph) -> None:
    """Refuse an output without elements, and inputs that all have none: every answer would be right. Raises TaskError."""
    outputs = [(o.value, graph.specs[o.value]) for o in graph.outputs if o.value is not None]
    inputs = [(i.name, i.spec) for i in graph.inputs if i.role == "input"]
    empty = next(((f"output {n}", s) for n, s in outputs if not s.numel), None)
    if empty is None and inputs and all(not s.numel for _, s in inputs):
        empty = f"input {inputs[0][0]}", inputs[0][1]
    if empty is not None:
        name, spec = empty
        shape = ",".join(map(str, spec.shape))
        raise TaskError(
            f"the {name} has no element ({spec.dtype}[{shape}]), so there is nothing to compare: use sizes above 0"
        )
