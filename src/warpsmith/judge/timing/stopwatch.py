"""The timing routine that every timing process shares, so that both sides of a comparison do the same around
each call.

In: a callable (`Callee`), the values files it is fed from. Out: raw nanoseconds, and the last call's outputs.
Around each call: private copies of the values at addresses that move from block to block, contents that
change from call to call and once more right before the clock starts, the same warm-up, the same cache eviction, no garbage
collection, the previous outputs dropped and their memory overwritten before the clock starts, no autograd. This is the processor's
clock; a GPU's is in `cuda_clock.py`.
"""

from __future__ import annotations

import gc
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import torch
from torch import Tensor

from ...errors import WarpsmithError
from ...processes.buffers import extent_bytes
from ...records import Graph, GraphOutput, TensorSpec
from ...runtime.tensors import check_tensor, open_tensors, torch_dtype, write_tensors
from ..isolation.arena import POISON
from ..layout import rows_of
from . import heap
from .heap import Holes
from .input_perturbation import INTEGER, Slice, draw_perturbation, is_sorted

LINES_IN_PAGE, LINE = 64, 64
SMALL_PLACES = 12  # free blocks of a small size that are overwritten beyond those of a call
COUNTER_BYTES = 4096  # an integer input that a call updates may be a place in another, up to this size

LateChange = tuple[Tensor, int, int, int]  # an input's memory, and a slice of it as `Slice` has it
Block = tuple[int, bool]  # bytes that a call allocates, and whether they stay until it returns


class Tampered(WarpsmithError):
    """What measures was changed. The message is "tampered: what"."""


class Callee(Protocol):
    """A callable that is timed. One with a true `renews` is reset before each call though its graph updates nothing: a call
    changes objects of the caller.
    """

    def bind(self, values: Sequence[Tensor]) -> None:
        """Take the values of a call, in the order of `Graph.inputs`; tensors may be kept."""

    def reset(self, values: Sequence[Tensor]) -> None:
        """Undo what a call wrote to its own inputs and buffers."""

    def rest(self, values: Sequence[Tensor]) -> None:
        """Hold nothing but these values until the next `bind`."""

    def call(self) -> Any: ...

    def leaves(self, result: Any) -> list[Tensor]:
        """The tensors of a result, as `Graph.outputs` orders them, updates included."""

    def find_owned(self, result: Any) -> list[Tensor]:
        """Return the tensors that surely lie in memory allocated for this call alone."""


