"""Which axis of the iteration space each dimension of each value runs over.

In: a graph and the nodes of a region. Out: per value a tuple with an axis or None (size 1, broadcast) for
every dimension, and the value that spans the space. Dimensions that a node relates (broadcasting, permuting,
keeping) are merged; views count as long as they only add, drop or move dimensions. Raises Unsupported where
that does not describe a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...records import Graph, Node, TensorSpec
from .ops import option, pointwise
from .program import Unsupported

Dim = tuple[str, int]
VIEWS = {"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "expand", "permute", "transpose", "t"}
REDUCING = {
    "sum", "mean", "amax", "amin", "max", "min", "prod", "argmax", "argmin", "any", "all", "logsumexp",
    "var", "std",
    "var_mean", "linalg_vector_norm",
}  # fmt: skip
BATCH_NORMS = {
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit",
}  # by the batch's own statistics
BATCH_NORM_INFERENCE = "_native_batch_norm_legit_no_training"
KEEPING = {"_softmax", "_log_softmax", "native_layer_norm", *BATCH_NORMS}  # reduce inside, but keep the shape


def base_name(node: Node) -> str:
    """ "aten.sum.dim_IntList" → "sum"."""
    parts = node.op.split(".")
    return parts[1] if parts[0] == "aten" and len(parts) > 1 else ""


class Axes:
    """Merged dimensions of the values of a region."""

    def __init__(self, graph: Graph, nodes: Iterable[Node]) -> None:
        self.graph = graph
        self.nodes = list(nodes)
        self._parent: dict[Dim, Dim] = {}
        for node in self.nodes:
            for left, right in _relations(graph, node):
                self._merge(left, right)
        self.span = self._spanning_value()
        self._axis = self._number()

    def of(self, value: str) -> tuple[int | None, ...]:
        """Axis per dimension. Raises Unsupported when a dimension is not one of the space."""
        found: list[int | None] = []
        for d, size in enumerate(self.graph.specs[value].shape):
            axis = self._axis.get(self._find((value, d)))
            if axis is None and size != 1:
                raise Unsupported(f"{value}: dimension {d} is outside the iteration space")
            found.append(axis)
        if len({a for a in found if a is not None}) != sum(a is not None for a in found):
            raise Unsupported(f"{value}: one axis twice")
        return tuple(found)

    def reduced_by(self, node: Node) -> frozenset[int]:
        """The axes that a reduction removes."""
        source = node.uses[0]
        axes = self.of(source)
        picked = [axes[d] for d in reduced_dims(node, self.graph.specs[source])]
        if any(a is None for a in picked) or not picked:
            raise Unsupported(f"{node.name} reduces a dimension of size 1")
        return frozenset(a for a in picked if a is not None)

    def _spanning_value(self) -> str:
        names = [v for n in self.nodes for v in n.uses] + [n.output.name for n in self.nodes]
        specs = self.graph.specs
        return max(dict.fromkeys(names), key=lambda v: (specs[v].numel, sum(s > 1 for s in specs[v].shape)))

    def _number(self) -> dict[Dim, int]:
        table: dict[Dim, int] = {}
        for d in range(len(self.graph.specs[self.span].shape)):
            root = self._find((self.span, d))
            if root in table:
                raise Unsupported(f"{self.span}: two dimensions run together")
            table[root] = d
        return table

    def _find(self, dim: Dim) -> Dim:
        while dim in self._parent:
            dim = self._parent[dim]
        return dim

    def _merge(self, left: Dim, right: Dim) -> None:
        a, b = self._find(left), self._find(right)
        if a != b:
            self._parent[b] = a


def reduced_dims(node: Node, spec: TensorSpec) -> tuple[int, ...]:
    """Dimensions of the first argument that a reducing node reduces, ascending."""
    rank, name = len(spec.shape), base_name(node)
    if name == "native_layer_norm":
        return tuple(range(rank - len(node.args[1]), rank))
    if name in BATCH_NORMS:
        return tuple(d for d in range(rank) if d != 1)
    position = 2 if name == "linalg_vector_norm" else 1
    dims = option(node, position, "dim", None)
    if dims is None or dims == []:
        return tuple(range(rank))
    if isinstance(dims, bool | dict):
        raise Unsupported(f"{node.name}: reduction over {dims!r}")
    listed = dims if isinstance(dims, list | tuple) else [dims]
    return tuple(sorted(d % rank for d in listed)) if rank else ()


def _relations(graph: Graph, node: Node) -> Iterator[tuple[Dim, Dim]]:
    name = base_name(node)
    out = node.output
    if name in VIEWS:
        yield from _viewed(graph, node, name)
    elif name in BATCH_NORMS or name == BATCH_NORM_INFERENCE:
        source = node.uses[0]
        yield from (((source, d), (out.name, d)) for d in range(len(out.spec.shape)))
        others = [*node.uses[1:], *(v.name for v in node.outputs[1:] if v is not None)]
        yield from (((source, 1), (v, 0)) for v in others if len(graph.specs[v].shape) == 1)
    elif name in KEEPING:
        source = node.uses[0]
        rank = len(graph.specs[source].shape)
        yield from (((source, d), (out.name, d)) for d in range(rank))
        if name == "native_layer_norm":
            for extra in node.uses[1:]:
                width = len(graph.specs[extra].shape)
                yield from (((source, rank - width + d), (extra, d)) for d in range(width))
            kept = [v for v in node.outputs[1:] if v is not None]
            yield from (((source, d), (v.name, d)) for v in kept for d in range(rank - len(node.args[1])))
    elif name in REDUCING and not _elementwise_extremum(node, name):
        yield from _reduced(graph, node)
    elif pointwise(node.op) is not None:
        for value in node.uses:
            yield from _broadcast(graph.specs[value], value, out.spec, out.name)
    else:
        raise Unsupported(f"{node.op} is not known")


def _elementwise_extremum(node: Node, name: str) -> bool:
    return name in ("max", "min") and node.op.endswith(".other")


def _broadcast(spec: TensorSpec, value: str, out: TensorSpec, name: str) -> Iterator[tuple[Dim, Dim]]:
    offset = len(out.shape) - len(spec.shape)
    for d, size in enumerate(spec.shape):
        if size == out.shape[d + offset]:
            yield (value, d), (name, d + offset)


def _reduced(graph: Graph, node: Node) -> Iterator[tuple[Dim, Dim]]:
    source = node.uses[0]
    spec = graph.specs[source]
    gone = set(reduced_dims(node, spec))
    for out in (v for v in node.outputs if v is not None):
        kept = [d for d in range(len(spec.shape)) if d not in gone]
        keepdim = len(out.spec.shape) == len(spec.shape) and bool(gone)
        yield from (((source, d), (out.name, d if keepdim else i)) for i, d in enumerate(kept))


def _viewed(graph: Graph, node: Node, name: str) -> Iterator[tuple[Dim, Dim]]:
    source, out = node.uses[0], node.output
    spec = graph.specs[source]
    rank = len(spec.shape)
    if name == "permute":
        yield from (((source, d % rank), (out.name, i)) for i, d in enumerate(node.args[1]))
    elif name in ("transpose", "t"):
        a, b = (node.args[1] % rank, node.args[2] % rank) if name == "transpose" else (0, rank - 1)
        order = {a: b, b: a}
        yield from (((source, d), (out.name, order.get(d, d))) for d in range(rank))
    elif name == "expand":
        yield from _broadcast(spec, source, out.spec, out.name)
    else:
        yield from _same_without_ones(spec, source, out.spec, out.name)


def _same_without_ones(
    spec: TensorSpec, source: str, out: TensorSpec, name: str
) -> Iterator[tuple[Dim, Dim]]:
    """A reshape that only adds or drops dimensions of size 1."""
    before = [d for d, n in enumerate(spec.shape) if n != 1]
    after = [d for d, n in enumerate(out.shape) if n != 1]
    if [spec.shape[d] for d in before] != [out.shape[d] for d in after]:
        raise Unsupported(f"{name}: a view that merges or splits dimensions")
    yield from (((source, a), (name, b)) for a, b in zip(before, after, strict=True))
    if spec.shape == out.shape:
        yield from (((source, d), (name, d)) for d in range(len(spec.shape)))
