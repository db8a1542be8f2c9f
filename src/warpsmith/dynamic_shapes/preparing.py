"""A verified candidate made ready for other sizes: built there, and its outputs compared with a float64 run before anything uses it.

In: the module, the rule for its graph, a candidate of a search. Out: `OptimizedModule`s at asked sizes, or a TaskError that says why there
is none.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..errors import TaskError
from ..judge.correctness.oracle import Oracle
from ..judge.correctness.reference import make_tolerance, to_numpy
from ..records import Candidate, Graph, Region
from ..runtime.module import OptimizedModule
from ..runtime.rewrites import find_rewritten
from ..targets.diagnostics import one_line
from ..targets.target import Target
from .dim_ranges import ShapeRanges, Sizes
from .graph_template import GraphTemplate

CHECK_SEED = 0


@dataclass(frozen=True)
class Preparer:
    """`candidates`: the winner of each search, by the number that points know it by."""

    original: torch.nn.Module
    ranges: ShapeRanges
    template: GraphTemplate
    candidates: tuple[Candidate, ...]
    target: Target
    device: str
    names: dict[str, Any]
    lock: threading.Lock  # builds one at a time

    def add(self, candidates: tuple[Candidate, ...]) -> Preparer:
        """Return one that has these candidates, too."""
        return replace(self, candidates=(*self.candidates, *candidates))

    def build(self, number: int, sizes: Sizes) -> OptimizedModule:
        """Build a candidate's units at these sizes. Raises TaskError where it does not hold there."""
        graph = self.template.at(sizes)
        parts, rewritten = self.build_parts(number, sizes, graph)
        return OptimizedModule(self.original, graph, parts, None, self.device, rewritten, self.names)

    def build_parts(
        self, number: int, sizes: Sizes, graph: Graph
    ) -> tuple[list[tuple[Region, Path]], Graph | None]:
        """Build the libraries for the graph at these sizes; with them the graph that units in ATen change, if any do. Raises TaskError."""
        where, candidate = self.ranges.describe(sizes), self.candidates[number]
        parts = []
        for unit in candidate.compiled:
            with self.lock:
                build = self.target.build(unit, graph, where)
            if not build.ok:
                raise TaskError(f"a kernel does not build for {where}: {one_line(build.diagnostics)}")
            parts.append((unit.region, Path(build.library)))
        return parts, find_rewritten(graph, candidate.units)

    def check(self, module: OptimizedModule, tensors: Sequence[torch.Tensor]) -> str:
        """Compare its outputs on a call's tensors with a float64 run, by the judge's error budgets; return what is wrong, or nothing."""
        inputs = [tensor.detach().clone() for tensor in module.gather_inputs(tensors)]
        values = {item.name: tensor for item, tensor in zip(module.graph.inputs, inputs, strict=True)}
        try:
            outputs = module.run_kernels([tensor.clone() for tensor in inputs])
        except ValueError as error:  # strides that the kernels cannot take
            return str(error)
        return compare_with_oracle(module.graph, values, outputs)


def compare_with_oracle(graph: Graph, values: dict[str, torch.Tensor], outputs: Sequence[Any]) -> str:
    """Return what is wrong with the outputs of a graph on these inputs, or nothing. `outputs`: those it returns, updates left out."""
    returned = [o.value for o in graph.outputs if o.role == "output" and o.value is not None]
    tensors = [o for o in outputs if isinstance(o, torch.Tensor)]
    with torch.no_grad():
        truths = Oracle(graph, tuple(dict.fromkeys(returned))).truths(values, CHECK_SEED)
    for name, actual in zip(returned, tensors, strict=True):
        expected = graph.specs[name]
        if tuple(actual.shape) != expected.shape:
            return f"it returns {list(actual.shape)} where {list(expected.shape)} is right"
        comparison = make_tolerance(expected.dtype, truths[name]).compare(to_numpy(actual))
        if not comparison.ok:
            return f"{comparison.rule}: {comparison.detail}"
    return ""
