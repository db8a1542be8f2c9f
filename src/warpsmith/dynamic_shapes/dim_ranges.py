"""The sizes that a module is to run at: `dynamic_shapes` as `torch.export` takes them, with a least and a largest size for each.

In: the arguments of an example call, and for its tensors which axes vary: `{"x": {0: Dim("batch", min=1, max=64)}}`. Out: `ShapeRanges`:
the sizes of another call, arguments of other sizes, and the points of the range at which kernels are verified: its ends, primes, and
some drawn at random.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.export import Dim

from ..errors import UsageError
from ..tasks.flattened import CallShape, name_inputs

RANDOM_POINTS = 2
LARGEST_SIZE = 1 << 20
FORM = '{"x": {0: torch.export.Dim("batch", min=1, max=64)}}'
Sizes = tuple[int, ...]  # one a dimension, in the order of `ShapeRanges.dims`


class Axis(NamedTuple):
    tensor: int  # its number among the tensors of a call
    axis: int


@dataclass(frozen=True)
class DimRange:
    """One size that varies, in all the axes that have it."""

    name: str
    low: int
    high: int
    size: int  # the example's
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class ShapeRanges:
    dims: tuple[DimRange, ...]

    @property
    def example(self) -> Sizes:
        return tuple(dim.size for dim in self.dims)

    def describe(self, sizes: Sizes) -> str:
        """Write sizes for people: `batch=4, sequence=128`."""
        return ", ".join(f"{dim.name}={size}" for dim, size in zip(self.dims, sizes, strict=True))

    def describe_range(self) -> str:
        return ", ".join(f"{dim.name} {dim.low} to {dim.high}" for dim in self.dims)

    def read_sizes(self, tensors: Sequence[torch.Tensor]) -> Sizes | str:
        """Return the sizes of a call by its tensors, or why it lies outside of the range."""
        sizes = []
        for dim in self.dims:
            first, *further = dim.axes
            size = _size_at(tensors, first)
            if size is None or any(_size_at(tensors, axis) != size for axis in further):
                return f"its tensors disagree about {dim.name}"
            if not dim.low <= size <= dim.high:
                return f"{dim.name} is {size}, not {dim.low} to {dim.high}"
            sizes.append(size)
        return tuple(sizes)

    def resize(self, tensors: Sequence[torch.Tensor], sizes: Sizes) -> list[torch.Tensor]:
        """Return the tensors at other sizes; where one grows, its rows repeat."""
        resized = list(tensors)
        for dim, size in zip(self.dims, sizes, strict=True):
            for number, axis in dim.axes:
                tensor = resized[number]
                rows = torch.arange(size, device=tensor.device) % tensor.shape[axis]
                resized[number] = tensor.index_select(axis, rows)
        return [tensor.clone() for tensor in resized]

    def resize_shapes(self, shapes: Sequence[Sequence[int]], sizes: Sizes) -> list[tuple[int, ...]]:
        """Return the shapes of a call's tensors at other sizes."""
        resized = [list(shape) for shape in shapes]
        for dim, size in zip(self.dims, sizes, strict=True):
            for number, axis in dim.axes:
                resized[number][axis] = size
        return [tuple(shape) for shape in resized]

    def choose_points(self, seed: int) -> dict[str, Sizes]:
        """Choose the sizes to verify at, by name, the example's left out: both ends, primes, ends against each other, and some at random."""
        generator = random.Random(seed)
        points = {
            "low": tuple(d.low for d in self.dims),
            "prime": tuple(_largest_prime(d.low, math.isqrt(d.low * d.high)) for d in self.dims),
            "prime-high": tuple(_largest_prime(d.low, d.high) for d in self.dims),
            "high": tuple(d.high for d in self.dims),
        }
        for number, chosen in enumerate(self.dims if len(self.dims) > 1 else ()):
            points[f"only-{chosen.name}"] = tuple(
                d.high if n == number else d.low for n, d in enumerate(self.dims)
            )
        for number in range(RANDOM_POINTS):
            points[f"random-{number + 1}"] = tuple(_draw(d, generator) for d in self.dims)
        distinct = {sizes: name for name, sizes in reversed(points.items()) if sizes != self.example}
        return {name: sizes for name, sizes in points.items() if distinct.get(sizes) == name}

    def measure_distance(self, sizes: Sizes, others: Sizes) -> float:
        """Return how far apart two points are, in octaves."""
        return math.hypot(*(math.log2(a / b) for a, b in zip(sizes, others, strict=True)))


