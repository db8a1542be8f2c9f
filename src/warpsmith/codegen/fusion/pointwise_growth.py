"""Which pointwise nodes a kernel with loops of its own takes in: behind what it makes, before what it reads.

In: a graph, the value where the kernel and the chain meet, and the nodes that are taken. Out: names of nodes that
`op_chain` can write; none where nothing fits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...errors import TaskError
from ...records import Graph, Node
from ...tasks.regions import make_region
from ..lowering.axis_relations import VIEWS, base_name
from ..lowering.ops import pointwise
from ..program import Unsupported
from .op_chain import lower_chain

MAX_CHAIN = 24  # nodes


def grow_after(graph: Graph, value: str, taken: Collection[str]) -> tuple[str, ...]:
    """The pointwise nodes behind `value`, of its shape, that an epilogue can take in; not those in `taken`."""
    shape = graph.specs[value].shape
    chain: list[str] = []
    results = [value]
    refused = set(taken)
    while len(chain) < MAX_CHAIN:
        users = (u for v in results for u in graph.users[v] if u.name not in refused and u.name not in chain)
        node = next((n for n in users if _joins(n, shape)), None)
        if node is None:
            break
        grown = [*chain, *_constants(graph, node, taken), node.name]
        if _works(graph, value, grown):
            chain = grown
            results.append(node.output.name)
        else:
            refused.add(node.name)
    return _with_sides(graph, value, chain, taken)


def _with_sides(graph: Graph, value: str, chain: list[str], taken: Collection[str]) -> tuple[str, ...]:
    """The chain, and what makes the other values of the same shape that it alone reads."""
    shape = graph.specs[value].shape
    for name in dict.fromkeys(v for n in chain for v in graph.by_name[n].uses):
        if graph.specs[name].shape != shape or len(chain) >= MAX_CHAIN:
            continue
        side = grow_before(graph, name, {*taken, *chain}, chain)
        if side and _works(graph, value, [*side, *chain]):
            chain = [*side, *chain]
    return tuple(chain)


def grow_before(
    graph: Graph, value: str, taken: Collection[str], core: Collection[str] = ()
) -> tuple[str, ...]:
    """The pointwise nodes that make `value`, of its shape and used for nothing else; not those in `taken`.
    `core`: the nodes that may read `value`; without it, one may.
    """
    shape = graph.specs[value].shape
    chain: list[str] = []
    sources = [value]
    while sources and len(chain) < MAX_CHAIN:
        name = sources.pop()
        node = graph.producer.get(name)
        if node is None or node.name in {*taken, *chain} or not _joins(node, shape) or name in graph.returned:
            continue
        readers = {u.name for u in graph.users[name]}
        if not (readers <= {*chain, *core} or (name == value and len(readers) == 1)):
            continue
        grown = [*chain, *_constants(graph, node, taken), node.name]
        try:
            lower_chain(graph, grown)
        except (TaskError, Unsupported):
            continue
        chain = grown
        sources += node.uses
    return tuple(chain)


def _constants(graph: Graph, node: Node, taken: Collection[str]) -> list[str]:
    """The nodes that make numbers for this one alone."""
    makers = [graph.producer[v] for v in node.uses if v in graph.producer]
    return [
        m.name for m in makers
        if not m.uses and m.output.spec.numel == 1 and pointwise(m.op) is not None and m.name not in taken
        and graph.users[m.output.name] == (node,) and m.output.name not in graph.returned
    ]  # fmt: skip


def _works(graph: Graph, value: str, nodes: Sequence[str]) -> bool:
    try:
        make_region(graph, [graph.producer[value].name, *nodes])
        program = lower_chain(graph, nodes)
        operand = next((o for o in program.inputs if o.value == value), None)
        return operand is not None and operand.axes == tuple(range(len(graph.specs[value].shape)))
    except (TaskError, Unsupported):
        return False


def _joins(node: Node, shape: tuple[int, ...]) -> bool:
    if pointwise(node.op) is None or base_name(node) in VIEWS:
        return False
    return all(v is None or v.spec.shape == shape for v in node.outputs)
