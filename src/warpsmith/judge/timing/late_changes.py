"""The last changes of a call's inputs on an NVIDIA GPU, as one CUDA graph that ends with an event.

In: slices of inputs to change, as `input_perturbation.Slice` says, other ones for each call. Out: a graph that is launched as one piece of
work: what another thread or stream queues lands before all of the changes, and is wrong, or after all of them, and then it lies between
`done` and the event that starts the clock, where nothing else does. The graph is captured anew where inputs have moved; which elements it
changes are indices in the device's memory, written before each launch.

Sources: CUDA C++ Programming Guide, "CUDA Graphs"; CUDA Runtime API, `cudaEventRecordExternal`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .input_perturbation import STEPS
from .stopwatch import LateChange


class SlicedInput:
    """One input's late change: indices that are written for each call, and what a graph does with them."""

    def __init__(self, change: LateChange) -> None:
        self.flat, start, end, step = change
        self.scattered = self.flat.is_floating_point()
        self.rows = self.flat if self.scattered else self.flat.view(-1, step)
        smallest_step = max(1, step * STEPS[0] // STEPS[1])  # that another call may draw
        # Of rows as many change in each call.
        count = end // smallest_step + 1 if self.scattered else (end - start) // step
        self.ramp = torch.arange(min(count, len(self.rows)), device=self.flat.device)
        self.put = torch.zeros_like(self.ramp)
        self.taken = self.put if self.scattered else torch.zeros_like(self.ramp)
        self.values = self.rows[: len(self.ramp)].clone()

    def choose(self, start: int, end: int, step: int) -> None:
        """Choose what the next launch changes. Beyond the last one the indices repeat it: it is written again, as it is."""
        count = (end - 1 - start) // step + 1 if self.scattered else (end - start) // step
        torch.clamp(self.ramp, max=count - 1, out=self.put)
        if self.scattered:
            self.put.mul_(step).add_(start)
        else:
            self.put.add_(start // step)
            self.taken.copy_(self.put).neg_().add_(2 * (start // step) + count - 1)

    def change(self) -> None:
        """Halve the chosen elements, or reverse the chosen rows, as `stopwatch.perturb` does."""
        torch.index_select(self.rows, 0, self.taken, out=self.values)
        if self.scattered:
            self.values.mul_(0.5)
        self.rows.index_copy_(0, self.put, self.values)

    def load_kernels(self) -> None:
        """Change the first row and change it back: the driver loads a kernel at its first use."""
        first = self.rows[:1].clone()
        self.change()
        self.rows[:1] = first


class LateChanges:
    """All late changes before a call. Not reentrant. `launch` puts them on the current stream; `done` is recorded behind the last of them."""

    def __init__(self) -> None:
        self._inputs: list[SlicedInput] = []
        self._graph: torch.cuda.CUDAGraph | None = None
        self.done = torch.cuda.Event(enable_timing=True, external=True)

    def choose(self, changes: Sequence[LateChange]) -> None:
        """Choose what the next launch changes. Queues small kernels, and captures the graph where inputs have moved."""
        moved = [s.flat.data_ptr() for s in self._inputs] != [flat.data_ptr() for flat, *_ in changes]
        if moved or self._graph is None:
            self._inputs = [SlicedInput(change) for change in changes]
            self._graph = self._capture()
        for sliced, (_, *bounds) in zip(self._inputs, changes, strict=True):
            sliced.choose(*bounds)

    def forget(self) -> None:
        """Hold no input any more: its memory can be given back. Nothing may be under way."""
        self._inputs, self._graph = [], None

    def launch(self) -> None:
        """Launch the changes that were chosen."""
        if self._graph is None:
            raise RuntimeError("launched before anything was chosen")
        self._graph.replay()

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Capture the changes; what other threads do meanwhile is not part of them."""
        for sliced in self._inputs:
            sliced.load_kernels()
        torch.cuda.synchronize()
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            for sliced in self._inputs:
                sliced.change()
            self.done.record(stream)
            graph.capture_end()
        return graph