def read_ranges(call: CallShape, dynamic_shapes: Any) -> ShapeRanges:
    """Read `dynamic_shapes` for the tensors of an example call. Raises UsageError with what is wrong and what to write."""
    tensors, names = call.parts.leaves, name_inputs(call.parts.paths)
    if isinstance(dynamic_shapes, Sequence) and not isinstance(dynamic_shapes, str):
        if len(dynamic_shapes) > len(names):
            raise UsageError(
                f"dynamic_shapes has {len(dynamic_shapes)} entries; the call has {len(names)} tensors: {', '.join(names)}"
            )
        dynamic_shapes = dict(zip(names, dynamic_shapes, strict=False))
    if not isinstance(dynamic_shapes, Mapping) or not dynamic_shapes:
        raise UsageError(f"dynamic_shapes is a mapping from the names of tensors, such as {FORM}")
    dims: dict[str, DimRange] = {}
    for name, axes in dynamic_shapes.items():
        if name not in names:
            raise UsageError(f"dynamic_shapes names {name!r}; the tensors of the call are {', '.join(names)}")
        number = names.index(name)
        for axis, stated in _list_axes(name, axes):
            _add_axis(dims, name, tensors[number], Axis(number, axis), stated)
    if not dims:
        raise UsageError(f"dynamic_shapes lets no axis vary; write one, such as {FORM}")
    return ShapeRanges(tuple(dims.values()))


def _list_axes(name: str, axes: Any) -> list[tuple[int, Any]]:
    if axes is None:
        return []
    if isinstance(axes, Mapping):
        return [(axis, dim) for axis, dim in axes.items() if dim is not None]
    if isinstance(axes, Sequence) and not isinstance(axes, str):
        return [(axis, dim) for axis, dim in enumerate(axes) if dim is not None]
    raise UsageError(
        f"dynamic_shapes of {name!r} is a {type(axes).__name__}; write the axes that vary, such as {FORM}"
    )


def _add_axis(dims: dict[str, DimRange], name: str, tensor: torch.Tensor, axis: Axis, stated: Any) -> None:
    label, low, high = _read_dim(name, stated)
    if not isinstance(axis.axis, int) or not -tensor.dim() <= axis.axis < tensor.dim():
        raise UsageError(f"{name!r} has {tensor.dim()} axes, and none is {axis.axis!r}")
    entry = Axis(axis.tensor, axis.axis % tensor.dim())
    size = tensor.shape[entry.axis]
    dim = dims.get(label, DimRange(label, low, high, size, ()))
    if (dim.low, dim.high, dim.size) != (low, high, size):
        raise UsageError(
            f"{label} is {size} ({low} to {high}) in {name!r} and {dim.size} ({dim.low} to {dim.high}) elsewhere: one size has one name"
        )
    if not 1 <= low <= size <= high:
        raise UsageError(
            f"{name!r} has {label}={size} in the example, outside of {low} to {high}: give an example within the range"
        )
    dims[label] = DimRange(label, low, high, size, (*dim.axes, entry))


def _read_dim(name: str, stated: Any) -> tuple[str, int, int]:
    """Return name, least and largest size."""
    if type(stated) is not Dim:
        raise UsageError(
            f"dynamic_shapes of {name!r} holds {stated!r}; write torch.export.Dim with min and max, such as {FORM}"
        )
    low, high = int(stated.min), stated.max
    if not isinstance(high, int) or high > LARGEST_SIZE:
        raise UsageError(
            f"Dim {stated.__name__!r} has no largest size, or one above {LARGEST_SIZE}: give it min and max"
        )
    return stated.__name__, max(low, 1), high


def _size_at(tensors: Sequence[torch.Tensor], axis: Axis) -> int | None:
    tensor = tensors[axis.tensor] if axis.tensor < len(tensors) else None
    return tensor.shape[axis.axis] if isinstance(tensor, torch.Tensor) and tensor.dim() > axis.axis else None


def _largest_prime(low: int, high: int) -> int:
    """Return the largest prime from low to high; high where there is none."""
    for number in range(high, max(low, 2) - 1, -1):
        if all(number % factor for factor in range(2, math.isqrt(number) + 1)):
            return number
    return high


def _draw(dim: DimRange, generator: random.Random) -> int:
    """Draw a size, small ones as likely as large ones."""
    return min(
        dim.high,
        max(dim.low, round(math.exp(generator.uniform(math.log(dim.low), math.log(dim.high + 0.5))))),
    )
