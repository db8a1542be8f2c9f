"""Regions: connected, convex sets of graph nodes that one kernel can replace, and the signature they are
known by.

In: a graph and names of its nodes. Out: a `Region` with its inputs (first use first) and outputs (in graph
order) and a signature that does not depend on names or exact sizes, so that what was learned on one task is
found from another.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import TaskError
from ..records import Graph, Node, Region, TensorSpec


def make_region(graph: Graph, nodes: Iterable[str]) -> Region:
    """The region of these nodes.

    Raises TaskError when a name is unknown, or the set is empty, not connected or not convex.
    """
    names = set(nodes)
    unknown = names - set(graph.by_name)
    if unknown or not names:
        raise TaskError(
            f"a region names nodes the graph does not have: {sorted(unknown)}"
            if unknown
            else "a region is empty"
        )
    if not is_connected(graph, names):
        raise TaskError(f"the nodes {sorted(names)} are not connected; make one region of each part")
    if not is_convex(graph, names):
        raise TaskError(f"the nodes {sorted(names)} are not convex: a value leaves the region and comes back")
    members = tuple(n for n in list_between(graph, names) if n.name in names)
    inputs, outputs = boundary(graph, members)
    return Region(
        nodes=tuple(n.name for n in members),
        inputs=inputs,
        outputs=outputs,
        signature=signature(graph, members, inputs, outputs),
    )


def boundary(graph: Graph, members: tuple[Node, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(values read from outside, in order of first use; values used outside or returned, in graph order)."""
    names = {n.name for n in members}
    produced = [v.name for n in members for v in n.outputs if v is not None]
    inside = set(produced)
    inputs = dict.fromkeys(v for n in members for v in n.uses if v not in inside)
    outputs = (v for v in produced if v in graph.returned or any(u.name not in names for u in graph.users[v]))
    return tuple(inputs), tuple(outputs)


def is_connected(graph: Graph, names: set[str]) -> bool:
    """One piece, when nodes that make, or read, a common value are neighbours."""
    groups: dict[str, list[str]] = {}
    for name in names:
        node = graph.by_name[name]
        for value in [*node.uses, *(v.name for v in node.outputs if v is not None)]:
            groups.setdefault(value, []).append(name)
    visited: set[str] = set()
    waiting = [next(iter(names))]
    while waiting:
        name = waiting.pop()
        if name not in visited:
            visited.add(name)
            node = graph.by_name[name]
            values = [*node.uses, *(v.name for v in node.outputs if v is not None)]
            waiting += [
                neighbour for value in values for neighbour in groups[value] if neighbour not in visited
            ]
    return visited == names


def is_convex(graph: Graph, names: set[str]) -> bool:
    """No path leaves the set and comes back into it: the nodes can run as one."""
    tainted: set[str] = set()  # values outside the set that depend on it
    for node in list_between(graph, names):
        if node.name in names:
            if any(v in tainted for v in node.uses):
                return False
        elif any(v in tainted or _is_made_by(graph, v, names) for v in node.uses):
            tainted.update(v.name for v in node.outputs if v is not None)
    return True


def list_between(graph: Graph, names: Iterable[str]) -> tuple[Node, ...]:
    """The nodes from the first of these to the last, in the graph's order: no path between them leads elsewhere."""
    positions = [graph.positions[name] for name in names]
    return graph.nodes[min(positions) : max(positions) + 1]


def _is_made_by(graph: Graph, value: str, names: set[str]) -> bool:
    producer = graph.producer.get(value)
    return producer is not None and producer.name in names


