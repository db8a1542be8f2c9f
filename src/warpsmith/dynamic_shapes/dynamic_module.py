"""The drop-in result for a range of sizes: kernels by size, built when a size is first asked for, the original everywhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..errors import TaskError
from ..records import Graph, Region, RunSummary
from ..runtime.module import OptimizedModule, SavedModule
from .dim_ranges import ShapeRanges, Sizes
from .measuring import MeasuredPoint
from .preparing import Preparer

MAX_READY = 256  # sizes whose kernels are kept
BEING_BUILT = "its kernels for these sizes are being built"
Ready = OptimizedModule | str  # the kernels at some sizes, or why the original answers there


class DynamicModule(OptimizedModule):
    """An `OptimizedModule` that has kernels for a range of sizes.

    A call at sizes of the range runs the kernels of the nearest measured point at which they are surely faster than the original. They are
    built for its sizes in the background when such a call comes first, and their outputs on its inputs are compared with a float64
    run before any call gets them; meanwhile the original answers. `prepare` does so at once. A copy or a pickle has the kernels that
    were ready, and builds no more.
    """

    ranges: ShapeRanges
    points: tuple[MeasuredPoint, ...]
    _preparer: Preparer | None
    _builder: ThreadPoolExecutor | None
    _ready: dict[Sizes, Ready]
    _building: dict[Sizes, Future[Ready]]

    def __init__(
        self, original: torch.nn.Module, graph: Graph, parts: Sequence[tuple[Region, Path]], summary: RunSummary | None,
        device: str, rewritten: Graph | None, names: Mapping[str, Any], ranges: ShapeRanges,
        points: Sequence[MeasuredPoint], preparer: Preparer | None,
    ) -> None:  # fmt: skip
        super().__init__(original, graph, parts, summary, device, rewritten, names)
        vars(self).update(  # what is set the usual way is the original's from here on
            ranges=ranges, points=tuple(points), _preparer=preparer, _ready={}, _building={},
            _builder=ThreadPoolExecutor(1, "warpsmith-build") if preparer is not None else None,
        )  # fmt: skip

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Have the kernels for a call like this one ready when it returns. Raises TaskError where the original answers such a call, with
        the reason.
        """
        matched = self._call.match(args, kwargs)
        if matched is None:
            raise TaskError("the arguments nest in another way, or a constant argument has another value")
        sizes = self.ranges.read_sizes(matched[0])
        if isinstance(sizes, str):
            raise TaskError(sizes)
        if unlike := self._refuse_other_axes(matched[0], sizes):
            raise TaskError(unlike)
        if sizes == self.ranges.example and self._run is not None:
            return
        ready = self._find(sizes, matched[0])
        if sizes in self._building:
            ready = self._keep(sizes, self._building[sizes].result())
        if isinstance(ready, str):
            raise TaskError(ready)

    def _answer_otherwise(self, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
        """Answer a call that is not like the example: by the kernels for its sizes, if there are any."""
        matched = self._call.match(args, kwargs) if not self._find_change() else None
        sizes = self.ranges.read_sizes(matched[0]) if matched is not None else reason
        if isinstance(sizes, str) or (sizes == self.ranges.example and self._run is not None):
            return super()._answer_otherwise(args, kwargs, sizes if isinstance(sizes, str) else reason)
        assert matched is not None
        if unlike := self._refuse_other_axes(matched[0], sizes):
            return super()._answer_otherwise(args, kwargs, unlike)
        ready = self._find(sizes, matched[0])
        if isinstance(ready, str):
            return super()._answer_otherwise(args, kwargs, ready)
        refused = ready._match_call(args, kwargs)
        if isinstance(refused, str):
            return super()._answer_otherwise(args, kwargs, refused)
        self.fast_calls += 1
        return ready(*args, **kwargs)

    def _refuse_other_axes(self, tensors: Sequence[torch.Tensor], sizes: Sizes) -> str:
        """Return why tensors differ from the example's in more than the sizes of the range; empty where they do not."""
        waiting = iter(
            self.ranges.resize_shapes([guard.shape for guard in self._guards if guard.given], sizes)
        )
        for tensor, guard in zip(tensors, (g for g in self._guards if g.given), strict=True):
            shape = next(waiting)
            if (
                tuple(tensor.shape) != shape
                or tensor.dtype is not guard.dtype
                or tensor.device.type != guard.device
            ):
                actual = f"{tensor.dtype}{list(tensor.shape)} on {tensor.device}"
                return f"{guard.name} is {actual}, not {guard.dtype}{list(shape)} on {guard.device}"
        return ""

    def _find(self, sizes: Sizes, tensors: Sequence[torch.Tensor]) -> Ready:
        """Return what runs at these sizes; what is not there yet is begun."""
        if sizes in self._ready:
            return self._ready[sizes]
        if sizes in self._building:
            future = self._building[sizes]
            return self._keep(sizes, future.result()) if future.done() else BEING_BUILT
        choice = self._choose(sizes)
        if isinstance(choice, str):
            return choice
        if self._builder is None:
            return "no kernels were built for these sizes before it was copied or saved"
        if len(self._ready) >= MAX_READY:
            return f"kernels for {MAX_READY} sizes are ready, and no more are kept"
        copies = [tensor.detach().clone() for tensor in tensors]
        self._building[sizes] = self._builder.submit(self._build, choice, sizes, copies)
        return BEING_BUILT

    def _keep(self, sizes: Sizes, ready: Ready) -> Ready:
        self._building.pop(sizes, None)
        self._ready[sizes] = ready
        return ready

    def _choose(self, sizes: Sizes) -> int | str:
        """Return the candidate of the nearest measured point, or why none is used there."""
        nearest = min(self.points, key=lambda p: self.ranges.measure_distance(sizes, p.sizes), default=None)
        if nearest is None:
            return self._idle
        if nearest.choice is None:
            return f"nothing is surely faster than the original at {self.ranges.describe(nearest.sizes)}, the nearest measured sizes"
        return nearest.choice

    def _build(self, number: int, sizes: Sizes, tensors: Sequence[torch.Tensor]) -> Ready:
        """In the builder's thread."""
        assert self._preparer is not None
        try:
            module = self._preparer.build(number, sizes)
            wrong = self._preparer.check(module, tensors)
        except Exception as error:  # noqa: BLE001 - whatever it is, the original can answer
            return f"no kernels for {self.ranges.describe(sizes)}: {error}"
        return f"its kernels are wrong at {self.ranges.describe(sizes)}: {wrong}" if wrong else module

    def report(self) -> str:
        """Return what was measured at the example's sizes, and a line for each other point of the range."""
        lines = [
            f"  at {point.describe(self.ranges.describe(point.sizes))}"
            for point in self.points
            if point.sizes != self.ranges.example
        ]
        return "\n".join([super().report(), *lines])

    def explain(self) -> str:
        """Describe what runs at which sizes."""
        ready = [
            self.ranges.describe(sizes)
            for sizes, module in self._ready.items()
            if isinstance(module, OptimizedModule)
        ]
        lines = [
            f"  range: {self.ranges.describe_range()}",
            f"  kernels are ready for {'; '.join(ready) or 'the example alone'}",
        ]
        return "\n".join([super().explain(), *lines])

    def __reduce__(self) -> tuple[Any, ...]:
        entries = [
            (sizes, entry.save())
            for sizes, entry in self._ready.items()
            if isinstance(entry, OptimizedModule)
        ]
        return revive_dynamic, (self.save(), self.ranges, self.points, entries)


def revive_dynamic(
    saved: SavedModule,
    ranges: ShapeRanges,
    points: Sequence[MeasuredPoint],
    entries: Sequence[tuple[Sizes, SavedModule]],
) -> OptimizedModule:
    """Make the module that was copied or pickled, with the kernels that were ready."""
    make = partial(DynamicModule, ranges=ranges, points=points, preparer=None)
    module = saved.revive(make)
    if isinstance(module, DynamicModule) and saved.fits_here:
        module._ready |= {sizes: entry.revive() for sizes, entry in entries}
    return module
