"""Native values of everything that a graph computes, kept for the inputs that were asked about last.

In: a graph and values of its inputs. Out: all values by name, computed once. A large network has hundreds of regions, each of
which is checked on the same inputs: to compute what lies before each of them anew would take the square of the network.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from ...processes.buffers import extent_bytes
from ...records import Graph
from .stepping import Stepper, Tensors


class Intermediates:
    """`room`: bytes that all values together may take. A graph that needs more by itself is not kept. Inputs stay with whoever
    has them: weights of a gigabyte would lie here once for each family of inputs.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._sets: OrderedDict[Hashable, tuple[Tensors, int]] = OrderedDict()

    def find(self, key: Hashable, graph: Graph, values: Tensors) -> Tensors | None:
        """All values of the graph and its inputs, by name; None where they do not fit. `key` names graph and values."""
        if key in self._sets:
            self._sets.move_to_end(key)
            return {**values, **self._sets[key][0]}
        names = [v.name for node in graph.nodes for v in node.outputs if v is not None]
        size = sum(extent_bytes(graph.specs[name]) for name in names)
        if size > self._room:
            return None
        self._make_room(size)
        computed = Stepper(graph).run(values, names)
        self._sets[key] = (computed, size)
        return {**values, **computed}

    def clear(self) -> None:
        self._sets.clear()

    def _make_room(self, size: int) -> None:
        while self._sets and size + sum(size_kept for _, size_kept in self._sets.values()) > self._room:
            self._sets.popitem(last=False)
