"""Which axis of the iteration space each dimension of each value runs over.

In: a graph and the nodes of a region. Out: per value a tuple with an axis or None (size 1, broadcast) for every
factor of its dimensions, and the value that spans the space. Dimensions that a node relates are the same; a view
that merges or splits dimensions makes several factors of one (see `factors`), each an axis of its own. Raises
Unsupported where that does not describe a node.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...records import Graph, Node
from ..program import Operand, Unsupported
from .axis_relations import (
    BATCH_NORM_INFERENCE,
    BATCH_NORMS,
    GROUP_NORM,
    KEEPING,
    REDUCING,
    SHUFFLES,
    VIEWS,
    base_name,
    group_factors,
    list_reduced_dims,
    relate,
)
from .factors import Dim, Factors

__all__ = [
    "BATCH_NORMS", "BATCH_NORM_INFERENCE", "GROUP_NORM", "KEEPING", "REDUCING", "SHUFFLES", "VIEWS", "Axes",
    "Dim", "base_name", "list_reduced_dims",
]  # fmt: skip


class Axes:
    """Shared factors of the dimensions of a region's values. `sizes`: of the axes, at the main variant."""

    def __init__(self, graph: Graph, nodes: Iterable[Node]) -> None:
        self.graph = graph
        self.nodes = list(nodes)
        self._factors = Factors()
        for node in self.nodes:
            relate(self._factors, graph, node)
        self.span = self._spanning_value()
        self._axis: dict[int, int] = {}
        for factor in self._factors_of(self.span):
            if factor in self._axis:
                raise Unsupported(f"{self.span}: two dimensions run together")
            self._axis[factor] = len(self._axis)
        self.sizes = tuple(self._factors.size(f) for f in self._axis)

    @property
    def all(self) -> frozenset[int]:
        return frozenset(self._axis.values())

    @property
    def ones(self) -> frozenset[int]:
        """Axes of one element: a value may lack them and still span the space."""
        return frozenset(a for a, n in enumerate(self.sizes) if n == 1)

    @property
    def literals(self) -> frozenset[int]:
        """Axes whose size is a constant of an operation."""
        return frozenset(self._axis[f] for f in self._factors.literals if f in self._axis)

    def of(self, value: str) -> tuple[int | None, ...]:
        """Axis per factor. Raises Unsupported when one is not of the space."""
        value_axes = tuple(a for d in range(len(self.graph.specs[value].shape)) for a in self.dim(value, d))
        if len({a for a in value_axes if a is not None}) != sum(a is not None for a in value_axes):
            raise Unsupported(f"{value}: one axis twice")
        return value_axes

    def dim(self, value: str, d: int) -> tuple[int | None, ...]:
        """Axes of one dimension, outer to inner."""
        return tuple(self._number(value, f) for f in self._factors.of((value, d)))

    def operand(self, name: str, value: str) -> Operand:
        """The value as an input or output called `name`, with an entry for every factor."""
        spec = self.graph.specs[value]
        axes, dims, shape, stride = self.of(value), [], [], []
        for d, step in enumerate(spec.stride):
            below = 1
            operand_axes: list[tuple[int, int]] = []
            for factor in reversed(self._factors.of((value, d))):
                operand_axes.insert(0, (self._factors.size(factor), step * below))
                below *= self._factors.size(factor)
            dims += [d] * len(operand_axes)
            shape += [n for n, _ in operand_axes]
            stride += [s for _, s in operand_axes]
        return Operand(name, value, spec.dtype, axes, tuple(shape), tuple(stride), tuple(dims))

    def find_reduced_axes(self, node: Node) -> frozenset[int]:
        """The axes that a reduction, or a norm within it, removes. Dimensions of size 1 are none."""
        source = node.uses[0]
        axes = [a for d in list_reduced_dims(node, self.graph.specs[source]) for a in self.dim(source, d)]
        if base_name(node) == GROUP_NORM:
            _, inner = group_factors(self._factors, self.graph, node)
            axes = [*(self._number(source, f) for f in inner), *axes]
        bound_axes = [a for a in axes if a is not None]
        if not bound_axes:
            raise Unsupported(f"{node.name} reduces a dimension of size 1")
        if _counts(node) and bound_axes != sorted(bound_axes):
            raise Unsupported(f"{node.name} counts elements in another order than the space has them")
        return frozenset(bound_axes)

    def _number(self, value: str, factor: int) -> int | None:
        axis = self._axis.get(factor)
        if axis is None and self._factors.size(factor) != 1:
            raise Unsupported(f"{value}: a dimension is outside the iteration space")
        return axis

    def _factors_of(self, value: str) -> tuple[int, ...]:
        return self._factors.of(*((value, d) for d in range(len(self.graph.specs[value].shape))))

    def _spanning_value(self) -> str:
        names = [v for n in self.nodes for v in n.uses] + [n.output.name for n in self.nodes]
        specs = self.graph.specs
        return max(dict.fromkeys(names), key=lambda v: (specs[v].numel, sum(s > 1 for s in specs[v].shape)))


def _counts(node: Node) -> bool:
    """Does the node yield indices? They count elements in the order of its argument."""
    return base_name(node) in ("argmax", "argmin") or any(
        v is not None and v.spec.dtype == "int64" for v in node.outputs[1:]
    )
