"""An alternative: another way to ask the library for the same operations, as a pattern and the ATen nodes in its place.

In: a graph. Out: the nodes that it could stand for; for a region of them the nodes that do the same. Nodes name no sizes: one rewrite runs at
the shapes of every variant.
"""

from __future__ import annotations

from typing import Protocol

from ...facts import Facts
from ...records import Graph, Node, Region

PREFIX = "library-"  # begins the names of techniques that the judge labels *library*


class Alternative(Protocol):
    @property
    def technique(self) -> str: ...

    @property
    def why(self) -> str: ...

    def cut(self, graph: Graph) -> list[list[str]]:
        """List the names of the nodes of each region that it could stand for; each set is convex."""
        ...

    def matches(self, graph: Graph, region: Region) -> bool:
        """Tell whether it can stand for this region."""
        ...

    def write(self, graph: Graph, region: Region) -> list[Node]:
        """Return the nodes in the region's place. Asked for regions that match."""
        ...

    def predict_us(self, graph: Graph, region: Region, facts: Facts) -> float:
        """Predict its time from the measured times of the nodes that it replaces: never at the region's limit."""
        ...
