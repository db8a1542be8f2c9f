"""What a pooling node does, read from its arguments: maximum or average, and the windows along each dimension.

In: a graph and a node. Out: a `Pool`, or None where the node is no pooling or one that is not understood. A window
that spans its whole dimension is an adaptive one: so a global pooling stays right at other sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any

from ...codegen.lowering.axis_relations import base_name
from ...codegen.lowering.op_builder import FLOATS, option
from ...records import Graph, Node

MAX = MappingProxyType({
    "max_pool1d": 1, "max_pool2d": 2, "max_pool3d": 3, "max_pool2d_with_indices": 2, "max_pool3d_with_indices": 3,
})  # fmt: skip
AVERAGE = MappingProxyType({"avg_pool1d": 1, "avg_pool2d": 2, "avg_pool3d": 3})
ADAPTIVE = MappingProxyType({
    "adaptive_avg_pool1d": 1, "_adaptive_avg_pool2d": 2, "_adaptive_avg_pool3d": 3,
    "adaptive_max_pool2d": 2, "adaptive_max_pool3d": 3,
})  # fmt: skip
SPATIAL = MappingProxyType(
    {**MAX, **AVERAGE, **ADAPTIVE}
)  # op → number of dimensions that windows slide over


@dataclass(frozen=True)
class Window:
    """Windows along one dimension. Adaptive: window o of O covers o * I / O to (o + 1) * I / O, rounded outwards."""

    kernel: int
    stride: int
    padding: int
    dilation: int
    adaptive: bool = False


@dataclass(frozen=True)
class Pool:
    maximum: bool
    windows: tuple[Window, ...]  # outermost dimension first
    ceil: bool = False
    padded: bool = True  # an average counts padding as elements
    divisor: int | None = None  # of an average, instead of the count
    indices: str = ""  # the value that takes the positions of the maxima; "": not wanted

    def reads(self, size: tuple[int, ...], made: tuple[int, ...], dims: Iterable[int]) -> float:
        """Return how often each input element is visited along these (spatial) dimensions, on average."""
        visits = [
            max(1.0, made[d] * self._length(d, size[d], made[d]) / max(1, size[d])) for d in dims
        ]  # fmt: skip
        return prod(visits)

    def _length(self, dim: int, size: int, made: int) -> float:
        window = self.windows[dim]
        return size / max(1, made) if window.adaptive else window.kernel


def read_pool(graph: Graph, node: Node) -> Pool | None:
    """Read a pooling of floats; None where the node is none that can be written."""
    name = base_name(node)
    if name not in SPATIAL or not node.op.endswith(".default") or node.outputs[0] is None:
        return None
    source, result = graph.specs[node.uses[0]], node.outputs[0].spec
    if source.dtype not in FLOATS or result.dtype != source.dtype:
        return None
    if len(source.shape) - SPATIAL[name] not in (1, 2):
        return None
    pool = _adaptive(name) if name in ADAPTIVE else _read_fixed_windows(node, name)
    if pool is None or not _plain(pool):
        return None
    indices = next((v.name for v in node.outputs[1:] if v is not None), "")
    if indices:
        # The position torch gives to windows that lie in the padding altogether is not worth imitating.
        odd = any(w.adaptive or (w.dilation > 1 and w.padding) for w in pool.windows)
        return None if odd else replace(pool, indices=indices)
    return _global(pool, source.shape, result.shape)


def _adaptive(name: str) -> Pool:
    return Pool("max" in name, (Window(1, 1, 0, 1, adaptive=True),) * ADAPTIVE[name])


def _read_fixed_windows(node: Node, name: str) -> Pool | None:
    maximum, count = name in MAX, SPATIAL[name]
    kernel = _per_dim(option(node, 1, "kernel_size", None), count)
    stride = _per_dim(option(node, 2, "stride", None) or kernel, count)
    padding = _per_dim(option(node, 3, "padding", 0), count)
    dilation = _per_dim(option(node, 4, "dilation", 1), count) if maximum else [1] * count
    if not kernel or not stride or not padding or not dilation:
        return None
    windows = tuple(Window(*w) for w in zip(kernel, stride, padding, dilation, strict=True))
    if maximum:
        return Pool(True, windows, bool(option(node, 5, "ceil_mode", False)))
    divisor = option(node, 6, "divisor_override", None)
    if divisor is not None and not isinstance(divisor, int):
        return None
    return Pool(
        False, windows, bool(option(node, 4, "ceil_mode", False)),
        bool(option(node, 5, "count_include_pad", True)), divisor,
    )  # fmt: skip


def _per_dim(value: Any, count: int) -> list[int]:
    """One integer a dimension; empty where the argument is something else."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    listed = listed * count if len(listed) == 1 else listed
    return listed if len(listed) == count and all(isinstance(v, int) for v in listed) else []


def _plain(pool: Pool) -> bool:
    return all(w.kernel > 0 and w.stride > 0 and w.dilation > 0 and w.padding >= 0 for w in pool.windows)


def _global(pool: Pool, size: tuple[int, ...], made: tuple[int, ...]) -> Pool:
    """Windows as long as their dimension are adaptive ones."""
    count = len(pool.windows)
    if pool.divisor is not None:
        return pool
    windows = tuple(
        replace(w, adaptive=True) if (w.kernel, o, w.padding, w.dilation) == (n, 1, 0, 1) and n > 1 else w
        for w, n, o in zip(pool.windows, size[-count:], made[-count:], strict=True)
    )
    return replace(pool, windows=windows)
