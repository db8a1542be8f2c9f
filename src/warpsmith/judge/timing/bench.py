"""Timing side by side: a candidate's process against the baselines' own processes, in interleaved rounds.

In: a task, built libraries and a provider of fresh values files. Out: a `Timing` with a ratio against each
baseline that was measured in the same rounds, and samples of what the timed calls were given and returned,
for the caller to check. Each round visits every process for one block of calls, in an order that is drawn
anew each time. The supervisor's own clock runs over every block; where it disagrees with the process's
beyond the stated noise there is no measurement (`ClocksDisagree`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

from ...records import BaselineTiming, Candidate, Ratio, Task, Timing
from ...runtime.rewrites import deployed_graph
from ..device import gpu_state
from . import stats
from .baseline_pool import BaselinePool
from .interleaved_rounds import (
    BaselineLost,
    ClocksDisagree,
    InterleavedRounds,
    TimedSample,
    agree_with_batch,
    is_host_bound,
)
from .rewritten_reference import REWRITTEN
from .timed_process import Block, TimedProcess
from .timing_session import CHECK_ATTEMPTS, FreshValues, TimingSession

__all__ = ["BaselineLost", "Bench", "BenchRun", "ClocksDisagree", "TimedSample"]

CONFIRM_ROUNDS, GPU_CONFIRM_ROUNDS = 32, 16  # what a confirmation asks for; a GPU's calls vary less
SEARCH_SECONDS = {"cpu": 0.35, "cuda": 0.15}  # of timing a process in a search; a GPU's calls vary less
# Of `process_floor`, fitted to A/A trials over 22 pairs of processes on an H200.
GPU_FLOOR, GPU_SHORT_NS = 0.005, 1200.0
SLOWED = 1.1  # times what a baseline took when it was timed first: from there on it is slow


@dataclass(frozen=True)
class BenchRun:
    timing: Timing
    samples: tuple[TimedSample, ...]  # of the candidate's timed calls
    blocks: dict[str, list[Block]] = field(default_factory=dict)  # raw, by process name


class Bench:
    """Times candidates of one task against its pool of baselines."""

    def __init__(self, task: Task, **options: Any) -> None:
        """`options`: as `TimingSession` has them."""
        self.task, self.session = task, TimingSession(task, **options)
        self.pool = BaselinePool(self.session)

    def time(
        self,
        candidate: Candidate,
        libraries: Mapping[str, Path],
        fresh_values: FreshValues,
        *,
        rounds: int | None = None,
        target_seconds: float | None = None,
        baselines: Sequence[str] | None = None,
        cold: bool = True,
        checks: int = 1,
    ) -> BenchRun:
        """Time a candidate. `baselines=None`: against the best one and eager; else against those named that
        work.

        `libraries` maps region id → built library, for units that are compiled. `rounds=None`: as many as fit `target_seconds` (None:
        `SEARCH_SECONDS`), ended early when hopeless. Raises WorkerDied, WorkerTimeout, WorkerFailed (the candidate's fault),
        ClocksDisagree (invalid), BaselineLost, JudgeError.
        """
        opponents = self.pool.opponents(baselines)
        values = [fresh_values() for _ in range(1 if rounds is None else 3)]
        units, graph = candidate.compiled, deployed_graph(self.task.graph, candidate.units)
        changed_graph = graph if graph is not self.task.graph else None
        process = self.session.fork([(u.region, libraries[u.region.id]) for u in units], graph=changed_graph)
        covered = sum(len(u.region.nodes) for u in units)
        try:
            run = self.measure(
                process,
                opponents,
                values,
                rounds=rounds,
                target_seconds=target_seconds,
                cold=cold,
                checks=checks,
                launches=len(units) + len(graph.nodes) - covered,
            )
        finally:
            process.close()
        rewritten = self.pool.timings.get(REWRITTEN)
        return replace(run, timing=run.timing.model_copy(update={"rewritten": rewritten}))

    def measure(
        self,
        process: TimedProcess,
        opponents: Sequence[TimedProcess],
        values: Sequence[Path],
        *,
        rounds: int | None = None,
        target_seconds: float | None = None,
        cold: bool = True,
        checks: int = 1,
        launches: int | None = None,
    ) -> BenchRun:
        """One process against others, whatever it runs; `launches` as in `agree_with_batch` (None: one for
        each node). Raises as `time` does.
        """
        lock = self.session.device_lock
        if self.session.device == "cuda":
            with lock.run_in_background(process.pause, process.resume):
                process.prepare(values[0], 1, alone=False)
        with lock.hold_exclusive(), self.session.pin([process, *opponents]):
            return self._measure_exclusively(
                process, opponents, values, rounds, target_seconds, cold, checks, launches
            )

    def _measure_exclusively(
        self, process: TimedProcess, opponents: Sequence[TimedProcess], values: Sequence[Path], rounds: int | None,
        target_seconds: float | None, cold: bool, checks: int, launches: int | None,
    ) -> BenchRun:  # fmt: skip
        session, cuda = self.session, self.session.device == "cuda"
        process.expected = session.estimate(process, values[0])
        warm = session.check_clocks(process)
        timed = session.interleave([process, *opponents], values, cold, None if rounds else session.sampled)
        expected = [p.expected for p in timed.processes]
        seconds = SEARCH_SECONDS[session.device] if target_seconds is None else target_seconds
        count, calls = session.plan(expected, seconds * len(expected) / 2, rounds)
        timed.run(count, calls, race=rounds is None, checks=checks)
        timed.agree()
        busy = timed.busy()  # a search goes on, but nothing is sure of what it measured
        if rounds is not None:
            busy = busy or explain_slow_baseline(timed.blocks, process.name, self.pool.timings)
            if busy:
                session.progress(f"the machine is too busy for a claim: {busy}")
        steps = len(self.task.graph.nodes) + 1 if launches is None else launches
        warm = self._compare_with_batch(timed, process, warm, steps if cuda else 0)
        for opponent in opponents if cuda and not timed.rests else ():
            opponent.rest()
        timed.charge_work_before_calls()
        timing = self._timing(timed, process, list(warm.ns), cold, busy)
        if cuda and rounds is not None:  # asking takes too long for a search
            timing = timing.model_copy(update={"gpu_state": gpu_state.read()})
        return BenchRun(timing, tuple(timed.samples), timed.blocks)

    def _compare_with_batch(
        self, timed: InterleavedRounds, process: TimedProcess, batch: Block, launches: int
    ) -> Block:
        """The batch, or a later one, that the session's calls agree with: a busy machine may have spoilt one. Where the host needs
        longer for a call than the device, by the kernel's account, no batch agrees, and a call is charged what the host takes.
        """
        for attempt in range(CHECK_ATTEMPTS):
            try:
                agree_with_batch(timed.blocks[process.name], batch, launches)
                return batch
            except ClocksDisagree:
                if attempt < CHECK_ATTEMPTS - 1:
                    batch = self.session.check_clocks(process)
                elif not is_host_bound(batch):
                    raise
        timed.charge_host(batch)
        return batch

    def _timing(
        self, timed: InterleavedRounds, process: TimedProcess, warm: list[int], cold: bool, busy: str
    ) -> Timing:
        """`busy`: why the baselines may have done nothing but wait; the ratios then have no lower end."""
        blocks = timed.blocks[process.name]
        candidate_ns = [b.ns for b in blocks]
        time = stats.typical(candidate_ns)
        ratios, floor = [], process_floor(self.session.device, time.median)
        for baseline in timed.processes[1:]:
            ratio = stats.ratio([b.ns for b in timed.blocks[baseline.name]], candidate_ns, floor=floor)
            low = 0.0 if busy else ratio.low
            ratios.append(Ratio(baseline=baseline.name, median=ratio.median, low=low, high=ratio.high))
        accounted = sum(sum(b.ns) + b.between_ns for b in blocks) / sum(b.wall_ns for b in blocks)
        steady = timed.processes[1:] or [process]
        drift = max(stats.spread([b.ns for b in timed.blocks[p.name]]) for p in steady)
        state: Literal["cold", "warm"] = "cold" if cold and self.session.flush_bytes else "warm"
        return Timing(
            median_us=time.median / 1e3, low_us=time.low / 1e3, high_us=time.high / 1e3, cache=state,
            samples=sum(len(b) for b in candidate_ns), ratios=tuple(ratios), warm_us=median(warm) / 1e3,
            wall_share=min(accounted, 1.0), drift=drift, isolation=process.isolation, charged_us=mean_charged_us(blocks),
            rivals_charged_us=mean_charged_us([b for p in timed.processes[1:] for b in timed.blocks[p.name]]),
            busy=busy,
        )  # fmt: skip

    def close(self) -> None:
        """End every process."""
        self.pool.close()
        self.session.close()


def explain_slow_baseline(
    blocks: Mapping[str, Sequence[Block]], candidate: str, first: Mapping[str, BaselineTiming]
) -> str:
    """Explain which baseline the candidate beats only since that was slow beside it: when it was `first` timed it was as fast as the
    candidate. Empty where there is none.
    """
    us = {name: stats.typical([b.ns for b in of_process]).median / 1e3 for name, of_process in blocks.items()}
    for name, timing in first.items():
        slowed = timing.ok and name in us and us[name] > SLOWED * timing.median_us
        if slowed and timing.median_us <= us[candidate] < us[name]:
            return (
                f"{name} took {us[name]:.1f} us beside it, {timing.median_us:.1f} us when it was timed first"
            )
    return ""


def mean_charged_us(blocks: Sequence[Block]) -> float:
    """Average the microseconds that a call was charged."""
    calls = sum(len(b.ns) for b in blocks)
    return sum(b.charged_ns for b in blocks) / calls / 1e3 if calls else 0.0


def process_floor(device: str, ns: float) -> float:
    """Relative systematic difference between two processes that run the same code, for calls of `ns`.

    On a GPU pairs of processes differ by up to 8 % at 5 µs, 1.7 % at 12 µs, and little from 50 µs on.
    """
    return GPU_FLOOR + (GPU_SHORT_NS / ns) ** 2 if device == "cuda" else stats.PROCESS_FLOOR
