"""Which family writes a convolution on a GPU: what has little arithmetic per element is computed on CUDA cores, the rest on
tensor cores as an implicit matrix product.

In: a graph and a convolution node. Out: its `Kind`, or None where no family writes it; and `is_direct`, which says of
every kind which of the two families takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....records import Graph, Node
from ..axes import base_name
from ..ops import FLOATS

FEW_MADE = (
    8  # output channels of a group, below which a tile of a matrix product would be idle for the most part
)
FEW_TERMS = 24  # products that make one element, below which it is memory that is waited for


@dataclass(frozen=True)
class Kind:
    """Spatial numbers are one for each dimension, outermost first."""

    transposed: bool
    groups: int
    channels: int  # input channels of a group
    made: int  # output channels of a group
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def terms(self) -> float:
        """Products that make one element; of a transposed convolution, the mean over its phases."""
        taps = self.channels * prod(self.kernel)
        return taps / prod(self.stride) if self.transposed else float(taps)


def read_kind(graph: Graph, node: Node) -> Kind | None:
    """None where the node is no convolution of floats with plain numbers."""
    if base_name(node) != "convolution" or len(node.args) != 9 or len(node.uses) < 2:
        return None
    specs = [graph.specs[v] for v in node.uses]
    weight, rank = graph.specs[str(node.args[1]["v"])].shape, len(graph.specs[str(node.args[0]["v"])].shape)
    if not 3 <= rank <= 5 or len(weight) != rank or 0 in weight or any(s.dtype not in FLOATS for s in specs):
        return None
    stride, padding, dilation = (_spread(node.args[i], rank - 2) for i in (3, 4, 5))
    transposed, groups = bool(node.args[6]), node.args[8]
    if not stride or not padding or not dilation or not isinstance(groups, int):
        return None
    channels, made = (weight[0] // groups, weight[1]) if transposed else (weight[1], weight[0] // groups)
    return Kind(transposed, groups, channels, made, tuple(weight[2:]), stride, padding, dilation)


def is_direct(kind: Kind) -> bool:
    """Is it for CUDA cores? Else it is for tensor cores."""
    return kind.made < FEW_MADE or kind.terms < FEW_TERMS


def _spread(value: object, count: int) -> tuple[int, ...]:
    """One integer a dimension; empty where the argument is something else."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    listed = listed * count if len(listed) == 1 else listed
    plain = len(listed) == count and all(isinstance(v, int) for v in listed)
    return tuple(v for v in listed if isinstance(v, int)) if plain else ()
