"""Families that fuse into a convolution what makes less of its results: how their regions are cut, recognised and taken apart.

In: a family that writes the convolution, mixed in after `FusedEpilogueFamily`; graphs and regions. Out: regions of the convolution and all
that `epilogue_pattern` finds behind it, where the family `can_fuse` it; the chains, the lowered reductions and the `Epilogue` of one. Other
families cut the convolution alone, for other plans.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from ....codegen.cuda.cuda_chain import write_chain
from ....codegen.fusion.broadcast_chains import build_chain_between
from ....codegen.fusion.op_chain import Chain, epilogue
from ....codegen.lowering.axis_relations import base_name, list_reduced_dims
from ....codegen.program import Program, Unsupported, operand_names
from ....codegen.writer import Writer
from ....errors import TaskError
from ....records import Graph, Node, Region
from ....tasks.regions import make_region
from ...anchored import Anchor
from ...cuda_anchored import CudaAnchored
from ..convolution_kinds import ConvolutionKind, read_kind
from ..epilogue_pattern import Follows, column_program, follows, rename_operands, window_of
from .convolution_epilogue import Combine, Epilogue, Summed


class FusedEpilogueFamily(CudaAnchored):
    fuses_reductions = True  # cuts more than the convolution and its pointwise nodes

    def can_fuse(
        self, graph: Graph, region: Region, node: Node, kind: ConvolutionKind, consumers: Follows
    ) -> bool:
        """Tell whether the consumers can be computed in the blocks that make the results."""
        raise NotImplementedError

    def cut(self, graph: Graph, node: Node, taken: Collection[str], fuse: bool) -> Region | None:
        if not fuse or node.name in taken or not self.supports(graph, node):
            return None
        consumers = follows(graph, node.output.name, {n.name for n in graph.nodes} - {*taken, node.name})
        if consumers is None:
            return None
        try:
            region = make_region(graph, [node.name, *consumers.nodes])
            chains_of(graph, region, node, consumers)
        except (TaskError, Unsupported):
            return None
        return region if self.anchor(graph, region) is not None else None

    def anchor(self, graph: Graph, region: Region) -> Anchor | None:
        node = next((graph.by_name[n] for n in region.nodes if self.covers(graph, graph.by_name[n])), None)
        kind = read_kind(graph, node) if node is not None else None
        if node is None or kind is None or not self.supports(graph, node):
            return None
        consumers = match_epilogue(graph, region, node)
        if consumers is None or {node.name, *consumers.nodes} != set(region.nodes):
            return None
        if not self.can_fuse(graph, region, node, kind, consumers):
            return None
        core = self.core(graph, node, ())  # zeros put around the input before stay outside
        before: dict[str, tuple[str, ...]] = dict.fromkeys(core.reads, ())
        return Anchor(graph, region, node, consumers.after, before, operand_names(region), core)


def match_epilogue(graph: Graph, region: Region, node: Node) -> Follows | None:
    return follows(graph, node.output.name, set(region.nodes) - {node.name})


def write_chains(w: Writer, anchor: Anchor) -> Epilogue:
    """Writes the pointwise nodes, as functions. Raises Unsupported."""
    graph, region, node = anchor.graph, anchor.region, anchor.node
    consumers = match_epilogue(graph, region, node)
    if consumers is None:
        raise Unsupported("nothing that makes less of a convolution's results")
    chains, columns = chains_of(graph, region, node, consumers)
    for name, chain in chains.items():
        write_chain(w, chain, name, -1)
    pool, window, total = consumers.pool, window_of(consumers), consumers.total
    combine: Combine = "" if pool is None else "max" if pool.maximum else "average"
    divisor = pool.divisor if pool is not None and pool.divisor is not None else prod(window)
    summed: Summed = ""
    if total is not None:
        summed = "all" if 1 in list_reduced_dims(total, graph.specs[consumers.summed]) else "places"
    mean = total is not None and base_name(total) == "mean"
    return Epilogue(
        window,
        combine,
        float(divisor),
        "epilogue_before_pool" in chains,
        "epilogue_after_pool" in chains,
        columns,
        summed,
        mean,
    )


def chains_of(
    graph: Graph, region: Region, node: Node, consumers: Follows
) -> tuple[dict[str, Chain], Program | None]:
    """Pointwise nodes by the names of their functions, and the reductions over channels. Raises Unsupported."""
    names = operand_names(region)
    chains: dict[str, Chain | None] = {
        "epilogue_before_pool": build_chain_between(
            graph, names, consumers.before, node.output.name, consumers.before_value, {}
        ),
        "epilogue_after_pool": build_chain_between(
            graph, names, consumers.between, consumers.value, consumers.summed, {}
        ),
    }
    columns = None
    if consumers.columns:
        columns = column_program(graph, consumers.columns, consumers.value)
        if columns is None or {o.value for o, _ in columns.outputs} != set(region.outputs):
            raise Unsupported("reductions over other dimensions than the channels")
        columns = rename_operands(columns, {**names, consumers.value: "acc"})
    else:
        chains["epilogue"] = epilogue(graph, region, consumers.made, consumers.after)
    return {name: chain for name, chain in chains.items() if chain is not None}, columns


def result_sizes(anchor: Anchor, kind: ConvolutionKind) -> tuple[str, ...]:
    """Channels and sizes of the convolution's result, which is no operand, as C++."""
    node, names = anchor.node, anchor.names
    x, k, output_padding = names[node.args[0]["v"]], names[node.args[1]["v"]], list(node.args[7])
    output_padding = output_padding * len(kind.stride) if len(output_padding) == 1 else output_padding
    sizes = []
    for d, (s, p, step) in enumerate(zip(kind.stride, kind.padding, kind.dilation, strict=True)):
        reach = f"{step} * ({k}_shape[{2 + d}] - 1)"
        if kind.transposed:
            sizes.append(f"(({x}_shape[{2 + d}] - 1) * {s} + {reach} + ({output_padding[d] + 1 - 2 * p}))")
        else:
            sizes.append(f"(({x}_shape[{2 + d}] + {2 * p} - {reach} - 1) / {s} + 1)")
    return (f"({k}_shape[1] * {kind.groups})" if kind.transposed else f"{k}_shape[0]", *sizes)
