"""Statistics of searches on landscapes: evaluations needed, over tasks and seeds, with intervals.

In: for each task the evaluations that each seed needed, None where it did not get there within the budget. Out: geometric means
with 95% bootstrap intervals. Who did not get there counts with the whole budget, which is too few: the mean is a lower bound
for a way that often fails, and the share that failed stands beside it. Tasks are resampled, and seeds within each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
Needed = Mapping[str, Sequence[int | float | None]]  # task → one a seed


@dataclass(frozen=True)
class Summary:
    """Of one way to search."""

    mean: float  # geometric, over tasks and seeds
    low: float
    high: float
    failed: float  # share of runs that did not get there
    missing: float = 0.0  # share of what was asked for that the landscapes do not hold

    def record(self) -> dict[str, Any]:
        return {k: round(v, 4) for k, v in asdict(self).items()}

    def text(self) -> str:
        return f"{self.mean:.1f} ({self.low:.1f}–{self.high:.1f})"


def summary(needed: Needed, budget: float, missing: float = 0.0) -> Summary:
    logs = _logs(needed, budget)
    draws = _resampled(logs, np.random.default_rng(0))
    low, high = np.exp(np.quantile(draws, [0.025, 0.975]))
    every = [n for seeds in needed.values() for n in seeds]
    failed = sum(n is None for n in every) / len(every)
    return Summary(float(np.exp(logs.mean())), float(low), float(high), failed, missing)


def ratio(one: Needed, other: Needed, budget: float) -> tuple[float, float, float]:
    """Evaluations of the first for one of the second, with its interval, on the tasks of both: paired by task."""
    tasks = [t for t in one if t in other]
    a = _logs({t: one[t] for t in tasks}, budget)
    b = _logs({t: other[t] for t in tasks}, budget)
    drawn = _resampled(a, np.random.default_rng(0)) - _resampled(b, np.random.default_rng(0))
    low, high = np.exp(np.quantile(drawn, [0.025, 0.975]))
    return float(np.exp(a.mean() - b.mean())), float(low), float(high)


def _logs(needed: Needed, budget: float) -> npt.NDArray[np.float64]:
    """(tasks, seeds); tasks with fewer seeds repeat theirs."""
    most = max(map(len, needed.values()))
    rows = [np.resize([budget if n is None else n for n in seeds], most) for seeds in needed.values()]
    return np.log(np.array(rows, dtype=np.float64))


def _resampled(logs: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    tasks, seeds = logs.shape
    rows = rng.integers(0, tasks, (RESAMPLES, tasks))
    columns = rng.integers(0, seeds, (RESAMPLES, tasks, seeds))
    found: npt.NDArray[np.float64] = logs[rows[:, :, None], columns].mean(axis=(1, 2))
    return found


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Of markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
