"""A candidate's launches as one CUDA graph, for calls that the host takes longer to launch than the device to run, as at decode.

In: `run(inputs)` of `deployed`, and which inputs it updates. Out: a function that answers the same. Its first calls are `run`'s; then it captures one,
and replays that. Inputs at steady addresses (weights, a cache) are read and updated where they are; a new cache is captured anew, unless it lies where
an earlier one lay. Small ones that move are copied to where the graph
reads them. Results are copies, so that the next call does not change them. Where that cannot be, calls stay `run`'s, and `reason` says why.

Source: CUDA C++ Programming Guide, "CUDA Graphs"; PyTorch's notes on CUDA semantics, "CUDA Graphs".
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ..records import Graph
from .fx_graphs import find_updated_input

Leaves = tuple[Any, ...]
Stream = tuple[int, int]  # device, and handle of its stream
Run = Callable[[Sequence[Tensor]], Leaves]

HOST_SHARE = 0.5  # of the time that a call runs: what is launched in less of it keeps no device waiting
CALLS_BEFORE = 3  # a capture: kernels are loaded by then, and addresses have shown whether they move
SHORT_REPLAYS, MOST_SHORT = (
    10,
    8,
)  # a graph that is lost after so few was not worth its capture; so many of them in a row
MOST_COPIED_BYTES = 32 << 20  # by a call, in some 20 µs
MOST_KEPT = 4  # graphs: the allocator gives a new cache the place of an earlier one


class Replay(Protocol):
    def replay(self) -> None: ...


class Device(Protocol):
    """Records launches, and replays them."""

    def is_capturing(self) -> bool: ...

    def stream(self) -> Stream: ...

    def capture(self, function: Callable[[], Leaves]) -> tuple[Replay, Leaves]:
        """Record the launches of a call, none of which runs."""


class CudaDevice:
    """The current CUDA device. Graphs that are captured for one stream share their memory: they are replayed one after another there."""

    # By stream: the memory of its graphs, the stream that they are captured on, and a graph that keeps that memory from being given up.
    _pools: dict[Stream, tuple[Any, Any, Any]] = {}

    def is_capturing(self) -> bool:
        return torch.cuda.is_current_stream_capturing()

    def stream(self) -> Stream:
        return torch.cuda.current_device(), torch.cuda.current_stream().cuda_stream

    def capture(self, function: Callable[[], Leaves]) -> tuple[Replay, Leaves]:
        """Unlike `torch.cuda.graph`, it neither waits for the device nor gives back what memory is cached: a `generate` captures each layer."""
        pool, stream = self._find_pool(self.stream())
        try:
            return _record(pool, stream, function)
        except RuntimeError:
            self._end_capture()
            raise

    def _find_pool(self, key: Stream) -> tuple[Any, Any]:
        if key not in self._pools:
            pool, stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
            self._pools[key] = pool, stream, _record(pool, stream, _touch)[0]
        return self._pools[key][:2]

    def _end_capture(self) -> None:
        """After a capture that failed, the allocator and the generator of random numbers take it as going on: the one is told that it is
        over, the other sees another one end, in memory of its own.
        """
        key = self.stream()
        pool, *_ = self._pools.pop(key)
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(key[0], pool)
        with suppress(RuntimeError):
            self._find_pool(key)


def _record(pool: Any, stream: Any, function: Callable[[], Leaves]) -> tuple[Any, Leaves]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            leaves = function()
        finally:
            graph.capture_end()
    return graph, leaves


def _touch() -> Leaves:
    return (torch.zeros(1, device="cuda"),)


@dataclass(frozen=True)
class Captured:
    """A graph, and its leaves, which each replay writes anew. Inputs where they are belong to the caller, and are not kept alive."""

    graph: Replay
    moving: tuple[tuple[int, Tensor], ...]  # number of an input, and where it is copied to for a call
    steady: tuple[tuple[int, int, tuple[int, ...]], ...]  # number, address and strides of the others
    leaves: Leaves
    stream: Stream

    def fits(self, inputs: Sequence[Tensor], stream: Stream) -> bool:
        return stream == self.stream and all(
            inputs[i].data_ptr() == address and inputs[i].stride() == strides
            for i, address, strides in self.steady
        )

    def answer(self, inputs: Sequence[Tensor]) -> Leaves:
        for i, copy in self.moving:
            copy.copy_(inputs[i])
        self.graph.replay()
        return tuple(leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in self.leaves)


class _Launching(threading.local):
    active = False


_launching = _Launching()


@contextmanager
def launches_only() -> Iterator[None]:
    """Let no call in the block, of this thread, be a replay or be captured by itself: the block is part of a larger graph's call."""
    before = _launching.active
    _launching.active = True
    try:
        yield
    finally:
        _launching.active = before


