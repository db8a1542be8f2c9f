"""Twins: regions of a graph that compute the same on the same shapes, as the layers of a network do.

In: a graph and some of its regions. Out: for each the first that is its twin, itself where none came before. Operations, their options, where
their arguments come from, and the exact shapes, types and strides are compared; names are not. A kernel takes its buffers by position, so
that one which was written for a region runs for its twins.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from ..records import Graph, Node, Region

Form = tuple[Hashable, ...]


def find_twins(graph: Graph, regions: Iterable[Region]) -> dict[str, str]:
    """Return region id → id of the first region that is its twin."""
    first: dict[Form, str] = {}
    return {region.id: first.setdefault(describe_form(graph, region), region.id) for region in regions}


def describe_form(graph: Graph, region: Region) -> Form:
    """Put together all that twins have in common."""
    labels = {name: f"i{number}" for number, name in enumerate(region.inputs)}
    members = [graph.by_name[name] for name in region.nodes]
    for node in members:
        for value in node.outputs:
            if value is not None:
                labels[value.name] = f"t{len(labels)}"
    nodes = tuple(_describe_node(node, labels) for node in members)
    inputs = tuple(graph.specs[name] for name in region.inputs)
    return nodes, inputs, tuple(labels[name] for name in region.outputs)


def _describe_node(node: Node, labels: Mapping[str, str]) -> Form:
    outputs = tuple(None if v is None else (labels[v.name], v.spec) for v in node.outputs)
    kwargs = tuple((name, _rename(value, labels)) for name, value in sorted(node.kwargs.items()))
    return node.op, tuple(_rename(a, labels) for a in node.args), kwargs, outputs


def _rename(argument: Any, labels: Mapping[str, str]) -> Form | str:
    """Write an argument with the labels of its values; numbers as they are written, since 1, 1.0 and True are equal."""
    if isinstance(argument, dict):
        return tuple((k, labels[v] if k == "v" else repr(v)) for k, v in argument.items())
    if isinstance(argument, list | tuple):
        return tuple(_rename(a, labels) for a in argument)
    return repr(argument)


__all__ = ["describe_form", "find_twins"]
