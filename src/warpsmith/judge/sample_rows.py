"""Rows of an output that a check looks at, drawn where nobody can foresee them. No torch."""

from __future__ import annotations

import secrets

from ..records import Graph, TensorSpec
from .layout import Rows, output_names


def draw_rows_of_outputs(graph: Graph, elements: int) -> tuple[Rows, ...]:
    """Draw a run of rows with about so many elements for each output of a graph."""
    return tuple(draw_rows(graph.specs[name], elements) for name in output_names(graph))


def draw_rows(spec: TensorSpec, elements: int) -> Rows:
    """Draw a run of rows with about so many elements; a scalar is one row."""
    rows = spec.shape[0] if spec.shape else 1
    count = min(rows, max(1, rows * elements // max(1, spec.numel)))
    first = secrets.randbelow(rows - count + 1)
    return first, first + count
