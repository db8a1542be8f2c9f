"""The clock of an NVIDIA GPU: a `Stopwatch` whose values, outputs and cache eviction live on the device.

In: as `Stopwatch`, in a process whose CUDA context is its own. Out: nanoseconds between two CUDA events around
each call. The eviction of the L2 cache is queued before the first event and keeps the device busy while
the host launches the call, so that a short call's events hold no launch gap; where launching takes longer, the next evictions
do, too. A call whose launching takes more than some 1 ms pays for it, as it would deployed. After each call the host waits for
the whole device, and a third event tells how long it was busy: work that outlasts the second event, on another stream, is charged to
the call. How long the host takes to notice that nothing is left depends on how long it waited and on what else it
does, so it is measured anew before each block of calls, after waits as long as a call, and in it right after each call: a host that is
slow for a while is slow for both. Work on another stream may also begin before the clock does, and hold up the last changes
of the inputs and with them the first event: what these take longer than usual is charged, too, and so is what lies between the last of
them (`late_changes`) and the first event. What the events say is bound by the
host's clock and by the supervisor's (`interleaved_rounds.agree`).

Sources: CUDA C++ Programming Guide, "Events" (resolution about half a microsecond) and "L2 access management".
"""

from __future__ import annotations

import ctypes
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import JudgeError
from ...machine import device_files
from ...processes.buffers import extent_bytes
from ...processes.sandbox import restrict
from ...records import Graph, TensorSpec
from ...runtime.tensors import open_tensors
from ..device.memory import KEPT_BYTES
from .late_changes import LateChanges
from .stopwatch import Block, Callee, LateChange, Stopwatch, expect_total, flush_buffer, memory

Noise = tuple[float, float]  # a share of what is usual, and nanoseconds, by which a wait may be longer

EVICTION = 4  # times the L2 cache that is read to evict it
UNIT, SPREAD = 512, 256  # tensors start at one of so many multiples of the allocator's own alignment

# Before a cold call what evicts the cache is read so many times over, for some 0.3 ms: the host makes the last changes and launches the call
# meanwhile, in half of that where nothing else runs. It is one kernel that fills the device, so that nothing on another stream gets a
# processor before the clock starts. Where the clock has started before a call was launched, and does so again, it becomes twice as long.
LEAD_SWEEPS, LEAD_MOST = 4, 16
LATE_CALLS, LATE_LEAK = 2.0, 0.125  # calls launched too late, of which one in time takes so much away
LEAD_CYCLES = 400_000  # device cycles, some 0.2 ms, that hide the launch of a warm call, or of nothing
QUIET_NS, QUIET_CALLS = 500_000, 5  # of a small kernel, so often in a row
QUIET_MAX_S, QUIET_MIN_S = 20.0, 0.1  # to wait for that, and where it did not come the last time
IDLE = 1 << 10  # elements that change before an empty call
TAIL_CALLS = 30  # empty calls that show how long after its end the host and the device have noticed
BLOCK_TAILS = 9  # of them before a block of calls
TAIL_BLOCKS = 7  # in most of which calls must have left something, to be charged for it
TAIL_NOISE: Noise = (0.25, 5_000.0)  # a block's typical tail may be longer by this share, and this much
TAIL_MOST_NS = 50_000.0  # by which what is usual may grow: nobody hides more than that by slowing empty calls
DELAY_CALLS = 5  # rehearsals that show how long the last changes take before a block
DELAY_NOISE: Noise = (1.0, 20_000.0)  # typically longer in a block by this share, and this much
# Typically longer in a block, from the last change to the start of the clock, by this share, and this much.
GAP_NOISE: Noise = (0.25, 1_000.0)
GAP_MOST_NS = 1_000.0  # by which what is usual there may grow
LONGEST_NS, CYCLES_A_NS = 2e6, 2.0  # the longest empty call, and the device's clock, about


class Waits(NamedTuple):
    """Nanoseconds before a call's clock starts: of the last changes, and from there to the start."""

    changes_ns: float
    gap_ns: float


