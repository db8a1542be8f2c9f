"""The layout of the reference worker's answers in files, which it and the supervisor share. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..records import Graph, TensorSpec

FLOATS = ("float64", "float32", "float16", "bfloat16")


Rows = tuple[int, int]  # of a tensor, from and to


def rows_of(spec: TensorSpec, start: int, stop: int) -> TensorSpec:
    """Return the layout of some rows of a tensor, in memory as the tensor has them; a scalar has one row."""
    return spec.model_copy(update={"shape": (stop - start, *spec.shape[1:])}) if spec.shape else spec


def output_names(graph: Graph) -> tuple[str, ...]:
    """The tensors a graph returns, buffer updates included, one for each leaf, in order."""
    return tuple(o.value for o in graph.outputs if o.value is not None)


def dense(shape: tuple[int, ...], dtype: str) -> TensorSpec:
    return TensorSpec(shape=shape, dtype=dtype, stride=tuple(prod(shape[i + 1 :]) for i in range(len(shape))))


def oracle_specs(specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """float64 for every floating output; integers and bools as they are."""
    return [dense(s.shape, "float64" if s.dtype in FLOATS else s.dtype) for s in specs]


def noise_specs(specs: Sequence[TensorSpec], draws: Sequence[int]) -> list[TensorSpec]:
    """float64 of the output's shape; for integers and bools, the values seen in each draw."""
    return [
        dense(s.shape, "float64") if s.dtype in FLOATS else dense((n, *s.shape), s.dtype)
        for s, n in zip(specs, draws, strict=True)
    ]