class Stopwatch:
    """Times a callee on the values of files. Not reentrant; one a process. `blocks`: what a call allocates,
    in its order.
    """

    device = "cpu"
    recycled = heap.MMAP_THRESHOLD  # bytes from which on the allocator hands out fresh memory

    def __init__(
        self, graph: Graph, callee: Callee, flush: Tensor | None, blocks: Sequence[Block] = ()
    ) -> None:
        self.graph, self.callee, self.flush = graph, callee, flush
        self.stateful = any(o.role != "output" for o in graph.outputs)
        self.stateful |= getattr(callee, "renews", False)
        self.shared: list[Tensor] = []
        self.private: list[Tensor] = []
        self.changed: list[Slice] = []
        self.counters = list_counters(graph)
        self.sorted: set[int] = set()  # integer inputs whose order may mean something
        self.result: Any = None
        self.made = [extent_bytes(v.spec) for n in graph.nodes for v in n.outputs if v is not None]
        self.holes = Holes(())
        self.blocks = (*blocks, *self._elsewhere(blocks))

    def prepare(self, values: str, warmup: int, alone: bool = True) -> dict[str, Any]:
        """Lay out the heap anew, copy the values to fresh addresses and call `warmup` times. Returns the
        seconds the calls took. `alone`: whether a measurement follows, with the device to itself.
        """
        specs = [i.spec for i in self.graph.inputs]
        self._drop()
        self.changed, self.private = [], []
        self._clear()
        self.shared = self._load_values(Path(values), specs)
        self.sorted = list_sorted(self.shared)
        self.private = [self._copy(t, s) for t, s in zip(self.shared, specs, strict=True)]
        self.callee.bind(self.private)
        self._lay_out()
        return self.again(warmup)

    def again(self, warmup: int) -> dict[str, Any]:
        """Call `warmup` times on the values that are there. Returns the seconds the calls took."""
        start = time.perf_counter()
        with torch.no_grad():
            for _ in range(warmup):
                self._reset()
                self._drop()
                self.result = self.callee.call()
        self._finish()
        return {"seconds": time.perf_counter() - start}

    def _clear(self) -> None:
        """Give back what an earlier layout of the memory kept."""
        self.holes.close()

    def _load_values(self, values: Path, specs: Sequence[TensorSpec]) -> list[Tensor]:
        """Load the values as they are in the file."""
        return open_tensors(values, specs, writable=False)

    def _copy(self, shared: Tensor, spec: TensorSpec) -> Tensor:
        """A tensor's own copy for the calls, at a fresh address."""
        return _private(shared, spec)

    def _lay_out(self) -> None:
        """Lay out the memory that the calls will allocate."""
        self.holes = Holes(self.made)

    def _elsewhere(self, blocks: Sequence[Block]) -> list[Block]:
        """Return what else to overwrite: free memory of the same sizes, any of which a call may be given. Of large
        blocks that is the holes beyond those it allocates; small ones lie in several places.
        """
        spare = Counter(self.made)
        spare.subtract(size for size, stays in blocks if stays)
        sizes = dict.fromkeys(size for size, _ in blocks)
        return [(s, True) for s in sizes for _ in range(spare[s] if s >= heap.HOLE_LEAST else SMALL_PLACES)]

    def _look_after_call(self) -> None:
        """Look at what a call left behind, off the clock."""

    def _finish(self) -> None:
        """Wait for what the calls started."""

    def time(self, n: int, evictions: int, seed: int, fresh: bool) -> dict[str, Any]:
        """Time n calls, each on new contents drawn from the seed if `fresh`, with caches evicted before it unless
        `evictions` is 0. Returns their nanoseconds, those spent between them, and the medians over the calls of the processor time
        that other threads of this process spent before one, and of the time of the last change before it.
        """
        times, total, between, rng = [], 0, 0, random.Random(seed)
        beside_ns: list[int] = []
        late_ns: list[int] = []
        call, clock = self.callee.call, time.perf_counter_ns
        with torch.no_grad():
            for _ in range(n):
                begin = clock()
                late: list[LateChange] = []
                beside_begin = others_ns() if fresh else 0
                if fresh:  # else a clock check, in which nothing but calls may take time
                    self._drop()
                    self._overwrite()
                    self._reset()
                    late = self._change(rng)
                else:
                    self._rewind()
                if self.flush is not None:
                    for _ in range(evictions):
                        self.flush.sum()
                self.result = None
                beside_ns.append(others_ns() - beside_begin if fresh else 0)
                changing = clock()
                for change in late:
                    perturb(*change)
                start = clock()
                late_ns.append(start - changing)
                self.result = call()
                end = clock()
                times.append(end - start)
                total += end - start
                between += start - begin
                if fresh:
                    self._look_after_call()
        expect_total(times, total)
        return {
            "ns": times,
            "between_ns": between,
            "others_ns": median_ns(beside_ns),
            "late_ns": median_ns(late_ns),
        }

    def outputs(self, path: str, rows: Sequence[tuple[int, int]] = ()) -> None:
        """Write the outputs of the last timed call, or some `rows` of each, from and to, to a new values file. Raises
        TaskError when a shape or dtype is wrong.
        """
        if self.result is None:
            raise RuntimeError("no timed call yet")
        specs = [self.graph.specs[o.value] for o in self.graph.outputs if o.value is not None]
        leaves = self.callee.leaves(self.result)
        if rows:
            for spec, leaf in zip(specs, leaves, strict=True):
                check_tensor(spec, leaf)
            leaves = [leaf[slice(*r)] if leaf.dim() else leaf for leaf, r in zip(leaves, rows, strict=True)]
            specs = [rows_of(spec, *r) for spec, r in zip(specs, rows, strict=True)]
        write_tensors(Path(path), specs, leaves)

    def rest(self) -> None:
        """Give back all memory but the values as they were given, until the next `prepare`."""
        self.result, self.private, self.changed = None, [], []
        self.callee.rest(self.shared)
        self._clear()

    def _reset(self) -> None:
        if self.stateful:
            self.callee.reset(self.shared)

    def _rewind(self) -> None:
        """Set back what counts the calls: without it, a batch of calls would leave the cache that a counter is a place in."""
        for index in self.counters:
            self.private[index].copy_(self.shared[index])

    def _drop(self) -> None:
        """Let go of the last call's outputs, spoilt."""
        if self.result is not None:
            word = random.choice(POISON)
            for leaf in self.callee.find_owned(self.result):
                _spoil(as_bytes(leaf), word)
        self.result = None

    def _overwrite(self) -> None:
        """Spoil the memory that the next call will be given for outputs and workspaces: it holds what the
        last call left there, most of it still right, and a kernel could look whether it may leave it so.

        The allocator is asked as the call will ask it, so it hands out the same blocks.
        """
        word = random.choice(POISON)
        kept_blocks = []
        if self.device == "cpu":
            heap.sweep({size for size, _ in self.blocks if size < heap.HOLE_LEAST})
        for size, stays in self.blocks:
            if 0 < size < self.recycled:
                block = torch.empty(size, dtype=torch.uint8, device=self.device)
                _spoil(block, word)
                kept_blocks += [block] if stays else []

    def _change(self, rng: random.Random) -> list[LateChange]:
        """Undo the last call's change of the inputs, and make the next; return what is to change right before the clock
        starts.
        """
        self._undo_change()
        early, late = (
            [s for s in drawn if s[0] not in self.sorted]
            for drawn in draw_perturbation(rng, self.graph.inputs)
        )
        self.changed = early + late
        for index, *bounds in early:
            perturb(memory(self.private[index]), *bounds)
        return [(memory(self.private[i]), start, end, step) for i, start, end, step in late]

    def _undo_change(self) -> None:
        for index, start, end, step in self.changed:
            current = memory(self.private[index])
            part = slice(start, end, step if current.is_floating_point() else 1)
            current[part] = memory(self.shared[index])[part]
        self.changed = []

    def spoilt_input(self) -> str:
        """The name of the first input that no longer holds what the last call was given, else empty."""
        updated = set(map_updated_inputs(self.graph).values())
        for index, item in enumerate(self.graph.inputs):
            current = self.private[index]
            if index in updated or current.numel() == 0:
                continue
            expected_memory = memory(self.shared[index]).clone()
            for at, *bounds in self.changed:
                if at == index:
                    perturb(expected_memory, *bounds)
            expected = expected_memory.as_strided(current.shape, current.stride())
            if not bool(((expected == current) | ((expected != expected) & (current != current))).all()):
                return item.name
        return ""