class CudaStopwatch(Stopwatch):
    device = "cuda"
    recycled = 1 << 62  # the caching allocator hands out every block again

    def __init__(
        self, graph: Graph, callee: Callee, flush: Tensor | None, blocks: Sequence[Block] = ()
    ) -> None:
        super().__init__(graph, callee, flush, blocks)
        self.stream = torch.cuda.current_stream()
        self._kept: dict[str, list[Tensor]] = {}
        self._reset_persisting = _persisting_reset()
        self._patience, self._alone, self._rehearsed = QUIET_MAX_S, True, False
        self._nothing = torch.zeros(1, device=self.device)
        self.sweeps, self._late = LEAD_SWEEPS, 0.0
        self._idle = LateChanges()  # of nothing: a host notices later that a graph is done
        self._idle.choose([(torch.zeros(IDLE, device=self.device), 0, IDLE, 1)])
        self._outlasted: deque[bool] = deque(maxlen=TAIL_BLOCKS)
        self._call_ns = 0.0  # what a call took last
        self.usual_tail = self.first_tail = self._tail_of_nothing(TAIL_CALLS)
        self.late = LateChanges()
        self.usual = self.first = Waits(0.0, 0.0)

    def time(self, n: int, evictions: int, seed: int, fresh: bool) -> dict[str, Any]:
        """Time calls as `Stopwatch.time` does. Without `fresh` the calls follow one another between two events, and each is
        said to have taken its share.
        """
        if not fresh:
            return self._batch(n)
        times: list[float] = []
        tails: list[float] = []
        idle: list[float] = []  # the same of nothing, right after each call
        delays: list[float] = []
        gaps: list[float] = []
        total = total_tail = total_idle = total_delay = total_gap = 0.0
        rng, start = random.Random(seed), time.perf_counter_ns()
        with torch.no_grad():
            for _ in range(n):
                self.result = None
                self._overwrite()
                self._reset()
                ns, tail, waits = self._one(self._change(rng), evictions)
                times.append(ns)
                tails.append(tail)
                delays.append(waits.changes_ns)
                gaps.append(waits.gap_ns)
                total += ns
                total_tail += tail
                total_delay += waits.changes_ns
                total_gap += waits.gap_ns
                idle.append(self._tail_of_nothing(1, evictions))
                total_idle += idle[-1]
                self._look_after_call()
        expect_total(times, total)
        expect_total(tails, total_tail)
        expect_total(idle, total_idle)
        expect_total(delays, total_delay)
        expect_total(gaps, total_gap)
        self._call_ns = median(times)
        usual = min(max(self.usual_tail, median(idle)), self.first_tail + TAIL_MOST_NS)
        held_up = add_waits(times, delays, self.usual.changes_ns, DELAY_NOISE)
        held_up = add_waits(held_up, gaps, self.usual.gap_ns, GAP_NOISE)
        charged = [max(1, round(ns)) for ns in self._add_tails(held_up, tails, usual)]
        between = max(0, time.perf_counter_ns() - start - sum(charged))
        return {"ns": charged, "between_ns": between, "charged_ns": max(0, round(sum(charged) - sum(times)))}

    def _add_tails(self, times: Sequence[float], tails: Sequence[float], usual: float) -> list[float]:
        """Make the times longer by what the calls left running, where they usually left something in this block and in most of the
        last ones: a host that notices late for a block is charged to nobody, and who leaves work in fewer gains in fewer.
        """
        self._outlasted.append(outlasts(median(tails), usual))
        if not self._outlasted[-1] or 2 * sum(self._outlasted) <= len(self._outlasted):
            return list(times)
        return add_excess(times, tails, usual)

    def _one(self, changes: Sequence[LateChange], evictions: int) -> tuple[float, float, Waits]:
        """Nanoseconds of a call on the device, from then to when all of its work was done, and what came before it."""
        free, start, end, late = _events(4)
        self._begin(free, start, changes, evictions)
        self.result = self.callee.call()
        self._watch_launch(start.query())
        tail = tail_of(self.stream, end, late)
        return start.elapsed_time(end) * 1e6, tail, self._waits(free, start)

    def _watch_launch(self, late: bool) -> None:
        """Make the lead longer when calls are launched too late again and again: the device waited for the host."""
        self._late = self._late + 1 if late else max(0.0, self._late - LATE_LEAK)
        if self._late >= LATE_CALLS and self.sweeps < LEAD_MOST:
            self.sweeps, self._late = 2 * self.sweeps, 0.0

    def _begin(
        self, free: torch.cuda.Event, start: torch.cuda.Event, changes: Sequence[LateChange], evictions: int
    ) -> None:
        """Queue the lead, the last changes and the start of the clock; `free` tells when the lead was over."""
        self.late.choose(changes)
        self._lead(evictions)
        free.record(self.stream)
        self.late.launch()  # no stream, and no thread, has seen what the call will be given
        start.record(self.stream)

    def _waits(self, free: torch.cuda.Event, start: torch.cuda.Event) -> Waits:
        """Return how long what lay between the lead and the start of the clock took; it is done."""
        done = self.late.done
        return Waits(free.elapsed_time(done) * 1e6, done.elapsed_time(start) * 1e6)

    def _batch(self, n: int) -> dict[str, Any]:
        """Calls in a row. Waiting for the device is part of the batch, on either clock; the host sleeps meanwhile, so that the
        kernel's account tells a batch that waits for the device from one that waits for the host.
        """
        (start, end), queued = _events(2), torch.cuda.Event(blocking=True)
        begin, call = time.perf_counter_ns(), self.callee.call
        with torch.no_grad():
            start.record(self.stream)
            for _ in range(n):
                self._rewind()
                self.result = None
                self.result = call()
            queued.record(self.stream)
            queued.synchronize()
            torch.cuda.synchronize()
            end.record(self.stream)
            end.synchronize()
        call_ns = max(1, round(start.elapsed_time(end) * 1e6 / n))
        self._call_ns = float(call_ns)
        return {"ns": [call_ns] * n, "between_ns": max(0, time.perf_counter_ns() - begin - n * call_ns)}

    def _lead(self, evictions: int, audited: bool = False) -> None:
        """Work for the device that hides the launch of the next call: evict the cache, or only wait. An audit compares processes by
        how long many evictions take, and they hide any launch: each is as long there as at first.
        """
        if evictions and self.flush is not None:
            if self._reset_persisting is not None:
                self._reset_persisting()
            sweeps = self.flush.expand(LEAD_SWEEPS if audited or evictions > 1 else self.sweeps, -1)
            for _ in range(evictions):
                sweeps.sum()
        else:
            torch.cuda._sleep(LEAD_CYCLES)

    def _tail_of_nothing(self, count: int, evictions: int = 1) -> float:
        """Nanoseconds: the median tail of empty calls, each about as long as a call took last, after the same lead and a graph."""
        cycles = round(CYCLES_A_NS * min(self._call_ns, LONGEST_NS))
        tails = []
        for _ in range(count):
            self._lead(min(evictions, 1), audited=evictions > 1)
            self._idle.launch()
            torch.cuda._sleep(cycles)
            tails.append(tail_of(self.stream, *_events(2)))
        return median(tails)

    def prepare(self, values: str, warmup: int, alone: bool = True) -> dict[str, Any]:
        """Prepare as `Stopwatch.prepare` does; the memory that is overwritten between calls is asked for now, not in a block
        that somebody's clock bounds.
        """
        self._alone = alone
        return super().prepare(values, warmup)

    def _rehearse(self) -> Waits:
        """Make the last changes where no call follows, undo them and return what they typically take."""
        rehearsed = []
        with torch.no_grad():
            for _ in range(DELAY_CALLS):
                free, start = _events(2)
                self._begin(free, start, self._change(random.Random()), 1)
                torch.cuda.synchronize()
                rehearsed.append(self._waits(free, start))
            self._undo_change()
        return Waits(median(w.changes_ns for w in rehearsed), median(w.gap_ns for w in rehearsed))

    def again(self, warmup: int) -> dict[str, Any]:
        """Call `warmup` times as `Stopwatch.again` does. What lies between calls is done before any call was made: the driver loads
        a kernel at its first use, for ten milliseconds, and what it takes is known before a callee could slow it.
        """
        if not self._rehearsed:
            self._rehearse()
            self.usual = self.first = self._rehearse()
            self._rehearsed = True
        answer = super().again(warmup)
        self._overwrite()
        torch.cuda.synchronize()
        if not self._alone:
            return answer
        quiet = self._until_quiet()
        self.usual_tail = min(self._tail_of_nothing(BLOCK_TAILS), self.first_tail + TAIL_MOST_NS)
        changes_ns, gap_ns = self._rehearse()
        self.usual = Waits(
            min(changes_ns, self.first.changes_ns + TAIL_MOST_NS),
            min(gap_ns, self.first.gap_ns + GAP_MOST_NS),
        )
        return {**answer, "quiet": quiet}

    def _until_quiet(self) -> bool:
        """Wait until no other context has work for the device: contexts take slices of milliseconds, so that with one
        at work even nothing takes that long. Says whether it came to that; if not, the next time it waits less.
        """
        quiet = wait_until_quiet(self._nothing, self._patience)
        self._patience = QUIET_MAX_S if quiet else QUIET_MIN_S
        return quiet

    def _clear(self) -> None:
        torch.cuda.synchronize()
        self.late.forget()
        torch.cuda.empty_cache()  # other memory for the next block

    def _load_values(self, values: Path, specs: Sequence[TensorSpec]) -> list[Tensor]:
        """Load the values to the device. Those of the last files stay there: a block must not wait for a copy."""
        cached = self._kept.get(str(values))
        if cached is not None:
            return cached
        host = open_tensors(values, specs, writable=False)
        tensors = [_place(t, s, 0, self.device) for t, s in zip(host, specs, strict=True)]
        capacity = max(1, KEPT_BYTES // max(1, sum(map(extent_bytes, specs))))
        for oldest in list(self._kept)[: len(self._kept) + 1 - capacity]:
            del self._kept[oldest]
        self._kept[str(values)] = tensors
        return tensors

    def _copy(self, shared: Tensor, spec: TensorSpec) -> Tensor:
        return _place(shared, spec, random.randrange(SPREAD) * UNIT, self.device)

    def _lay_out(self) -> None:
        """Nothing: the caching allocator's blocks start at multiples of 512 bytes."""

    def _elsewhere(self, blocks: Sequence[Block]) -> list[Block]:
        """Nothing: the caching allocator hands out the block that was given back last."""
        return []

    def _finish(self) -> None:
        torch.cuda.synchronize()


def wait_until_quiet(nothing: Tensor, seconds: float) -> bool:
    """Wait for so long until kernels that do `nothing` end at once, as they do where no other context has work; return
    whether it came to that."""
    deadline, quick = time.monotonic() + seconds, 0
    while quick < QUIET_CALLS and time.monotonic() < deadline:
        start = time.perf_counter_ns()
        nothing.zero_()
        torch.cuda.synchronize()
        quick = quick + 1 if time.perf_counter_ns() - start < QUIET_NS else 0
    return quick == QUIET_CALLS


def tail_of(stream: torch.cuda.Stream, end: torch.cuda.Event, late: torch.cuda.Event) -> float:
    """Nanoseconds from when what was queued is done, which `end` says, to when the host has seen that all is."""
    end.record(stream)
    torch.cuda.synchronize()
    late.record(stream)
    late.synchronize()
    return end.elapsed_time(late) * 1e6


def exceeds(wait: float, usual: float, noise: Noise) -> bool:
    """True where a wait, in nanoseconds, is longer than noise makes it."""
    share, ns = noise
    return wait >= usual * (1 + share) + ns


def add_excess(times: Sequence[float], waits: Sequence[float], usual: float) -> list[float]:
    """Make the times longer by what their waits took beyond what is usual."""
    return [ns + max(0.0, wait - usual) for ns, wait in zip(times, waits, strict=True)]


def add_waits(times: Sequence[float], waits: Sequence[float], usual: float, noise: Noise) -> list[float]:
    """Make the times longer by what waits before them took beyond what is usual, where most of them did."""
    return add_excess(times, waits, usual) if exceeds(median(waits), usual, noise) else list(times)


def outlasts(tail: float, usual: float) -> bool:
    """True where calls with such a tail, in nanoseconds, left work behind."""
    return exceeds(tail, usual, TAIL_NOISE)


def make_stopwatch(
    device: str, graph: Graph, callee: Callee, flush_bytes: int, blocks: Sequence[Block] = ()
) -> Stopwatch:
    """The stopwatch of a device, "cpu" or "cuda"."""
    kind = Stopwatch if device == "cpu" else CudaStopwatch
    return kind(graph, callee, flush_for(device, flush_bytes), blocks)


def flush_for(device: str, flush_bytes: int) -> Tensor | None:
    """Memory to read between cold calls. On CUDA the cache's own size decides how much, unless it is 0."""
    if device == "cpu" or not flush_bytes:
        return flush_buffer(flush_bytes)
    cache = int(torch.cuda.get_device_properties(0).L2_cache_size)
    return torch.ones(EVICTION * cache // 4, device="cuda")


def start_cuda() -> None:
    """Make this process's CUDA context. Raises JudgeError with the driver's reason."""
    try:
        torch.ones(1, device="cuda").sum().item()
    except (RuntimeError, AssertionError) as error:
        raise JudgeError(
            f"CUDA does not start: {str(error).splitlines()[0]}; it needs a GPU, its driver and a torch with CUDA "
            "(`warpsmith doctor --target cuda`), or use --target cpu"
        ) from error


def confine(
    device: str, writable: Sequence[Path], memory_bytes: int | None, *, context_first: bool = False,
    new_processes: bool = True,
) -> str:  # fmt: skip
    """`sandbox.restrict` for a timing process, without network; returns the level in force.

    On CUDA the process may also use the device's files, and its address space is not limited: the driver
    reserves far more than it uses. `context_first` makes the context before, where the driver cannot do so
    under the restrictions; its threads then stay outside Landlock, and the level says so.
    """
    if device == "cpu":
        return restrict(writable, memory_bytes=memory_bytes, network=False, new_processes=new_processes)
    if context_first:
        start_cuda()
    level = restrict(
        [*writable, *device_files()], memory_bytes=None, network=False, new_processes=new_processes
    )
    start_cuda()
    return f"{level}, memory not limited (CUDA)"


def _place(source: Tensor, spec: TensorSpec, offset: int, device: str) -> Tensor:
    """A tensor's memory on the device, `offset` bytes into an allocation of its own."""
    extent = extent_bytes(spec)
    if extent == 0:
        return torch.empty_strided(spec.shape, spec.stride, dtype=source.dtype, device=device)
    room = torch.empty(extent + UNIT * SPREAD, dtype=torch.uint8, device=device)
    # Through DLPack it is no view of bytes any more: torch.compile would trace such a view back to its base.
    flat = torch.from_dlpack(room[offset : offset + extent].view(source.dtype))
    flat.copy_(memory(source))
    return flat.as_strided(spec.shape, spec.stride)


def _events(count: int) -> list[torch.cuda.Event]:
    return [torch.cuda.Event(enable_timing=True) for _ in range(count)]


def _persisting_reset() -> Callable[[], int] | None:
    """Return a function that gives lines that a kernel made persisting back to the normal L2, where the device has such."""
    with open("/proc/self/maps") as maps:
        paths = sorted({line.split()[-1] for line in maps if "libcudart" in line})
    for path in paths:
        reset: Callable[[], int] | None = getattr(ctypes.CDLL(path), "cudaCtxResetPersistingL2Cache", None)
        if reset is not None and reset() == 0:
            return reset
    return None
