"""A batched product whose right factor is the same for all batches, as one product of all rows.

`matmul` of (…, M, K) and (1, K, N), and `bmm` with a factor that was expanded, run once a batch; with the factor's one matrix `matmul` makes
one product of (… · M, K) and (K, N). Products with a factor of rank 2, `linear` and `einsum` are exported as one product already.
"""

from __future__ import annotations

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import FLOATS
from ...codegen.rewrites.rewriting import NodeMaker
from ...facts import Facts
from ...records import Graph, Node, Region
from ..costs import aten_us
from .alternative import PREFIX


class BatchedAsSingle:
    technique = f"{PREFIX}batched-as-single"
    why = "the right factor is the same for all batches: one product of all rows instead of one a batch"

    def cut(self, graph: Graph) -> list[list[str]]:
        return [[node.name] for node in graph.nodes if _shares_factor(graph, node)]

    def matches(self, graph: Graph, region: Region) -> bool:
        return len(region.nodes) == 1 and _shares_factor(graph, graph.by_name[region.nodes[0]])

    def write(self, graph: Graph, region: Region) -> list[Node]:
        (node,) = (graph.by_name[name] for name in region.nodes)
        maker = NodeMaker(graph, f"{node.name}_single", node.output.spec.dtype)
        lhs, factor = (arg["v"] for arg in node.args)
        shape = graph.specs[factor].shape
        for dim in range(len(shape) - 2):
            factor = maker.add("aten.select.int", ({"v": factor}, 0, 0), shape[dim + 1 :])
        maker.add("aten.matmul.default", ({"v": lhs}, {"v": factor}), node.output.spec.shape)
        return maker.ending(node.output)

    def predict_us(self, graph: Graph, region: Region, facts: Facts) -> float:
        """Promise nothing: the arithmetic is the same, and what the batches cost is the library's secret."""
        return aten_us(graph, region, facts)


def _shares_factor(graph: Graph, node: Node) -> bool:
    if base_name(node) not in ("bmm", "matmul") or node.kwargs or len(node.args) != 2:
        return False
    lhs, rhs = (graph.specs[arg["v"]] for arg in node.args)
    batches = node.output.spec.shape[:-2]
    if len(rhs.shape) < 3 or len(lhs.shape) < 3 or lhs.dtype not in FLOATS:
        return False
    is_one = all(n == 1 or s == 0 for n, s in zip(rhs.shape[:-2], rhs.stride, strict=False))
    return is_one and lhs.contiguous and lhs.shape[:-2] == batches and max(batches) > 1