def output_blocks(graph: Graph, names: Iterable[str]) -> list[Block]:
    return [(extent_bytes(graph.specs[name]), True) for name in names]


def map_updated_inputs(graph: Graph) -> dict[tuple[str, str], int]:
    """(role, target) of each update among the graph's outputs → index of the input that takes it."""
    takers = {
        ("input_update", item.name) if item.role == "input" else ("buffer_update", item.target): index
        for index, item in enumerate(graph.inputs)
    }
    return {(o.role, o.target): takers[o.role, o.target] for o in graph.outputs if o.role != "output"}


def list_counters(graph: Graph) -> list[int]:
    """List the small integer inputs that a call updates."""
    return [
        index
        for index in map_updated_inputs(graph).values()
        if graph.inputs[index].role == "input"
        and graph.inputs[index].spec.dtype in INTEGER
        and graph.inputs[index].spec.nbytes <= COUNTER_BYTES
    ]


def arrange(
    graph: Graph, returned: Iterator[Tensor], update: Callable[[GraphOutput], Tensor]
) -> list[Tensor]:
    """Tensors in the order of `graph.outputs`: what a call returned, and what it updated."""
    outputs = [o for o in graph.outputs if o.value is not None]
    return [next(returned) if o.role == "output" else update(o) for o in outputs]


