"""Whole runs measured side by side: rounds in which every variant runs once or a few times, in random order.

In: named variants, each a function that makes it ready and one that runs it. Out: blocks of times by name, and the speedup of one over
another with its interval, by the statistics of the judge (`judge.timing.stats`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..judge.timing.stats import ratio
from ..processes.run_queue import read_queued_ns
from ..records import Ratio

ROUNDS = (6, 60)  # at least, at most
BLOCK_S = 0.05  # a block repeats a short run for so long …
MOST_RUNS_PER_BLOCK = 20  # … or so often
_THIS_THREAD = "/proc/thread-self/schedstat"


@dataclass(frozen=True)
class Blocks:
    """Times of all variants, block by block."""

    times_ns: Mapping[str, list[list[float]]]

    def compare(self, baseline: str, candidate: str, seed: int = 0) -> Ratio:
        """Return the speedup of the candidate over the baseline."""
        interval = ratio(self.times_ns[baseline], self.times_ns[candidate], seed=seed)
        return Ratio(baseline=baseline, median=interval.median, low=interval.low, high=interval.high)


def measure_side_by_side(
    variants: Mapping[str, Callable[[], Callable[[], Any]]], seconds: float, seed: int
) -> Blocks:
    """Time the variants in interleaved rounds, until the time is over. A variant is made ready by calling it, and gives the run."""
    times: dict[str, list[list[float]]] = {name: [] for name in variants}
    order, started_s = list(variants), time.monotonic()
    generator = random.Random(seed)
    for done in range(ROUNDS[1]):
        if done >= ROUNDS[0] and time.monotonic() - started_s > seconds:
            break
        generator.shuffle(order)
        for name in order:
            times[name].append(time_block(variants[name]()))
    return Blocks(times)


def time_block(run: Callable[[], Any]) -> list[float]:
    """Time a few runs after one that warms up."""
    first_ns = time_run(run)
    count = max(1, min(MOST_RUNS_PER_BLOCK, int(BLOCK_S * 1e9 / first_ns)))
    return [time_run(run) for _ in range(count)]


def time_run(run: Callable[[], Any]) -> float:
    """Return the nanoseconds of a run, with all that it queued on GPUs. What other programs took is taken off: the time that
    the thread waited for a processor, by the kernel's own account.
    """
    _wait()
    queued_ns = read_queued_ns(_THIS_THREAD)
    started_ns = time.perf_counter_ns()
    run()
    _wait()
    elapsed_ns = time.perf_counter_ns() - started_ns
    return float(max(1, elapsed_ns - (read_queued_ns(_THIS_THREAD) - queued_ns)))


def _wait() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
