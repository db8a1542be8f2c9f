"""At which sizes of a range a candidate is faster than the original: measured side by side, point by point.

In: verified candidates and the points. Out: for each point the ratio of every candidate that holds there, and why others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from ..composition.side_by_side import measure_side_by_side
from ..errors import TaskError
from ..records import Ratio
from ..records.intervals import describe_ratio
from ..runtime.module import OptimizedModule
from ..tasks.flattened import CallShape
from ..tasks.module_state import ModuleState, keep_buffers
from .dim_ranges import Sizes
from .preparing import Preparer

ORIGINAL = "the original"


class MeasuredPoint(NamedTuple):
    """`ratios`: of each candidate over the original; None where it does not hold at these sizes, for the reason beside it."""

    name: str
    sizes: Sizes
    ratios: tuple[Ratio | None, ...]
    reasons: tuple[str, ...]

    @property
    def choice(self) -> int | None:
        """The candidate whose low end is the highest, if it is surely faster than the original."""
        lows = {number: ratio.low for number, ratio in enumerate(self.ratios) if ratio is not None}
        best = max(lows, key=lambda number: lows[number], default=None)
        return best if best is not None and lows[best] > 1 else None

    def describe(self, sizes: str) -> str:
        chosen = self.choice
        if chosen is not None and (ratio := self.ratios[chosen]) is not None:
            return f"{sizes}: {describe_ratio(ratio)} over the original"
        reasons = [
            f"not surely faster, {describe_ratio(r)}" if r is not None else why
            for r, why in zip(self.ratios, self.reasons, strict=True)
        ]
        return f"{sizes}: the original runs ({'; '.join(reasons)})"


@dataclass(frozen=True)
class RangeMeter:
    """`seconds`: for each point."""

    preparer: Preparer
    call: CallShape
    seconds: float
    seed: int

    def measure(self, points: Mapping[str, Sizes], tell: Callable[[str], None]) -> list[MeasuredPoint]:
        measured = []
        for number, (name, sizes) in enumerate(points.items(), 1):
            tell(f"measuring at {self.preparer.ranges.describe(sizes)} ({number} of {len(points)})")
            measured.append(self._measure_point(name, sizes))
        return measured

    def _measure_point(self, name: str, sizes: Sizes) -> MeasuredPoint:
        tensors = self.preparer.ranges.resize(self.call.parts.leaves, sizes)
        with torch.no_grad(), keep_state(self.preparer.original):
            prepared = [
                self._prepare(number, sizes, tensors) for number in range(len(self.preparer.candidates))
            ]
            ready = {
                str(n): module for n, module in enumerate(prepared) if isinstance(module, OptimizedModule)
            }
            ratios = self._compare(ready, tensors) if ready else {}
        reasons = tuple(module if isinstance(module, str) else "" for module in prepared)
        return MeasuredPoint(name, sizes, tuple(ratios.get(str(n)) for n in range(len(prepared))), reasons)

    def _prepare(self, number: int, sizes: Sizes, tensors: Sequence[torch.Tensor]) -> OptimizedModule | str:
        try:
            module = self.preparer.build(number, sizes)
        except TaskError as error:
            return str(error)
        return self.preparer.check(module, tensors) or module

    def _compare(
        self, ready: Mapping[str, OptimizedModule], tensors: Sequence[torch.Tensor]
    ) -> dict[str, Ratio]:
        def run(module: torch.nn.Module) -> Any:
            args, kwargs, _ = self.call.arguments(tensors)
            return module(*args, **kwargs)

        modules: dict[str, torch.nn.Module] = {ORIGINAL: self.preparer.original, **ready}
        variants = {name: partial(partial, run, module) for name, module in modules.items()}
        blocks = measure_side_by_side(variants, self.seconds, self.seed)
        return {name: blocks.compare(ORIGINAL, name) for name in ready}


@contextmanager
def keep_state(module: torch.nn.Module) -> Iterator[None]:
    """Leave the module as it is: calls in the block change its buffers and attributes for the block alone."""
    state = ModuleState(module)
    try:
        with keep_buffers(module):
            yield
    finally:
        state.restore()
