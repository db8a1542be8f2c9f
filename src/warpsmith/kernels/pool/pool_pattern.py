"""Pooling in a graph: over windows of images that are contiguous, channels-last or strided."""

from __future__ import annotations

from ...codegen.lowering.axis_relations import base_name
from ...records import Graph, Node, TensorSpec
from ..anchored import AnchoredFamily
from .pool_windows import SPATIAL, Pool, read_pool

RECOMPUTED = 2.5  # visits of an input element up to which a fused producer is computed anew at each


class PoolingPattern(AnchoredFamily):
    name = "pooling"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) in SPATIAL

    def supports(self, graph: Graph, node: Node) -> bool:
        pool = read_pool(graph, node)
        return pool is not None and not (pool.indices and channels_last(graph, node, pool))

    def prologues(self, graph: Graph, node: Node) -> tuple[str, ...]:
        """The input, where computing it anew for each window that covers it is cheaper than a round trip."""
        pool = read_pool(graph, node)
        if pool is None:
            return ()
        count = len(pool.windows)
        size, result_size = graph.specs[node.uses[0]].shape[-count:], node.output.spec.shape[-count:]
        dims = range(count) if channels_last(graph, node, pool) else range(count - 1)
        return (node.uses[0],) if pool.reads(size, result_size, dims) <= RECOMPUTED else ()

    def run_axis(self, graph: Graph, node: Node) -> int:
        pool = read_pool(graph, node)
        return -1 if pool is None or not channels_last(graph, node, pool) else -len(pool.windows) - 1


def channels_last(graph: Graph, node: Node, pool: Pool) -> bool:
    """Do channels lie next to each other in what is read and in what is written?"""
    specs = (graph.specs[node.uses[0]], node.output.spec)
    return all(_dense_channels(s, len(pool.windows)) for s in specs)


def _dense_channels(spec: TensorSpec, count: int) -> bool:
    channel = len(spec.shape) - count - 1
    return spec.shape[channel] > 1 and spec.stride[channel] == 1 and spec.stride[-1] != 1
