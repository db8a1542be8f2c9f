"""Attention as one region: products, masks, softmax and the transposition of the result, block by block.

In: a graph and a node of an attention (`attention_pattern`). Out: a region with all its nodes and units for it whose
scores never leave the caches. Declines where a head is wider than 256 features, where the weights themselves are
wanted elsewhere, and where a mask has dimensions that the scores' views split.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ....codegen.cpp_source import Body
from ....codegen.fusion.broadcast_chains import (
    band_step,
    build_chain_between,
    build_permuting_chain,
    mask_chain,
)
from ....codegen.fusion.op_chain import Chain, epilogue
from ....codegen.fusion.pointwise_growth import grow_after
from ....codegen.lowering.axis_relations import base_name, order_of
from ....codegen.lowering.op_builder import FLOATS
from ....codegen.program import Expr, Unsupported, operand_names
from ....codegen.writer import Writer
from ....errors import TaskError
from ....facts import Facts
from ....records import Graph, Node, Region, Unit
from ....tasks.regions import make_region
from ...anchored import AnchoredFamily
from ...family import Technique, register_tunable, tunable, unit_around
from ..attention_pattern import attention_at
from ..attention_rewrites import Attention
from ..mask_band import band_of
from .attention_heads import Parts, head_count
from .online_softmax import WORKSPACE, helpers, macros, write_attention

MAX_WIDTH = 256  # features of a head
TURNING = ("permute", "transpose")  # may put the result's dimensions in another order


class CppAttention(AnchoredFamily):
    name = "attention"

    def covers(self, graph: Graph, node: Node) -> bool:
        return attention_at(graph, node) is not None

    def supports(self, graph: Graph, node: Node) -> bool:
        return self.cut(graph, node, (), False) is not None

    def cut(self, graph: Graph, node: Node, taken: Collection[str], fuse: bool) -> Region | None:
        attention = attention_at(graph, node)
        if attention is None or set(attention.nodes) & set(taken):
            return None
        further = _behind(graph, attention, {*taken, *attention.nodes}) if fuse else [()]
        for nodes in further:
            try:
                region = make_region(graph, [*attention.nodes, *nodes])
                self._parts(graph, region)
            except (TaskError, Unsupported):
                continue
            return region
        return None

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        try:
            parts = self._parts(graph, region)
        except Unsupported:
            return []
        keys = parts.raw[-1]
        block = 64 if keys <= 64 else 128 if keys <= 512 else 256
        tunables = (
            tunable("QUERIES", 48, 24, 96), tunable("KEYS", block, *(n for n in (64, 128, 256) if n != block)),
            tunable("ROWS", 6, 4), register_tunable(facts),
        )  # fmt: skip
        why = "scores of a block of queries stay in the cache: running maximum and sum over blocks of keys"
        return [Technique("online-softmax", why, "compute", tunables)]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        parts = self._parts(graph, region)
        w = Writer()
        w.use("read")
        w.use("read_bool")
        w.use("write")
        write_attention(w, parts)
        body = Body(w, WORKSPACE, above=macros(parts), before=helpers())
        return unit_around(body, region, technique, self.name)

    def _parts(self, graph: Graph, region: Region) -> Parts:
        """Raises Unsupported for a region that is not an attention, or one that cannot be written."""
        members = set(region.nodes)
        finals = (graph.by_name[n] for n in reversed(region.nodes))
        attention = next(
            (a for n in finals if (a := attention_at(graph, n)) and set(a.nodes) <= members), None
        )
        if attention is None:
            raise Unsupported("not an attention")
        _check(graph, attention)
        names = operand_names(region)
        missing = [v for v in (attention.query, attention.key, attention.value) if v not in names]
        if missing:
            raise Unsupported(f"{missing[0]} is made inside")
        after = [n for n in region.nodes if n not in attention.nodes]
        parts = Parts(
            graph, names, attention.query, attention.key, attention.value, attention.transposed, attention.raw, attention.shape,
            attention.softmax, attention.limit, attention.scale, attention.grouped, attention.library,
            _scores(graph, attention, names), _ending(graph, region, attention, names, after),
            attention.final.output.spec.shape,
        )  # fmt: skip
        write_attention(Writer(), parts)
        return parts


def _behind(graph: Graph, found: Attention, taken: set[str]) -> list[tuple[str, ...]]:
    """List nodes that may be fused behind the last product, the most valuable first."""
    value = found.final.output.name
    users = graph.users[value]
    options: list[tuple[str, ...]] = [grow_after(graph, value, taken), ()]
    if len(users) == 1 and base_name(users[0]) in TURNING:
        next_ = graph.users[users[0].output.name]
        if len(next_) == 1 and base_name(next_[0]) == "clone" and not {users[0].name, next_[0].name} & taken:
            options.insert(0, (users[0].name, next_[0].name))
    return list(dict.fromkeys(options))


def _check(graph: Graph, found: Attention) -> None:
    specs = [graph.specs[v] for v in (found.query, found.key, found.value)]
    if any(s.dtype not in FLOATS or len(s.shape) < 2 for s in specs):
        raise Unsupported("queries, keys or values that are not of a floating type")
    if specs[0].shape[-1] > MAX_WIDTH or specs[2].shape[-1] > MAX_WIDTH:
        raise Unsupported(f"heads of more than {MAX_WIDTH} features")
    heads = {head_count(s) for s in (found.raw, found.shape, found.final.output.spec.shape)}
    if len(heads) > 1:
        raise Unsupported("values for several batches of weights")


def _scores(graph: Graph, found: Attention, names: Mapping[str, str]) -> Chain | None:
    if found.mask:
        return mask_chain(graph, names, found.mask, found.shape, found.scale)
    values = dict.fromkeys(v for n in found.chain for v in graph.by_name[n].uses)
    computed: dict[str, Expr] = {}
    for value in values:
        band = band_of(graph, value)
        maker = graph.producer.get(value)
        if band is not None and not (maker is not None and maker.name in found.chain):
            if not band.constant and graph.specs[value].shape[-2:] != found.shape[-2:]:
                raise Unsupported("a diagonal over other rows and columns than the scores have")
            kind = "m" if graph.specs[value].dtype == "bool" else "f"
            step = band_step(band.limit, band.inside, band.outside, kind, len(found.shape))
            computed[value] = step
    return build_chain_between(graph, names, found.chain, found.start, found.end, computed)


def _ending(
    graph: Graph, region: Region, found: Attention, names: Mapping[str, str], after: list[str]
) -> Chain:
    """Build the chain that stores the result: with pointwise nodes, or its dimensions in another order."""
    value = found.final.output.name
    makers = {graph.producer[v].name for v in region.outputs}
    if len(after) == 2 and base_name(graph.by_name[after[1]]) == "clone" and makers == {after[1]}:
        first = graph.by_name[after[0]]
        if base_name(first) in TURNING:
            return build_permuting_chain(names, graph, value, region.outputs[0], order_of(graph, first))
    if makers & (set(found.nodes) - {found.final.name}):
        raise Unsupported("the weights are used elsewhere")
    return epilogue(graph, region, value, after)
