"""What follows a convolution and makes less of its results: found in the graph.

In: a graph, what the convolution makes, and the nodes that may be taken. Out: `Follows`, or None. Pointwise nodes come
first; then a pooling whose windows lie side by side; then reductions over the channels with all that the common lowering
writes of what is around them, or a sum or mean over all places, with pointwise nodes after it. What is computed before the
last of these may be used by nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from ...codegen.fusion.growth import region_around, writable
from ...codegen.fusion.pointwise_growth import grow_after
from ...codegen.lowering.axis_relations import base_name, list_reduced_dims
from ...codegen.lowering.levels import is_reducing
from ...codegen.lowering.lower import lower
from ...codegen.lowering.op_builder import FLOATS
from ...codegen.program import Operand, Program, Unsupported
from ...errors import TaskError
from ...records import Graph, Node
from ...tasks.regions import make_region
from ..anchored import makers
from ..pool.pool_windows import Pool, Window, read_pool

MOST_WINDOW = 64  # results of one window
INDICES = ("argmax", "argmin", "count")


@dataclass(frozen=True)
class Follows:
    """Names of nodes, and of the values between them: `value`, what comes out of the pooling (of the nodes before it,
    where there is none); `summed`, what is added up; `made`, what the last nodes start from."""

    before: tuple[str, ...]
    before_value: str
    pools: tuple[str, ...]
    pool: Pool | None
    value: str
    between: tuple[str, ...] = ()  # from `value` to `summed`
    total: Node | None = None  # the sum or mean over all places
    summed: str = ""
    columns: tuple[str, ...] = ()  # nodes of the reductions over channels, and around them
    after: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        last = (self.total.name,) if self.total is not None else ()
        return (*self.before, *self.pools, *self.between, *last, *self.columns, *self.after)

    @property
    def made(self) -> str:
        return self.total.output.name if self.total is not None else self.value


def follows(graph: Graph, value: str, within: Collection[str]) -> Follows | None:
    """`value`: what the convolution makes; `within`: the nodes that may be taken."""
    excluded = {n.name for n in graph.nodes} - set(within)
    for node, before in _readers(graph, value, excluded):
        start = Follows(before, node.uses[0], (), None, node.uses[0])
        if (pool := _side_by_side(graph, node)) is not None:
            start = _merge_second_pool(
                graph, replace(start, pools=(node.name,), pool=pool, value=node.output.name), excluded
            )
            return _after_pool(graph, start, excluded)
        if (reduced := _end(graph, start, node, (), excluded)) is not None:
            return reduced
    return None


def column_program(graph: Graph, nodes: Collection[str], value: str) -> Program | None:
    """Reductions over the channels of `value`, which is read element by element; None where it is something else."""
    try:
        program = lower(graph, make_region(graph, nodes))
    except (TaskError, Unsupported):
        return None
    operand = next((o for o in program.inputs if o.value == value), None)
    reduced = {a for g in program.groups if g.reduced for a in g.axes}
    plain = all(o.plain for o in (*program.inputs, *(o for o, _ in program.outputs)))
    odd = program.tail or any(s.pick or s.reduction in INDICES for s in program.steps)
    covers_all = operand is not None and operand.axes == tuple(range(len(graph.specs[value].shape)))
    return program if covers_all and plain and not odd and reduced == {1} else None


def rename_operands(program: Program, names: Mapping[str, str]) -> Program:
    """`names`: value → what its operand is called."""

    def rename(operand: Operand) -> Operand:
        return replace(operand, name=names[operand.value])

    steps = tuple(s if s.operand is None else replace(s, operand=rename(s.operand)) for s in program.steps)
    outputs = tuple((rename(o), n) for o, n in program.outputs)
    return replace(program, inputs=tuple(map(rename, program.inputs)), outputs=outputs, steps=steps)


def window_of(consumers: Follows) -> tuple[int, int, int]:
    """Depth, height, width."""
    kernel = () if consumers.pool is None else tuple(w.kernel for w in consumers.pool.windows)
    deep, high, wide = (*(1,) * (3 - len(kernel)), *kernel)
    return deep, high, wide


def _after_pool(graph: Graph, start: Follows, taken: Collection[str]) -> Follows:
    for node, between in _readers(graph, start.value, taken):
        if (reduced := _end(graph, start, node, between, taken)) is not None:
            return reduced
    return replace(start, after=grow_after(graph, start.value, taken))


def _end(
    graph: Graph, start: Follows, node: Node, between: tuple[str, ...], taken: Collection[str]
) -> Follows | None:
    """Match a reduction after `between`: over all places, or over channels."""
    if not is_reducing(node) or node.outputs[0] is None:
        return None
    if _over_places(graph, node):
        after = grow_after(graph, node.output.name, taken)
        return replace(start, between=between, total=node, summed=node.uses[0], after=after)
    refused = {*taken, *start.before, *start.pools, *between}
    grown = region_around(graph, node, refused, producers=False, consumers=True)
    alone = writable(graph, [node.name])
    for region in (r for r in (grown, alone) if r is not None):
        nodes = tuple(n.name for n in graph.nodes if n.name in {*between, *region.nodes})
        if column_program(graph, nodes, start.value) is not None:
            return replace(start, columns=nodes)
    return None


def _readers(graph: Graph, value: str, taken: Collection[str]) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Nodes that are not pointwise, with the pointwise nodes between `value` and what they read, all of which is read
    by nothing else."""
    chain = grow_after(graph, value, taken)
    for start in (value, *(graph.by_name[n].output.name for n in chain)):
        for node in graph.users[start] if graph.specs[start].dtype == "float32" else ():
            if node.name in taken or node.name in chain or not node.uses or node.uses[0] != start:
                continue
            before = makers(graph, start, list(chain))
            inside = {*before, node.name}
            chain_values = [value, *(graph.by_name[n].output.name for n in before)]
            if all(
                v not in graph.returned and {u.name for u in graph.users[v]} <= inside for v in chain_values
            ):
                yield node, before


