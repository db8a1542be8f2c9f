"""Timing of processes side by side on one task: the zygote they are forked from, their processors, interleaved rounds, and estimates of
call times. `BaselinePool` and `Bench` share one.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil

from ...processes.buffers import Scratch
from ...processes.worker import Worker
from ...records import Graph, Region, Task
from ..device.device_lock import DeviceLock
from ..device.eviction import flush_bytes
from ..device.memory import is_crowded
from ..sample_rows import draw_rows_of_outputs
from .interleaved_rounds import (
    FLUSH_TRUST,
    GPU_AUDIT,
    GPU_MOVES,
    GPU_ROUNDS,
    GPU_TRUST,
    ROUNDS,
    ClocksDisagree,
    InterleavedRounds,
    agree,
    plan,
)
from .timed_process import Block, TimedProcess, fork_candidate, start_zygote

FreshValues = Callable[[], Path]

CHECK_SECONDS = 0.02  # of calls in a clock check
CHECK_CALLS = {"cpu": 400, "cuda": 4000}  # at most; a GPU's shortest calls need many to fill the time
CHECK_ATTEMPTS = 4
LONG_SECONDS, FEW = 0.1, 20  # a GPU's call that is shorter is estimated from so many
GPU_FLUSH_BYTES = 200 << 20  # that a GPU reads between cold calls, roughly: its process knows its L2
GPU_BYTES_PER_S = 2e12  # at which a GPU does what lies between calls, roughly
GPU_CALL_SECONDS = 300e-6  # that the host needs to queue it, and to wait for the call


class TimingSession:
    def __init__(
        self, task: Task, *, scratch: Scratch, workdir: Path, threads: int,
        progress: Callable[[str], None] = lambda message: None, cache_dir: Path | None = None, device: str = "cpu",
        device_lock: DeviceLock | None = None, timed_on: Collection[int] | None = None, sampled: int | None = None,
        compiler: str | None = None,
    ) -> None:  # fmt: skip
        """`sampled`: elements of each output that a sample of a search holds, None: all. `timed_on`: processors for what is
        timed, and for who asks it, where others work beside. `device_lock`: whatever is timed has the device to itself; baselines that
        load and compile pause meanwhile. `compiler`: of the baselines; what inductor finds when None.
        """
        self.device, self.device_lock = device, device_lock or DeviceLock()
        self._timed_on, self.sampled, self.compiler = timed_on, sampled, compiler
        self.task, self.scratch, self.workdir = task, scratch, workdir
        self.threads, self.progress = threads, progress
        self.flush_bytes = GPU_FLUSH_BYTES if device == "cuda" else flush_bytes(threads)
        if device == "cpu" and task.graph.least_bytes > self.flush_bytes:
            self.flush_bytes = 0  # the task evicts its own data; on a GPU the flush also hides the launch
        workdir.mkdir(parents=True, exist_ok=True)
        self.task_file, self.graph_file = workdir / "task.json", workdir / "graph.json"
        self.task_file.write_text(task.model_dump_json())
        self.graph_file.write_text(task.graph.model_dump_json())
        self.cache_dir = cache_dir or workdir / "inductor"
        self._zygote: Worker | None = None

    def start_zygote(self) -> Worker:
        if self._zygote is None or not self._zygote.alive:
            self._zygote = start_zygote(
                self.graph_file, self.workdir / "zygote", self.threads, self.flush_bytes, self.device
            )
        return self._zygote

    def fork(
        self, units: Sequence[tuple[Region, Path]], name: str = "candidate", graph: Graph | None = None
    ) -> TimedProcess:
        zygote = self.start_zygote()
        parts = [{"region": r.model_dump(mode="json"), "library": str(path)} for r, path in units]
        memory = int(psutil.virtual_memory().available * 0.9)
        folder = self.scratch.new(f"bench-{name}")
        return fork_candidate(zygote, folder, parts, self.threads, memory, name, graph)

    @contextmanager
    def pin(self, processes: Iterable[TimedProcess]) -> Iterator[None]:
        """Move processes, and this thread, to the processors that are reserved for what is timed."""
        if self._timed_on is None:
            yield
            return
        before = os.sched_getaffinity(0)
        for process in list(processes):
            process.move(self._timed_on)
        os.sched_setaffinity(0, self._timed_on)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def interleave(
        self, processes: Sequence[TimedProcess], values: Sequence[Path], cold: bool, sampled: int | None
    ) -> InterleavedRounds:
        trust, audit = (GPU_TRUST, GPU_AUDIT) if self.device == "cuda" else (FLUSH_TRUST, 0)
        inputs = self.task.graph.inputs
        return InterleavedRounds(
            processes, values, inputs, self.scratch.new, cold=cold, trust=trust, audit=audit,
            rests=self.device == "cuda" and is_crowded(self.task.graph),
            draw_rows=tuple if sampled is None else lambda: draw_rows_of_outputs(self.task.graph, sampled),
            moves=GPU_MOVES if self.device == "cuda" else 1,
        )  # fmt: skip

    def estimate(self, process: TimedProcess, values: Path) -> float:
        """Seconds of a call, roughly: the fixed warm-up, the same for every process, then one call, or a few
        where that one meets fresh allocations.
        """
        process.prepare(values, 2)
        seconds = process.prepare(values, 1)
        if self.device == "cpu" or seconds > LONG_SECONDS:
            return seconds
        block = process.block(FEW, False, secrets.randbits(62), fresh=False)
        return block.wall_ns / FEW * 1e-9

    def check_clocks(self, process: TimedProcess) -> Block:
        """Batches of nothing but calls, where nearly all of the wall time must be the calls' own. Returns the
        one that agreed.

        A busy machine can make one batch disagree, so the process has a few; a clock that lies disagrees in
        each.
        """
        max_calls = CHECK_CALLS[self.device]
        n = max(2, min(max_calls, int(CHECK_SECONDS / max(process.expected, 1e-6))))
        for attempt in range(CHECK_ATTEMPTS):
            block = process.block(n, False, secrets.randbits(62), fresh=False)
            if self.device == "cuda" and block.wall_ns < CHECK_SECONDS * 0.5e9 and n < max_calls:
                # What the process said of its calls made the batch too short to prove anything.
                n = min(max_calls, math.ceil(n * CHECK_SECONDS * 1e9 / block.wall_ns))
                block = process.block(n, False, secrets.randbits(62), fresh=False)
            try:
                agree(block, 0.0)
                break
            except ClocksDisagree:
                if attempt == CHECK_ATTEMPTS - 1:
                    raise
        process.expected = median(block.ns) * 1e-9
        return block

    def plan(self, expected: Sequence[float], seconds: float, rounds: int | None) -> tuple[int, list[int]]:
        max_rounds = GPU_ROUNDS if self.device == "cuda" else ROUNDS[1]
        return plan(expected, seconds, self._gap_seconds(), rounds, max_rounds)

    def _gap_seconds(self) -> float:
        """Seconds between two timed calls of a cold block: eviction, new contents for some of the inputs,
        outputs overwritten.
        """
        graph = self.task.graph
        input_bytes = sum(i.spec.nbytes for i in graph.inputs if i.role == "input")
        output_bytes = sum(graph.specs[name].nbytes for name in graph.returned)
        if self.device == "cuda":
            return GPU_CALL_SECONDS + (self.flush_bytes + input_bytes / 2 + output_bytes) / GPU_BYTES_PER_S
        return 20e-6 + (self.flush_bytes + input_bytes / 2 + output_bytes) / 30e9

    def close(self) -> None:
        """End every process."""
        if self._zygote is not None:
            self._zygote.close()
        self._zygote = None
