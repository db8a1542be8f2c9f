"""Occurrences of a region of one graph in another: the same operations on tensors of the same shapes, dtypes and strides.

In: a region with its graph, and the graph of a model. Out: for each occurrence the region in the model's own names. Arguments that
are no tensors must be equal, literals too; what the region only computes on its way must not be used outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..records import Graph, Node, Region
from ..tasks.regions import boundary, is_convex


@dataclass
class _State:
    """Nodes and values that are matched so far, from the pattern's names to the model's; `pending`: nodes to compare yet."""

    nodes: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    pending: list[tuple[Node, Node]] = field(default_factory=list)


class Matcher:
    """Looks for regions in one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._by_op: dict[str, list[Node]] = {}
        for node in graph.nodes:
            self._by_op.setdefault(node.op, []).append(node)

    def find(self, pattern: Graph, region: Region) -> list[Region]:
        """List the occurrences in the order of the graph; they may overlap."""
        members = set(region.nodes)
        nodes = [n for n in pattern.nodes if n.name in members]
        if any(n.op not in self._by_op for n in nodes):
            return []
        search = _Search(self.graph, pattern, region, nodes)
        occurrences: dict[frozenset[str], Region] = {}
        for anchor in self._by_op[nodes[-1].op]:
            state = next(search.extend(_State(), nodes[-1], anchor), None)
            if state is not None:
                occurrences.setdefault(frozenset(state.nodes.values()), self._name(region, state))
        return list(occurrences.values())

    def _name(self, region: Region, state: _State) -> Region:
        names = set(state.nodes.values())
        return Region(
            nodes=tuple(n.name for n in self.graph.nodes if n.name in names),
            inputs=tuple(state.values[name] for name in region.inputs),
            outputs=tuple(state.values[name] for name in region.outputs),
            signature=region.signature,
        )


class _Search:
    """Extends a partial match, one node after another, until the region is complete."""

    def __init__(self, graph: Graph, pattern: Graph, region: Region, members: list[Node]) -> None:
        self.graph, self.pattern, self.region, self.members = graph, pattern, region, members
        self.inner = {n.name for n in members}
        self.literals = {i.name: i.data for i in graph.inputs if i.data}
        self.pattern_literals = {i.name: i.data for i in pattern.inputs if i.data}

    def extend(self, state: _State, node: Node, candidate: Node) -> Iterator[_State]:
        """Yield each complete match in which `candidate` stands for `node`."""
        grown = _State(dict(state.nodes), dict(state.values), [(node, candidate)])
        while grown.pending:
            if not self._match(grown, *grown.pending.pop()):
                return
        waiting = [n for n in reversed(self.members) if n.name not in grown.nodes]
        if not waiting:
            if self._holds(grown):
                yield grown
            return
        node_beside = next((n for n in waiting if any(v in grown.values for v in n.uses)), None)
        if node_beside is None:
            return
        shared = next(v for v in node_beside.uses if v in grown.values)
        for user in self.graph.users[grown.values[shared]]:
            yield from self.extend(grown, node_beside, user)

    def _match(self, state: _State, node: Node, candidate: Node) -> bool:
        """Enter a pair of nodes; what they are computed from is entered as pending. Return whether they are alike."""
        if node.name in state.nodes:
            return state.nodes[node.name] == candidate.name
        if not _alike(node, candidate):
            return False
        state.nodes[node.name] = candidate.name
        for value, candidate_value in zip(node.outputs, candidate.outputs, strict=True):
            if value is None or candidate_value is None:
                continue
            if state.values.setdefault(value.name, candidate_value.name) != candidate_value.name:
                return False
        return self._match_arguments(state, [node.args, node.kwargs], [candidate.args, candidate.kwargs])

    def _match_arguments(self, state: _State, arg: Any, candidate_value: Any) -> bool:
        if isinstance(arg, list | tuple):
            if not isinstance(candidate_value, list | tuple) or len(arg) != len(candidate_value):
                return False
            return all(self._match_arguments(state, a, b) for a, b in zip(arg, candidate_value, strict=True))
        if isinstance(arg, dict):
            if not isinstance(candidate_value, dict) or arg.keys() != candidate_value.keys():
                return False
            if "v" in arg:
                return self._match_value(state, arg["v"], candidate_value["v"])
            return all(
                self._match_arguments(state, value, candidate_value[key]) for key, value in arg.items()
            )
        return type(arg) is type(candidate_value) and bool(arg == candidate_value)

    def _match_value(self, state: _State, name: str, candidate_value: str) -> bool:
        if name in state.values:
            return state.values[name] == candidate_value
        maker = self.pattern.producer.get(name)
        if maker is not None and maker.name in self.inner:
            other_maker = self.graph.producer.get(candidate_value)
            if other_maker is None or _position(maker, name) != _position(other_maker, candidate_value):
                return False
            state.pending.append((maker, other_maker))
            return True
        if self.pattern.specs[name] != self.graph.specs[candidate_value]:
            return False
        if name in self.pattern_literals and self.pattern_literals[name] != self.literals.get(
            candidate_value
        ):
            return False
        state.values[name] = candidate_value
        return True

    def _holds(self, state: _State) -> bool:
        """Return whether the nodes can run as one, and give away no more than the region's outputs."""
        names = set(state.nodes.values())
        if len(names) != len(state.nodes):
            return False
        _, outputs = boundary(self.graph, tuple(n for n in self.graph.nodes if n.name in names))
        return set(outputs) <= {state.values[name] for name in self.region.outputs} and is_convex(
            self.graph, names
        )


def _alike(node: Node, candidate: Node) -> bool:
    """Return whether the operation and the results' shapes, dtypes and strides are the same."""
    if node.op != candidate.op or len(node.outputs) != len(candidate.outputs):
        return False
    pairs = zip(node.outputs, candidate.outputs, strict=True)
    return all(a is None or (b is not None and a.spec == b.spec) for a, b in pairs)


def _position(node: Node, name: str) -> int:
    return next(n for n, v in enumerate(node.outputs) if v is not None and v.name == name)


__all__ = ["Matcher"]
