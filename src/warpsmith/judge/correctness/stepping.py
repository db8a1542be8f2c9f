"""A graph run one node at a time, with hooks on what goes into each node and what comes out.

In: a graph (whole, or cut to a region) and tensors for its inputs. Out: the wanted values. The hooks are how
the oracle's rounding noise and the admission mutants get in. Nodes run through
`runtime.interpreter.run_graph`, the trusted side's only way to execute ATen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from ...errors import TaskError
from ...records import ITEM_BYTES, Graph, GraphInput, GraphOutput, Node, TensorSpec
from ...runtime.interpreter import run_graph, takes_device
from ...runtime.rewrites import forbidden
from ...tasks.values import torch_dtype

STATED_ROOM, STATED_SLACK = 4, 1 << 24  # times the bytes of a task's values, and bytes besides
Tensors = dict[str, torch.Tensor]
Inward = Callable[
    [Node, str, torch.Tensor], torch.Tensor
]  # (node, a name that it reads, its value) -> what it shall read
Outward = Callable[
    [Node, Tensors, Tensors], Tensors
]  # (node, what it read, what it made) -> what it shall have made


class Stepper:
    """Reusable: the one-node graphs are made once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._single = {n.name: _one_node(graph, n) for n in graph.nodes}
        self._last = {name: node.name for node in graph.nodes for name in node.uses}

    def run(
        self,
        values: Mapping[str, torch.Tensor],
        wanted: Iterable[str],
        *,
        float64: bool = False,
        inward: Inward | None = None,
        outward: Outward | None = None,
    ) -> Tensors:
        keep = set(wanted)
        alive = dict(values)
        for node in self.graph.nodes:
            read = {name: widen(alive[name]) if float64 else alive[name] for name in node.uses}
            # What went in is dropped before something of its size comes out.
            arguments = {name: inward(node, name, t) for name, t in read.items()} if inward else dict(read)
            results = self.step(node, arguments, float64=float64)
            arguments.clear()
            alive |= outward(node, read, results) if outward else results
            for name in node.uses:
                if self._last[name] == node.name and name not in keep:
                    alive.pop(name, None)
        return {name: widen(alive[name]) if float64 else alive[name] for name in keep}

    def step(self, node: Node, read: Tensors, *, float64: bool = False) -> Tensors:
        names = {v.name for v in node.outputs if v is not None}
        if float64 and node.op == "aten.gelu.default":
            gelu = _gelu_tanh if node.kwargs.get("approximate") == "tanh" else _gelu
            return {node.output.name: gelu(widen(read[node.args[0]["v"]]))}
        return run_graph(self._single[node.name], read, float64=float64, wanted=names)


def find_cancelling(node: Node, read: Tensors, unit: float) -> torch.Tensor | None:
    """Compute what one roundoff of the erf (or tanh) in GELU, or in its gradient, moves the output by: it is near -1 in the tail, and
    1 is added to it. No more than what is left of it there, for it is -1 in the end.
    """
    name = node.op.split(".")[1]
    if name not in ("gelu", "gelu_backward"):
        return None
    operands = [
        read[a["v"]] for a in node.args if isinstance(a, dict) and "v" in a
    ]  # x, or the gradient and x
    remainder = torch.special.erfc(operands[-1].abs() * 0.5**0.5).clamp_(max=unit)
    return (operands[0] * 0.5 * remainder).nan_to_num_(0, 0, 0)


def _gelu(x: torch.Tensor) -> torch.Tensor:
    """Compute GELU without 1 + erf, which is 0 for x below -8.3 in float64, where the result is not."""
    return x * 0.5 * torch.special.erfc(x * -(0.5**0.5))


def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    """Compute the same of 1 + tanh, which is 0 below -7.2."""
    return x * torch.sigmoid((8 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))


def on_device(graph: Graph, device: str) -> Graph:
    """The graph with every device that its nodes name, or leave to torch's default, replaced by this one: an
    exported graph is one of the CPU.
    """
    return Graph.model_construct(**{**dict(graph), "nodes": tuple(_move(n, device) for n in graph.nodes)})