def list_sorted(tensors: Sequence[Tensor]) -> set[int]:
    """List which of a call's inputs are integers in an order that may mean something: they do not change."""
    integers = {torch_dtype(name) for name in INTEGER}
    return {i for i, t in enumerate(tensors) if t.dtype in integers and t.numel() and is_sorted(memory(t))}


def perturb(flat: Tensor, start: int, end: int, step: int) -> None:
    """Change a slice of an input's memory, as `input_perturbation.Slice` says."""
    if flat.is_floating_point():
        flat[start:end:step] *= 0.5
    else:
        rows = flat[start:end].view(-1, step)
        rows.copy_(rows.flip(0))


def expect_total(times: Sequence[float], total: float) -> None:
    """Raise Tampered where times do not add up, one by one, to what was added while they were taken: a list can be reached and
    changed, a number in a frame cannot.
    """
    added = 0.0
    for value in times:
        added += value
    if added != total:
        raise Tampered("tampered: times were changed while calls ran")


def median_ns(times: Sequence[int]) -> int:
    """The median, as of the calls' own times: what happens before a call or two, on a busy machine, changes neither."""
    return round(median(times)) if times else 0


def others_ns() -> int:
    """Nanoseconds of processor time that all threads of this process but the calling one have spent so far."""
    return time.process_time_ns() - time.thread_time_ns()


def memory(tensor: Tensor) -> Tensor:
    """A tensor's memory from its first element to its last, flat."""
    extent = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return tensor.as_strided((extent,), (1,))


def as_bytes(tensor: Tensor) -> Tensor:
    """A tensor's memory from its first byte to its last; empty for no elements."""
    if tensor.numel() == 0:
        return torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return memory(tensor.detach()).view(torch.uint8)


def _spoil(block: Tensor, word: int) -> None:
    """Fill bytes with a word of two of them."""
    size = block.numel()
    block[: size & ~1].view(torch.int16).fill_(word - (1 << 16 if word >> 15 else 0))
    block[size & ~1 :].fill_(word & 0xFF)


def _private(shared: Tensor, spec: TensorSpec) -> Tensor:
    """A copy at a fresh address: another cache line of a page each time, 64-byte aligned as torch's own
    allocations are.
    """
    extent = extent_bytes(spec)
    if extent == 0:
        return torch.empty_strided(spec.shape, spec.stride, dtype=shared.dtype)
    room = torch.empty(extent + LINES_IN_PAGE * LINE, dtype=torch.uint8)
    offset = -room.data_ptr() % LINE + random.randrange(LINES_IN_PAGE - 1) * LINE
    flat = torch.frombuffer(
        room.numpy(), dtype=shared.dtype, count=extent // shared.element_size(), offset=offset
    )
    copy = flat.as_strided(spec.shape, spec.stride)
    if 0 in spec.stride:  # several elements share an address: copy the memory
        flat.copy_(shared.as_strided(flat.shape, (1,)))
    else:
        copy.copy_(shared)
    return copy


def steady_state(threads: int) -> None:
    """Bring the process to what a long-running one becomes: thread count, no collector pauses, the heap at
    rest.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    torch.set_num_threads(threads)
    heap.at_rest()


def flush_buffer(size: int) -> Tensor | None:
    """Memory to stream over between cold calls. Read only: dirty lines would be written back at the next
    call's expense.
    """
    return torch.ones(size // 4) if size else None
