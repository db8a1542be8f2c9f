"""Wrong answers that a task must be able to tell from right ones: the mutants of task admission.

In: a graph with native-dtype values of one input family, the same family at another seed, and the truth. Out:
what each mutant would have returned. Runs in the reference worker; no candidate code is involved. An
*equivalent* mutant (a dropped op that changes no bit on any input tried, such as an added zero, or only rounds, such
as a resize of one pixel) cannot be told from the original by anyone and is reported as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import torch

from ...records import Graph, Node
from .rounding import op_name
from .stepping import Stepper, Tensors, rounds, subgraph, widen

MOVES = frozenset({
    "_to_copy", "alias", "arange", "as_strided", "cat", "clone", "contiguous", "copy", "detach", "empty",
    "empty_like", "expand", "flip", "full", "full_like", "lift_fresh_copy", "ones", "ones_like",
    "permute", "repeat", "reshape", "scalar_tensor", "select", "slice", "split", "split_with_sizes",
    "squeeze", "t", "transpose", "unbind", "unsqueeze", "view", "zeros", "zeros_like",
})  # fmt: skip
# Bits of mantissa kept: bf16's and TF32's for a float task; for a half one, fewer than it has itself.
LOW_BITS = {"float64": (23, 10), "float32": (7, 10), "float16": (6,), "bfloat16": (4,)}
ROUNDING = 2.0**-48  # of float64: sixteen ulp, for the few operations of a resize
MANTISSA = {torch.float64: 52, torch.float32: 23, torch.float16: 10, torch.bfloat16: 7}
INTEGER_OF = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}


def mutants(
    graph: Graph, outputs: tuple[str, ...], values: Tensors, others: Tensors, dropped: int
) -> dict[str, Callable[[], Tensors]]:
    """Return functions that compute the outputs of each mutant, by name. `others`: values of another seed. `dropped`: ops to drop at the
    most, nearest the output first.
    """
    stepper, targets = Stepper(graph), list(droppable(graph))[:dropped]
    tail = Tail(graph, targets, outputs)
    computed = stepper.run(values, {*outputs, *tail.reads})
    native = {o: computed[o] for o in outputs}
    stale = cache(partial(stepper.run, others, outputs))
    makers: dict[str, Callable[[], Tensors]] = {
        "zeros": lambda: {o: torch.zeros_like(t) for o, t in native.items()},
        "constant": lambda: {o: _constant(stale()[o]) for o in outputs},
        "stale replay": stale,
    }
    for name, tensor in values.items():
        if any(_alike(tensor, t) for t in native.values()):
            makers[f"input {name}"] = partial(_return_input, tensor, native)
    for node in targets:
        makers[f"dropped {op_name(node)} ({node.name})"] = DroppedOp(tail, node, computed)
    for bits in low_bits(graph):
        makers[f"{bits}-bit mantissa"] = partial(_low_precision, stepper, values, outputs, bits)
    return makers


class Tail:
    """The nodes from the first dropped one on: only they are run again to drop one of them."""

    def __init__(self, graph: Graph, targets: Sequence[Node], outputs: tuple[str, ...]) -> None:
        names = {node.name for node in targets}
        first = next((i for i, node in enumerate(graph.nodes) if node.name in names), len(graph.nodes))
        nodes = graph.nodes[first:]
        produced = {v.name for node in nodes for v in node.outputs if v is not None}
        self.outputs = outputs
        self.reads = {name for node in nodes for name in node.uses} - produced
        self._stepper = Stepper(subgraph(graph, [n.name for n in nodes], self.reads, outputs))

    def without(self, node: Node, known: Tensors) -> Tensors:
        """Outputs with a node bypassed. `known`: values of all that is read, and of outputs made before."""
        return self._stepper.run(known, self.outputs, outward=_dropping(node))

    def only_rounds(self, node: Node, known: Tensors) -> bool:
        """Return whether in float64 a node gives what takes its place when it is dropped, within a few ulp: then dropping it in the native
        dtype leaves roundings out, and nothing else.
        """
        read = {name: widen(t) for name, t in self._stepper.run(known, node.uses).items()}
        result = self._stepper.step(node, read, float64=True)[node.output.name]
        bypass = _find_bypass(read, result)
        if bypass is None or not rounds(result):
            return False
        return bool(((result - bypass).abs() <= ROUNDING * bypass.abs()).all())


class DroppedOp:
    """A mutant: the outputs with one node bypassed."""

    def __init__(self, tail: Tail, node: Node, known: Tensors) -> None:
        self._tail, self._node, self._known = tail, node, known

    def __call__(self) -> Tensors:
        return self._tail.without(self._node, self._known)

    def only_rounds(self) -> bool:
        """Return what `Tail.only_rounds` says of this node."""
        return self._tail.only_rounds(self._node, self._known)


def droppable(graph: Graph) -> Iterator[Node]:
    """Nodes that can be bypassed by one of their inputs, from the output backwards."""
    for node in reversed(graph.nodes):
        if op_name(node) in MOVES or not any(v is not None for v in node.outputs):
            continue
        if any(_fits(graph, name, node) for name in node.uses):
            yield node


def _fits(graph: Graph, name: str, node: Node) -> bool:
    source, target = graph.specs[name], node.output.spec
    return len(source.shape) <= len(target.shape) and all(
        a in (1, b) for a, b in zip(reversed(source.shape), reversed(target.shape), strict=False)
    )


def _dropping(target: Node):  # type: ignore[no-untyped-def]
    def outward(node: Node, read: Tensors, made: Tensors) -> Tensors:
        if node.name != target.name:
            return made
        bypass = _find_bypass(read, made[node.output.name])
        return made if bypass is None else made | {node.output.name: bypass}

    return outward


def _find_bypass(read: Tensors, result: torch.Tensor) -> torch.Tensor | None:
    """Find the first tensor that fits in a result's place, in its layout: what follows would round otherwise in another one."""
    for tensor in read.values():
        try:
            return torch.empty_like(result).copy_(tensor.expand(result.shape))
        except RuntimeError:
            continue
    return None


