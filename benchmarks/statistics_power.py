"""What the judge's statistics can tell apart, in simulation: false wins and losses of equals, and the share of known
slowdowns that are called a loss, over noise, floors and sizes.

    python benchmarks/statistics_power.py --trials 400 --out results/cpu/statistics_power.md

Noise is of four kinds, each relative: *jitter* of single calls (the absolute value of a normal: calls are delayed,
never hurried), *bursts* that slow a whole block by up to two, a random *walk* of the machine's speed from block to
block, and a lasting difference between two *processes* that run the same code. The last cannot be seen from within
one pair of processes; it is what the floor is for. The measurement is a confirmation's: 32 rounds. The real
machine's rates are measured by `aa_honesty.py`; this says what to expect where the noise is known.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpsmith.judge.timing import stats
from warpsmith.judge.timing.bench import CONFIRM_ROUNDS, GPU_FLOOR


@dataclass(frozen=True)
class Noise:
    name: str
    jitter: float
    bursts: float  # share of blocks
    walk: float
    process: float


NOISES = (
    Noise("a quiet GPU", 0.005, 0.01, 0.001, 0.001),
    Noise("a shared GPU", 0.01, 0.05, 0.003, 0.002),
    Noise("a quiet CPU", 0.02, 0.05, 0.005, 0.01),
    Noise("a busy CPU", 0.05, 0.20, 0.02, 0.015),
)
FLOORS = {"a quiet GPU": GPU_FLOOR, "a shared GPU": GPU_FLOOR}  # the others: the CPU's
SLOWDOWNS = (0.0, 0.01, 0.02, 0.05, 0.10)
CALLS = 20  # in a block


def sides(rng: np.random.Generator, slowdown: float, noise: Noise) -> Iterator[list[list[float]]]:
    """Blocks of the baseline, then of a candidate that takes so much longer."""
    walk = np.cumsum(rng.normal(0, noise.walk, 2 * CONFIRM_ROUNDS))
    for side, factor in enumerate((1.0, 1.0 + slowdown)):
        own = rng.normal(0, noise.process)
        level = 50e3 * factor * np.exp(own + walk[side::2])
        burst = np.where(rng.random(CONFIRM_ROUNDS) < noise.bursts, rng.uniform(1, 2, CONFIRM_ROUNDS), 1.0)
        calls = np.exp(np.abs(rng.normal(0, noise.jitter, (CONFIRM_ROUNDS, CALLS))))
        yield [list(row) for row in calls * (level * burst)[:, None]]


def outcomes(slowdown: float, noise: Noise, trials: int, seed: int) -> tuple[float, float, float]:
    """Shares called a win and a loss, and the mean half-width of the interval."""
    rng, floor = np.random.default_rng(seed), FLOORS.get(noise.name, stats.PROCESS_FLOOR)
    found = [stats.ratio(*sides(rng, slowdown, noise), seed=i, floor=floor) for i in range(trials)]
    wins, losses = sum(f.low > 1 for f in found), sum(f.high < 1 for f in found)
    return wins / trials, losses / trials, float(np.mean([f.width for f in found]))


def table(trials: int, seed: int) -> Iterator[str]:
    yield f"# What the statistics tell apart\n\nSimulated, {trials} trials a row, {CONFIRM_ROUNDS} rounds of {CALLS} calls.\n"
    yield "| noise | floor | known slowdown | called a win | called a loss | half-width |\n|---|---|---|---|---|---|"
    for noise in NOISES:
        floor = FLOORS.get(noise.name, stats.PROCESS_FLOOR)
        for slowdown in SLOWDOWNS:
            win, loss, width = outcomes(slowdown, noise, trials, seed)
            yield f"| {noise.name} | {floor:.1%} | {slowdown:.0%} | {win:.1%} | {loss:.1%} | {width:.2%} |"
    yield "\n| noise | jitter | bursts | walk | processes |\n|---|---|---|---|---|"
    for n in NOISES:
        yield f"| {n.name} | {n.jitter:.1%} | {n.bursts:.0%} | {n.walk:.1%} | {n.process:.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the table here")
    options = parser.parse_args()
    lines = []
    for line in table(options.trials, options.seed):
        print(line, flush=True)
        lines.append(line)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
