"""Which family writes a convolution on a GPU: what has little arithmetic per element is computed on CUDA cores, the rest on
tensor cores as an implicit matrix product.

In: a graph and a convolution node. Out: its `ConvolutionKind`, or None where no family writes it; and `is_direct`, which says of
every kind which of the two families takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import FLOATS
from ...records import Graph, Node

FEW_MADE = (
    8  # output channels of a group, below which a tile of a matrix product would be idle for the most part
)
MOST_PHASES = 25  # in a plane, of those that CUDA cores compute: each is code of its own
MOST_IN_A_ROW = 8  # of them
FEW_TERMS = 24  # products that make one element, below which it is memory that is waited for


@dataclass(frozen=True)
class ConvolutionKind:
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


@dataclass(frozen=True)
class Limits:
    """Requirements of an epilogue on tiles. `window`: outputs in depth, height and width that lie in one tile together; the fewest channels of a block."""

    window: tuple[int, int, int] = (1, 1, 1)
    channels: int = 0

    def fit(self, sides: Sequence[int], inner: int) -> bool:
        """`sides`: a tile's depth, height and width in places; `inner`: phases of a row that are made together."""
        deep, high, wide = self.window
        return sides[0] % deep == 0 and sides[1] % high == 0 and sides[2] * inner % wide == 0

    def tile(self, pixels: int, wide: int, deep: int, inner: int) -> bool:
        """Tell whether the numbers make a tile that fits."""
        high = pixels // wide // deep
        return high > 0 and self.fit((deep, high, wide), inner)


NO_LIMITS = Limits()


def read_kind(graph: Graph, node: Node) -> ConvolutionKind | None:
    """Read a node as a convolution of floats with plain numbers; None where it is none."""
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
    channels, outs = (weight[0] // groups, weight[1]) if transposed else (weight[1], weight[0] // groups)
    return ConvolutionKind(transposed, groups, channels, outs, tuple(weight[2:]), stride, padding, dilation)


def groups_text(kind: ConvolutionKind, channels: str, weight: str) -> str:
    """Groups as C++, from the input's channels: right at other shapes, too, where each channel is a group. A transposed
    convolution's shapes do not tell.
    """
    return str(kind.groups) if kind.groups == 1 or kind.transposed else f"({channels} / {weight}_shape[1])"


def is_direct(kind: ConvolutionKind) -> bool:
    """Tell whether it is for CUDA cores; else it is for tensor cores."""
    many_phases = kind.transposed and (
        prod(kind.stride[-2:]) > MOST_PHASES or kind.stride[-1] > MOST_IN_A_ROW
    )
    return not many_phases and (kind.made < FEW_MADE or kind.terms < FEW_TERMS)


def taps_of(kind: ConvolutionKind) -> list[int]:
    """Return the taps of each phase, a remainder of the output's coordinates modulo the stride of a transposed convolution."""
    axes = list(zip(kind.kernel, kind.stride, kind.padding, kind.dilation, strict=True))
    if not kind.transposed:
        return [prod(kind.kernel)]
    taps = [[sum((i + p - k * d) % s == 0 for k in range(n)) for i in range(s)] for n, s, p, d in axes]
    return [prod(counts) for counts in product(*taps)]


def side_by_side(kind: ConvolutionKind) -> int:
    """Phases of a row that a block makes together."""
    return kind.stride[-1] if kind.transposed and kind.stride[-1] <= 3 else 1


def reach(kind: ConvolutionKind, axis: int, tile: int) -> int:
    """Inputs along a dimension that the taps of so many places read."""
    further, stride = kind.dilation[axis] * (kind.kernel[axis] - 1), kind.stride[axis]
    return tile + (further + stride - 1) // stride if kind.transposed else (tile - 1) * stride + further + 1


def up(n: int, to: int) -> int:
    return -(-n // to) * to


def _spread(value: object, count: int) -> tuple[int, ...]:
    """One integer a dimension; empty where the argument is something else."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    listed = listed * count if len(listed) == 1 else listed
    plain = len(listed) == count and all(isinstance(v, int) for v in listed)
    return tuple(v for v in listed if isinstance(v, int)) if plain else ()
