"""Data movement with the arithmetic around it: transposes, concatenation, padding, slices, flips, rolls, gathers, embeddings,
rotary embeddings, repeats, triangles, pixel shuffles.

In: a graph. A region grows from a node that copies (`SEEDS`, or a pointwise node that reads one input in another order
than it writes) over whatever can be pulled through: `mapping` turns it into one expression of an output element. It declines
regions with several outputs, reductions, and indices that it would have to compute.
"""

from __future__ import annotations

from collections.abc import Collection

from ...codegen.fusion.growth import grow
from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.ops import pointwise
from ...codegen.program import Unsupported
from ...errors import TaskError
from ...records import Graph, Node, Region, TensorSpec
from ...tasks.regions import make_region
from ..anchored import Anchor, AnchoredFamily
from .index_maps.map_loops import Loops
from .index_maps.moves import MOVES, mapping_of
from .index_maps.pull import Mapping

FREE = {
    "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "expand", "permute", "transpose", "t", "slice",
    "select", "split_with_sizes",
}  # fmt: skip
JOINS = {
    "cat",
    "stack",
    "constant_pad_nd",
    "slice_scatter",
    "select_scatter",
    "copy",
}  # each element goes to one place
COPIES = {"clone", "alias", "copy", "_to_copy"}
# What ATen moves element by element, or in more than one pass.
SLOW = frozenset({
    "flip", "roll", "gather", "index", "repeat", "tril", "triu", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    *(f"{kind}_pad{n}d" for kind in ("reflection", "replication") for n in (1, 2, 3)),
})  # fmt: skip
SEEDS = frozenset(MOVES) - FREE - {"copy"}
MAX_NODES = 32
LITTLE = 4096  # elements: a transposed read of fewer is no reason for a kernel
CHEAP = 8  # instructions that may be done again for every copy of an element


class DataMovementPattern(AnchoredFamily):
    name = "layout"
    late = True  # what is left of the copies that others take in
    slow = SLOW  # moves that are worth a kernel by themselves

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) in SEEDS or _turns(graph, node)

    def cut(self, graph: Graph, node: Node, taken: Collection[str], fuse: bool) -> Region | None:
        """The largest region around a node that can be written, found one neighbour at a time."""
        region = self._region(graph, [node.name])
        if region is not None and fuse:
            region = grow(
                region,
                lambda r: _neighbours(graph, r),
                lambda r, name: self._with(graph, r, name, taken),
                taken,
                MAX_NODES,
            )
        return region if region is not None and _is_worth_it(graph, region, self.slow) else None

    def anchor(self, graph: Graph, region: Region) -> Anchor | None:
        """The first node that copies, where the region is one of this family."""
        node = next((graph.by_name[n] for n in region.nodes if self.covers(graph, graph.by_name[n])), None)
        if node is None or self._region(graph, list(region.nodes)) is None:
            return None
        return Anchor(graph, region, node, (), {}, {})

    def check_mapping(self, mapping: Mapping) -> None:
        """Raise Unsupported for a mapping that the target's kernels cannot be written for."""
        raise NotImplementedError

    def _with(self, graph: Graph, region: Region, name: str, taken: Collection[str]) -> Region | None:
        """The region and a neighbour. A view behind it comes with a node that needs it: alone it costs nothing."""
        node = graph.by_name[name]
        names = [*region.nodes, name]
        if base_name(node) not in FREE or node.output.name in region.inputs:
            return self._grow_region(graph, region, names)
        for user in graph.users[node.output.name]:
            if user.name not in taken and _is_supported(user) and base_name(user) not in FREE:
                grown = self._grow_region(graph, region, [*names, user.name])
                if grown is not None:
                    return grown
        return None

    def _grow_region(self, graph: Graph, region: Region, names: list[str]) -> Region | None:
        """Grow the region; None where it cannot be written, or where costly arithmetic would be done for every copy of an element."""
        grown = self._region(graph, names)
        if grown is None:
            return None
        before = grown.outputs == region.outputs
        if before and _cost(graph, grown) - _cost(graph, region) > CHEAP and _multiplies(graph, grown):
            return None
        return grown

    def _region(self, graph: Graph, names: list[str]) -> Region | None:
        """The region of these nodes when it can be written."""
        try:
            region = make_region(graph, names)
            self.check_mapping(mapping_of(graph, region))
        except (TaskError, Unsupported):
            return None
        return region


def _is_worth_it(graph: Graph, region: Region, slow: Collection[str]) -> bool:
    """Tell whether there is more to it than a copy that ATen makes at the speed of memory."""
    nodes = [graph.by_name[n] for n in region.nodes]
    if any(base_name(n) in slow or (pointwise(n.op) and base_name(n) not in COPIES) for n in nodes):
        return True
    try:
        return bool(Loops(mapping_of(graph, region)).dense_elsewhere())
    except Unsupported:
        return False


def _turns(graph: Graph, node: Node) -> bool:
    """A pointwise node that reads a large input in another order than it writes; or a copy that changes the layout."""
    if pointwise(node.op) is None or base_name(node) in FREE or len(node.outputs) != 1:
        return False
    out = node.output.spec
    if base_name(node) == "clone":
        return out.numel >= LITTLE and graph.specs[node.uses[0]].stride != out.stride
    return out.numel >= LITTLE and any(_other_order(graph.specs[v], out) for v in node.uses)


def _other_order(spec: TensorSpec, out: TensorSpec) -> bool:
    """Tell whether neighbours along what is dense in `out` lie apart in `spec`."""
    if spec.shape != out.shape:
        return False
    dense = min((d for d, n in enumerate(out.shape) if n > 1), key=lambda d: out.stride[d], default=0)
    return spec.stride[dense] > out.stride[dense]


def _is_supported(node: Node) -> bool:
    return base_name(node) in MOVES or pointwise(node.op) is not None


def _neighbours(graph: Graph, region: Region) -> list[str]:
    """List the producers of the inputs, then the readers of the output."""
    neighbours = [graph.producer[v].name for v in region.inputs if v in graph.producer]
    neighbours += [u.name for v in region.outputs for u in graph.users[v]]
    return [n for n in dict.fromkeys(neighbours) if _is_supported(graph.by_name[n])]


def _multiplies(graph: Graph, region: Region) -> bool:
    """Does a node of the region read what the region makes several times over?"""
    inside = set(region.nodes)
    for node in (graph.by_name[n] for n in region.nodes):
        inner_values = [v for v in node.uses if v in graph.producer and graph.producer[v].name in inside]
        if base_name(node) not in JOINS and any(
            2 * node.output.spec.numel > 3 * graph.specs[v].numel for v in inner_values
        ):
            return True
    return False


def _cost(graph: Graph, region: Region) -> int:
    return sum(s.cost for s in mapping_of(graph, region).steps.values())