def _constant(stale: torch.Tensor) -> torch.Tensor:
    if rounds(stale):
        return torch.full_like(stale, stale.double().mean().item() if stale.numel() else 0.0)
    return torch.full_like(stale, stale.flatten()[0].item() if stale.numel() else 0)


def _alike(given: torch.Tensor, made: torch.Tensor) -> bool:
    return given.numel() == made.numel() and rounds(given) and rounds(made)


def _return_input(given: torch.Tensor, native: Tensors) -> Tensors:
    return {o: given.reshape(t.shape).to(t.dtype) if _alike(given, t) else t for o, t in native.items()}


def low_bits(graph: Graph) -> tuple[int, ...]:
    """Mantissa bits of the low-precision twins that a task of this dtype must tell from the real thing."""
    dtypes = [i.spec.dtype for i in graph.inputs if i.role == "input" and i.spec.dtype in LOW_BITS]
    return LOW_BITS[dtypes[0]] if dtypes else ()


def _low_precision(stepper: Stepper, values: Tensors, outputs: tuple[str, ...], bits: int) -> Tensors:
    def outward(node: Node, read: Tensors, made: Tensors) -> Tensors:
        return {name: round_mantissa(t, bits) for name, t in made.items()}

    return stepper.run({n: round_mantissa(t, bits) for n, t in values.items()}, outputs, outward=outward)


def round_mantissa(tensor: torch.Tensor, bits: int) -> torch.Tensor:
    """Round to `bits` of mantissa (half away from zero)."""
    if not rounds(tensor) or tensor.numel() == 0:
        return tensor
    drop = MANTISSA[tensor.dtype] - bits
    if drop <= 0:
        return tensor
    raw = tensor.contiguous().view(INTEGER_OF[tensor.dtype])
    rounded = ((raw + (1 << (drop - 1))) >> drop << drop).view(tensor.dtype)
    return torch.where(tensor.isfinite() & rounded.isfinite(), rounded, tensor)
