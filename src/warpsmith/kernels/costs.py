"""What regions cost: in ATen as measured, and at the least.

In: a graph, a region or node, and what was measured. Out: bytes and microseconds.
"""

from __future__ import annotations

from ..codegen.lowering.axis_relations import VIEWS, base_name
from ..codegen.rewrites.algebra import match_summed_map
from ..codegen.rewrites.folding import Folded, match_folded_region
from ..codegen.rewrites.rewriting import build_folded_nodes
from ..facts import Facts
from ..records import Graph, Node, Region


def aten_us(graph: Graph, region: Region, facts: Facts) -> float:
    """Measured time of the region's nodes; for those not measured, what `node_us` supposes."""
    return sum(node_us(graph, graph.by_name[name], facts) for name in region.nodes)


def node_us(graph: Graph, node: Node, facts: Facts) -> float:
    """Measured time of a node; until it is measured, what moving its operands or its arithmetic takes."""
    if node.name in facts.node_us:
        return facts.node_us[node.name]
    return max(_node_bytes(graph, node) / facts.bandwidth, node.flops / facts.flop_rate) * 1e6


def region_bytes(graph: Graph, region: Region) -> int:
    """Inputs read once, outputs written once."""
    return sum(graph.specs[v].nbytes for v in (*region.inputs, *region.outputs))


def floor_us(graph: Graph, region: Region, facts: Facts) -> float:
    """Time to move the region's operands once, or to do its arithmetic, whichever is longer."""
    flops = sum(graph.by_name[n].flops for n in region.nodes)
    return max(region_bytes(graph, region) / facts.bandwidth, flops / facts.flop_rate) * 1e6


def _node_bytes(graph: Graph, node: Node) -> int:
    if base_name(node) in VIEWS:
        return 0
    output_bytes = sum(v.spec.nbytes for v in node.outputs if v is not None)
    return output_bytes + sum(graph.specs[v].nbytes for v in node.uses)


def predict_us(graph: Graph, region: Region, facts: Facts) -> float:
    """The least that a unit for the region may take: at its floor; where its steps are folded into a linear map that
    stays the library's, what that takes; where a sum is taken before its map, moving the operands, for little of the
    arithmetic is left.
    """
    folding = match_folded_region(graph, region)
    if folding is not None:
        return predict_folded_us(graph, folding, facts)
    moved = region_bytes(graph, region) / facts.bandwidth * 1e6
    return moved if _sums_first(graph, region) else floor_us(graph, region, facts)


def _sums_first(graph: Graph, region: Region) -> bool:
    inside = set(region.nodes)
    maps = (match_summed_map(graph, graph.by_name[name]) for name in region.nodes)
    return any(m is not None and inside.issuperset(n.name for n in m.nodes) for m in maps)


def predict_folded_us(graph: Graph, found: Folded, facts: Facts) -> float:
    """The map as it is measured, and small operations on its weights before it."""
    small = build_folded_nodes(graph, found)[:-1]
    moved = 3 * sum(n.output.spec.nbytes for n in small)
    return (
        node_us(graph, found.map, facts)
        + facts.hardware.aten_call_us * len(small)
        + moved / facts.bandwidth * 1e6
    )