class GraphReplays:
    """`run` by replays of a CUDA graph. `updated`: numbers of the inputs that a call writes to; `device_us`: that a call was measured to run,
    0 for replays whatever a launch takes.
    """

    def __init__(
        self, run: Run, updated: frozenset[int], device: Device | None = None, device_us: float = 0.0
    ) -> None:
        self._run, self._updated, self._device_us = run, updated, device_us
        self.host_us = math.inf  # that the quickest launch of a call took
        self._device: Device = device or CudaDevice()
        self._captured: list[Captured] = []  # the last one that was replayed comes first
        self._addresses: list[int] = []
        self._moving: set[int] = set()
        self._calls = self._short = 0
        self._since = 0  # replays of the present graph
        self._result_bytes = 0  # of the last launched call
        self.reason = ""  # why it captures nothing (more)
        self.replays = 0

    @torch.no_grad()
    def __call__(self, inputs: Sequence[Tensor]) -> Leaves:
        if self.reason or _launching.active or self._device.is_capturing():
            return self._run(inputs)
        stream = self._device.stream()
        for captured in self._captured:
            if captured.fits(inputs, stream):
                return self._replay(captured, inputs)
        lost = bool(self._captured)
        if lost:
            self._short = self._short + 1 if self._since < SHORT_REPLAYS else 0
        self._watch(inputs, lost)
        if self._calls <= CALLS_BEFORE:
            return self._launch(inputs)
        self.reason = self._refuse(inputs, stream)
        if self.reason:
            return self._run(inputs)
        return self._capture(inputs, stream)

    def _replay(self, captured: Captured, inputs: Sequence[Tensor]) -> Leaves:
        if captured is not self._captured[0]:
            self._captured.remove(captured)
            self._captured.insert(0, captured)
            self._addresses, self._since = [t.data_ptr() for t in inputs], 0
        self.replays, self._since = self.replays + 1, self._since + 1
        return captured.answer(inputs)

    def _launch(self, inputs: Sequence[Tensor]) -> Leaves:
        started_s = time.perf_counter()
        leaves = self._run(inputs)
        self.host_us = min(self.host_us, (time.perf_counter() - started_s) * 1e6)
        self._result_bytes = sum(leaf.nbytes for leaf in leaves if isinstance(leaf, Tensor))
        return leaves

    def describe(self) -> str:
        """Tell how many calls were replays, and why there are no more."""
        if self.reason:
            return f"{self.replays}, and no more: {self.reason}" if self.replays else f"none: {self.reason}"
        return str(self.replays)

    def _watch(self, inputs: Sequence[Tensor], lost: bool) -> None:
        """Note which inputs have moved since the last call. `lost`: a graph was captured, and does not fit. Where large inputs were
        replaced, as weights are once in a while, or a cache, the new ones are taken to stay.
        """
        addresses = [t.data_ptr() for t in inputs]
        pairs = zip(self._addresses, addresses, strict=False)
        moved = {i for i, (last, present) in enumerate(pairs) if last != present}
        if lost and (moved & self._updated or _count_bytes(inputs, moved) > MOST_COPIED_BYTES):
            self._calls = CALLS_BEFORE
        else:
            self._moving |= moved
        self._addresses, self._calls = addresses, self._calls + 1

    def _refuse(self, inputs: Sequence[Tensor], stream: Stream) -> str:
        """Return why a graph would be wrong, or no gain; empty for none."""
        if self.host_us < HOST_SHARE * self._device_us:
            return f"a launch takes {self.host_us:.0f} µs of the host, and a call runs for {self._device_us:.0f} µs"
        if any(t.is_cuda and t.device.index != stream[0] for t in inputs):
            return "it is called from another device than its tensors are on"
        if self._short == MOST_SHORT:
            return f"{MOST_SHORT} graphs were captured, and did not last"
        if self._moving & self._updated:
            return "an input that it updates is another tensor at each call"
        copied = _count_bytes(inputs, self._moving)
        if copied > MOST_COPIED_BYTES:
            return f"{copied / 1e6:.0f} MB of inputs are other tensors at each call"
        if self._result_bytes > MOST_COPIED_BYTES:
            return f"its results take {self._result_bytes / 1e6:.0f} MB, which a replay copies"
        return ""

    def _capture(self, inputs: Sequence[Tensor], stream: Stream) -> Leaves:
        """Capture this call and answer it by the first replay."""
        self._since = 0
        with torch.inference_mode(False):  # else only calls in that mode could write to them
            moving = tuple((i, inputs[i].clone()) for i in sorted(self._moving))
        read = list(inputs)
        for i, copy in moving:
            read[i] = copy
        try:
            graph, leaves = self._device.capture(lambda: self._run(read))
        except RuntimeError as error:
            self.reason = f"its capture failed: {str(error).splitlines()[0]}"
            return self._run(inputs)
        if not _are_copyable(leaves, read):
            self.reason = "a result shares memory with an input, or its elements overlap"
            return self._run(inputs)
        steady = [(i, t.data_ptr(), t.stride()) for i, t in enumerate(inputs) if i not in self._moving]
        captured = Captured(graph, moving, tuple(steady), leaves, stream)
        self._captured = [captured, *self._captured[: MOST_KEPT - 1]]
        return captured.answer(inputs)


def _count_bytes(inputs: Sequence[Tensor], numbers: Iterable[int]) -> int:
    return sum(inputs[i].numel() * inputs[i].element_size() for i in numbers)


def _are_copyable(leaves: Leaves, inputs: Sequence[Tensor]) -> bool:
    """Tell whether copies of the leaves are what the leaves are."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    memory = {t.untyped_storage().data_ptr() for t in inputs}
    return all(
        torch.ops.aten.is_non_overlapping_and_dense(t) and t.untyped_storage().data_ptr() not in memory
        for t in tensors
    )


def list_updated(graph: Graph) -> frozenset[int]:
    """List the numbers of the inputs that a call of the graph writes to."""
    numbers = {item.name: i for i, item in enumerate(graph.inputs)}
    return frozenset(numbers[find_updated_input(graph, o)] for o in graph.outputs if o.role != "output")