def _move(node: Node, device: str) -> Node:
    target = {"device": device}
    args = tuple(target if _is_device(a) else a for a in node.args)
    kwargs = {k: target if _is_device(v) else v for k, v in node.kwargs.items()}
    if not node.uses and "device" not in kwargs and takes_device(node.op):
        kwargs["device"] = target
    return Node.model_construct(**{**dict(node), "args": args, "kwargs": kwargs})


def _is_device(argument: Any) -> bool:
    return isinstance(argument, dict) and "device" in argument


def rounds(tensor: torch.Tensor) -> bool:
    """Return whether a result may be off by a rounding. One in float8 is not: its steps are as coarse as an integer's, and it is
    compared as integers are, ties granted.
    """
    return tensor.is_floating_point() and tensor.element_size() > 1


def widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if rounds(tensor) else tensor


def subgraph(graph: Graph, nodes: Iterable[str], inputs: Iterable[str], outputs: Iterable[str]) -> Graph:
    """The given nodes as a graph of their own. The pieces come from a validated graph, so they are not
    validated again.
    """
    names = set(nodes)
    return Graph.model_construct(
        inputs=tuple(
            GraphInput.model_construct(name=i, spec=graph.specs[i], role="input", target="") for i in inputs
        ),
        nodes=tuple(n for n in graph.nodes if n.name in names),
        outputs=tuple(GraphOutput(value=o) for o in outputs),
        tree="",
    )


def check_stated(
    graph: Graph, specs: Mapping[str, TensorSpec], inputs: Iterable[str], outputs: Iterable[str]
) -> None:
    """Raise TaskError where operations that a unit states make something else than `outputs` of `inputs` at these specs,
    or far more bytes on the way than the task's own values have. They are run on tensors without memory.
    """
    arguments = {n: _without_memory(specs[n]) for n in inputs}
    if reason := forbidden(graph):
        raise TaskError(reason)
    results = run_graph(
        graph, arguments, wanted={v.name for n in graph.nodes for v in n.outputs if v is not None}
    )
    room = STATED_ROOM * sum(spec.numel * ITEM_BYTES[spec.dtype] for spec in specs.values())
    if sum(t.numel() * t.element_size() for t in results.values()) > room + STATED_SLACK:
        raise TaskError("they make more bytes on the way than the whole task has")
    for name in outputs:
        want, result = _without_memory(specs[name]), results[name]
        if (result.shape, result.dtype) != (want.shape, want.dtype):
            raise TaskError(
                f"{name} is {result.dtype}{list(result.shape)}, not {want.dtype}{list(want.shape)}"
            )


def check_layout(made: Tensors, specs: Mapping[str, TensorSpec]) -> None:
    """Raise TaskError where a value lies in memory otherwise than the graph says: nodes behind it may rely on that."""
    for name, tensor in made.items():
        axes = zip(specs[name].shape, specs[name].stride, tensor.stride(), strict=True)
        if any(n > 1 and s != t for n, s, t in axes):
            raise TaskError(f"{name} has strides {list(tensor.stride())}, not {list(specs[name].stride)}")


def _without_memory(spec: TensorSpec) -> torch.Tensor:
    return torch.empty_strided(spec.shape, spec.stride, dtype=torch_dtype(spec.dtype), device="meta")


def ancestors(graph: Graph, names: Iterable[str]) -> Graph:
    """The part of the graph that the wanted values depend on, with the graph's own inputs."""
    names = list(names)
    needed, nodes = set(names), []
    for node in reversed(graph.nodes):
        if any(v is not None and v.name in needed for v in node.outputs):
            needed.update(node.uses)
            nodes.append(node)
    return Graph.model_construct(
        inputs=graph.inputs,
        nodes=tuple(reversed(nodes)),
        outputs=tuple(GraphOutput(value=o) for o in names),
        tree="",
    )


def _one_node(graph: Graph, node: Node) -> Graph:
    names = [v.name for v in node.outputs if v is not None]
    return subgraph(graph, [node.name], node.uses, names)
