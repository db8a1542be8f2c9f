"""The search for kernels for a range of sizes.

In: a module, an example call, the axes that vary. Out: a `DynamicModule`. A candidate is searched for at the example's sizes and verified at
all points of the range. Where it is not surely faster at an end of the range, that end gets a search of its own. Then all winners are
measured at all points.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..errors import TaskError
from ..records import Candidate, Graph, RunSummary
from ..targets.target import Target
from ..tasks.flattened import CallShape
from ..tasks.memory import ModuleTask
from .dim_ranges import ShapeRanges, Sizes
from .dynamic_module import DynamicModule
from .graph_template import GraphTemplate
from .measuring import MeasuredPoint, RangeMeter
from .preparing import Preparer

EXAMPLE = "example"
ENDS = ("high", "low")
MAIN_SHARE, END_SHARE = 0.6, 0.2  # of the budget
POINT_SECONDS = 0.5


class Searched(NamedTuple):
    """A finished search: its summary, and the candidate that won, if one did."""

    summary: RunSummary
    winner: Candidate | None


Export = Callable[
    [tuple[Any, ...], dict[str, Any], Mapping[str, Any]], ModuleTask
]  # arguments, tensors of other points by name
Search = Callable[[ModuleTask, float], Searched]  # with a share of the budget


@dataclass(frozen=True)
class RangeSearch:
    original: torch.nn.Module
    call: CallShape
    ranges: ShapeRanges
    target: Target
    device: str
    seed: int
    export: Export
    search: Search
    tell: Callable[[str], None]

    def play(self) -> DynamicModule:
        """Raises TaskError where the module is another graph at other sizes of the range."""
        points = self.ranges.choose_points(self.seed)
        exported = self._export(self.ranges.example, points)
        graph = exported.task.graph
        if '"updates": ' in graph.tree:
            raise TaskError(
                "forward changes its arguments or attributes; dynamic_shapes are for modules that only return results"
            )
        template = GraphTemplate(
            [
                (self.ranges.example if v.name == "main" else points[v.name], v.graph)
                for v in exported.task.variants
            ]
        )
        main = self.search(exported, MAIN_SHARE)
        winners = (main.winner,) if main.winner is not None else ()
        preparer = Preparer(
            self.original,
            self.ranges,
            template,
            winners,
            self.target,
            self.device,
            dict(exported.names),
            threading.Lock(),
        )
        all_points = {EXAMPLE: self.ranges.example, **points}
        measured = self._measure(preparer, all_points)
        further = self._search_ends(points, measured)
        if further:
            preparer = preparer.add(further)
            measured = self._measure(preparer, all_points)
        return self._make_module(preparer, graph, main, measured)

    def _export(self, sizes: Sizes, points: Mapping[str, Sizes]) -> ModuleTask:
        args, kwargs = self._arguments(sizes)
        shapes = {name: self._arguments(further_points) for name, further_points in points.items()}
        try:
            return self.export(args, kwargs, shapes)
        except TaskError as error:
            raise TaskError(
                f"{error} (range: {self.ranges.describe_range()}; a narrower one may do; sizes of 1 are often special)"
            ) from error

    def _arguments(self, sizes: Sizes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs, _ = self.call.arguments(self.ranges.resize(self.call.parts.leaves, sizes))
        return args, kwargs

    def _measure(self, preparer: Preparer, points: Mapping[str, Sizes]) -> list[MeasuredPoint]:
        if not preparer.candidates:
            return []
        return RangeMeter(preparer, self.call, POINT_SECONDS, self.seed).measure(points, self.tell)

    def _search_ends(
        self, points: Mapping[str, Sizes], measured: list[MeasuredPoint]
    ) -> tuple[Candidate, ...]:
        """Search where the range ends, if nothing is surely faster there."""
        served = {point.name for point in measured if point.choice is not None}
        winners = []
        for name in (n for n in ENDS if n in points and n not in served):
            self.tell(f"nothing is surely faster at {self.ranges.describe(points[name])}: searching there")
            further_points = {EXAMPLE: self.ranges.example} | {
                n: sizes for n, sizes in points.items() if n != name
            }
            winner = self.search(self._export(points[name], further_points), END_SHARE).winner
            if winner is not None:
                winners.append(winner)
        return tuple(winners)

    def _make_module(
        self, preparer: Preparer, graph: Graph, main: Searched, measured: list[MeasuredPoint]
    ) -> DynamicModule:
        won = main.winner is not None
        parts, rewritten = preparer.build_parts(0, self.ranges.example, graph) if won else ([], None)
        return DynamicModule(
            self.original, graph, parts, main.summary, self.device, rewritten, preparer.names,
            self.ranges, measured, preparer if preparer.candidates else None,
        )  # fmt: skip
