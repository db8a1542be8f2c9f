"""A linear map and the sum behind it in a graph, and the two ways to take the sum first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from math import prod

from ...codegen.rewrites.algebra import SummedMap, match_summed_map
from ...records import Graph, Node, TensorSpec, Tunable
from ..anchored import Anchor, AnchoredFamily, Core
from ..family import Technique

LEAST_SUMMED = 8  # terms of the sum from which on taking it first pays
FAR = 8  # elements between neighbours of the other factor's rows, beyond which each costs a cache line


class CollapsePattern(AnchoredFamily):
    name = "collapse"

    def covers(self, graph: Graph, node: Node) -> bool:
        return match_summed_map(graph, node) is not None

    def supports(self, graph: Graph, node: Node) -> bool:
        mapped = match_summed_map(graph, node)
        if mapped is None:
            return False
        summed, factor = graph.specs[mapped.summed.value], graph.specs[mapped.other.value]
        is_near = factor.stride[mapped.other.inner] <= FAR or factor.shape[mapped.other.inner] == 1
        terms = prod(summed.shape[d] for d in mapped.summed_dims)
        return is_near and terms >= LEAST_SUMMED and _have_one_stride(summed, mapped.summed_dims)

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        mapped = read_summed_map(graph, node)
        return Core(tuple(n.name for n in mapped.nodes), mapped.reduction.output.name, ())

    def technique(self, anchor: Anchor, tunables: tuple[Tunable, ...], us: float | None = None) -> Technique:
        if read_summed_map(anchor.graph, anchor.node).over_features:
            why = "a sum over the outputs of a linear map is one product with the sum of its weights"
            return Technique("algebraic-collapse", why, "memory", tunables, us=us)
        why = "a sum over the rows of a linear map is the map of their sum, one row instead of all"
        return Technique("algebraic-pool-first", why, "memory", tunables, us=us)


def read_summed_map(graph: Graph, node: Node) -> SummedMap:
    mapped = match_summed_map(graph, node)
    assert mapped is not None  # `supports` refuses other nodes
    return mapped


def _have_one_stride(spec: TensorSpec, dims: Sequence[int]) -> bool:
    """Neighbouring dimensions that one stride steps through."""
    if list(dims) != list(range(dims[0], dims[-1] + 1)):
        return False
    wide = [d for d in dims if spec.shape[d] != 1]
    return all(spec.stride[a] == spec.shape[b] * spec.stride[b] for a, b in pairwise(wide))