def topological_groups(graph: Graph, regions: Iterable[Region]) -> list[Region | Node]:
    """Regions and the nodes outside them in an order in which they can run: of those that can, the first of the graph.

    Raises TaskError when regions overlap or wait for each other.
    """
    owner: dict[str, Region | Node] = {}
    for region in regions:
        for name in region.nodes:
            if name in owner:
                raise TaskError(f"two regions share the node {name}")
            owner[name] = region
    steps = list({id(step): step for step in (owner.get(n.name, n) for n in graph.nodes)}.values())
    inputs = {i.name for i in graph.inputs}
    missing = [set(s.inputs if isinstance(s, Region) else s.uses) - inputs for s in steps]
    readers: dict[str, list[int]] = {}
    for number, values in enumerate(missing):
        for value in values:
            readers.setdefault(value, []).append(number)
    ready = [number for number, values in enumerate(missing) if not values]  # sorted: a heap
    ordered: list[Region | Node] = []
    while ready:
        step = steps[heapq.heappop(ready)]
        ordered.append(step)
        for member in step.nodes if isinstance(step, Region) else (step.name,):
            for value in (v.name for v in graph.by_name[member].outputs if v is not None):
                for number in readers.pop(value, ()):
                    missing[number].discard(value)
                    if not missing[number]:
                        heapq.heappush(ready, number)
    if len(ordered) < len(steps):
        raise TaskError("the regions wait for each other's values: they cannot run in any order")
    return ordered


def same_region(region: Region, other: Graph, origin: Graph) -> bool:
    """Return whether another graph, such as a variant's, has the region's nodes: same ops, same boundary."""
    if any(
        name not in other.by_name or other.by_name[name].op != origin.by_name[name].op
        for name in region.nodes
    ):
        return False
    members = tuple(n for n in other.nodes if n.name in set(region.nodes))
    return boundary(other, members) == (region.inputs, region.outputs)


def signature(
    graph: Graph, members: tuple[Node, ...], inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> str:
    """Ops in order with where their arguments come from, then the class of each input and output: `ops |
    inputs | outputs`.

    Values are numbered (i0 an input, t3 the fourth value made inside), numbers that are options are kept,
    sizes are classed.
    """
    labels = {name: f"i{k}" for k, name in enumerate(inputs)}
    for node in members:
        for value in node.outputs:
            if value is not None:
                labels[value.name] = f"t{len(labels) - len(inputs)}"
    ops = ";".join(_op_text(graph, node, labels) for node in members)
    ins = ",".join(spec_class(graph.specs[v]) for v in inputs)
    outs = ",".join(f"{labels[v]}:{spec_class(graph.specs[v])}" for v in outputs)
    return f"{ops} | {ins} | {outs}"


def _op_text(graph: Graph, node: Node, labels: Mapping[str, str]) -> str:
    rank = len(graph.specs[node.uses[0]].shape) if node.uses else 0
    args = [_argument_text(a, labels, rank) for a in node.args]
    args += [
        f"{k}={_argument_text(v, labels, rank)}" for k, v in sorted(node.kwargs.items()) if v is not None
    ]
    return f"{node.op.removeprefix('aten.')}({','.join(args)})"


def _argument_text(arg: Any, labels: Mapping[str, str], rank: int) -> str:
    """Lists of axes become positions from the end; large integers are sizes and only say so."""
    if isinstance(arg, dict):
        return labels[arg["v"]] if "v" in arg else str(next(iter(arg.values())))
    if isinstance(arg, list | tuple):
        return "[" + ",".join(_argument_text(a, labels, rank) for a in arg) + "]"
    if isinstance(arg, int) and not isinstance(arg, bool):
        if 0 <= arg < rank:
            return str(arg - rank)
        return str(arg) if -8 <= arg <= 8 else "N"
    return f"{arg:g}" if isinstance(arg, float) else str(arg)


def spec_class(spec: TensorSpec) -> str:
    """Dtype, layout, rank and a class per size, e.g.

    "float32 contiguous [p,o1k]": p a power of two, v a multiple of 16, o other.
    """
    return f"{spec.dtype} {_layout_class(spec)} [{','.join(_size_class(n) for n in spec.shape)}]"


def _layout_class(spec: TensorSpec) -> str:
    if spec.contiguous:
        return "contiguous"
    if any(s == 0 and n > 1 for n, s in zip(spec.shape, spec.stride, strict=True)):
        return "expanded"
    dense = sorted((s, n) for n, s in zip(spec.shape, spec.stride, strict=True) if n > 1)
    expected = 1
    for stride, size in dense:
        if stride != expected:
            return "strided"
        expected *= size
    return "permuted"


def _size_class(n: int) -> str:
    """Kind of number, then its order of magnitude in powers of 8 (a size bucket)."""
    if n <= 1:
        return str(n)
    kind = "p" if n & (n - 1) == 0 else "v" if n % 16 == 0 else "o"
    return f"{kind}{(n.bit_length() - 1) // 3}"