def _side_by_side(graph: Graph, node: Node) -> Pool | None:
    """A pooling each of whose inputs is in one window at the most."""
    pool = read_pool(graph, node)
    rank = len(graph.specs[node.uses[0]].shape) if node.uses else 0
    if pool is None or pool.indices or pool.ceil or rank != len(pool.windows) + 2:
        return None
    plain = all(w == Window(w.kernel, w.kernel, 0, 1) for w in pool.windows)
    return pool if plain and prod(w.kernel for w in pool.windows) <= MOST_WINDOW else None


def _merge_second_pool(graph: Graph, start: Follows, taken: Collection[str]) -> Follows:
    """Merge a second pooling of the same kind right after: windows of windows."""
    users = graph.users[start.value]
    if len(users) != 1 or users[0].name in taken or start.value in graph.returned or start.pool is None:
        return start
    (node,) = users
    pool, first = _side_by_side(graph, node), start.pool
    if pool is None or pool.maximum != first.maximum or first.divisor is not None or pool.divisor is not None:
        return start
    sizes = [a.kernel * b.kernel for a, b in zip(first.windows, pool.windows, strict=True)]
    if prod(sizes) > MOST_WINDOW:
        return start
    merged = replace(first, windows=tuple(Window(n, n, 0, 1) for n in sizes))
    return replace(start, pools=(*start.pools, node.name), pool=merged, value=node.output.name)


def _over_places(graph: Graph, node: Node) -> bool:
    """A sum or mean over all spatial dimensions, perhaps over the channels, too."""
    if base_name(node) not in ("sum", "mean") or graph.specs[node.uses[0]].dtype not in FLOATS:
        return False
    spec = graph.specs[node.uses[0]]
    spatial = tuple(range(2, len(spec.shape)))
    keeps_dtype = node.output.spec.dtype == spec.dtype and not node.kwargs
    return keeps_dtype and len(spatial) > 0 and list_reduced_dims(node, spec) in (spatial, (1, *spatial))
