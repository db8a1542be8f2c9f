"""An attention in its region, whatever the target: its operands, what is done to its scores, and how its result is stored.

In: a graph and a region, or an attention and the nodes behind it. Out: `Parts` (`attention_heads`), with chains of expressions over the scores and
the result. Declines where a head is wider than 256 features, where the weights themselves are wanted elsewhere, and where a mask has dimensions
that the scores' views split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...codegen.fusion.broadcast_chains import build_chain_between, build_permuting_chain, mask_chain
from ...codegen.fusion.op_chain import Chain, epilogue
from ...codegen.fusion.pointwise_growth import grow_after
from ...codegen.lowering.axis_relations import base_name, order_of
from ...codegen.lowering.op_builder import FLOATS
from ...codegen.program import Expr, Unsupported, operand_names
from ...records import Graph, Region
from .attention_heads import Parts, head_count
from .attention_rewrites import Attention
from .mask_band import Band

MAX_WIDTH = 256  # features of a head
TURNING = ("permute", "transpose")  # may put the result's dimensions in another order
# What a value between the products is where nobody needs to read it: an expression of row and column, or None.
Computed = Callable[[Graph, Attention, str], Expr | None]


def build_parts(graph: Graph, region: Region, attention: Attention, computed: Computed) -> Parts:
    """The parts of an attention that a region holds. Raises Unsupported for one that cannot be written."""
    _check(graph, attention)
    names = operand_names(region)
    missing = [v for v in (attention.query, attention.key, attention.value) if v not in names]
    if missing:
        raise Unsupported(f"{missing[0]} is made inside")
    after = [n for n in region.nodes if n not in attention.nodes]
    return Parts(
        graph, names, attention.query, attention.key, attention.value, attention.transposed, attention.raw, attention.shape,
        attention.softmax, attention.limit, attention.scale, attention.grouped, attention.library,
        _scores(graph, attention, names, computed), _ending(graph, region, attention, names, after),
        attention.final.output.spec.shape,
    )  # fmt: skip


def list_nodes_behind(graph: Graph, attention: Attention, taken: set[str]) -> list[tuple[str, ...]]:
    """List nodes that may be fused behind the last product, the most valuable first."""
    value = attention.final.output.name
    users = graph.users[value]
    options: list[tuple[str, ...]] = [grow_after(graph, value, taken), ()]
    if len(users) == 1 and base_name(users[0]) in TURNING:
        next_ = graph.users[users[0].output.name]
        if len(next_) == 1 and base_name(next_[0]) == "clone" and not {users[0].name, next_[0].name} & taken:
            options.insert(0, (users[0].name, next_[0].name))
    return list(dict.fromkeys(options))


def check_band(graph: Graph, attention: Attention, value: str, band: Band) -> None:
    """Raises Unsupported for a diagonal over other rows and columns than the scores have."""
    if not band.constant and graph.specs[value].shape[-2:] != attention.shape[-2:]:
        raise Unsupported("a diagonal over other rows and columns than the scores have")


def _check(graph: Graph, attention: Attention) -> None:
    specs = [graph.specs[v] for v in (attention.query, attention.key, attention.value)]
    if any(s.dtype not in FLOATS or len(s.shape) < 2 for s in specs):
        raise Unsupported("queries, keys or values that are not of a floating type")
    if specs[0].shape[-1] > MAX_WIDTH or specs[2].shape[-1] > MAX_WIDTH:
        raise Unsupported(f"heads of more than {MAX_WIDTH} features")
    heads = {head_count(s) for s in (attention.raw, attention.shape, attention.final.output.spec.shape)}
    if len(heads) > 1:
        raise Unsupported("values for several batches of weights")


def _scores(graph: Graph, attention: Attention, names: Mapping[str, str], compute: Computed) -> Chain | None:
    if attention.mask:
        return mask_chain(graph, names, attention.mask, attention.shape, attention.scale)
    values = dict.fromkeys(v for n in attention.chain for v in graph.by_name[n].uses)
    computed: dict[str, Expr] = {}
    for value in values:
        maker = graph.producer.get(value)
        if (maker is None or maker.name not in attention.chain) and (
            step := compute(graph, attention, value)
        ) is not None:
            computed[value] = step
    return build_chain_between(graph, names, attention.chain, attention.start, attention.end, computed)


def _ending(
    graph: Graph, region: Region, attention: Attention, names: Mapping[str, str], after: list[str]
) -> Chain:
    """Build the chain that stores the result: with pointwise nodes, or its dimensions in another order."""
    value = attention.final.output.name
    makers = {graph.producer[v].name for v in region.outputs}
    if len(after) == 2 and base_name(graph.by_name[after[1]]) == "clone" and makers == {after[1]}:
        first = graph.by_name[after[0]]
        if base_name(first) in TURNING:
            return build_permuting_chain(names, graph, value, region.outputs[0], order_of(graph, first))
    if makers & (set(attention.nodes) - {attention.final.name}):
        raise Unsupported("the weights are used elsewhere")
    return epilogue(graph, region, value, after)
