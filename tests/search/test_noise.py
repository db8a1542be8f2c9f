"""Whole ends of searches under heavy noise, in simulation: what noise may win, and how often the right one leads."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence

from made_attempts import attempt, unit
from test_confirmation import finished, result_of

from warpsmith.agents.base import Attempt
from warpsmith.records import Candidate, Ratio, Result
from warpsmith.search.confirmation import confirm
from warpsmith.search.selection import rank_attempts
from warpsmith.testing import ScriptedExecutor

SIDE = 1.96  # standard errors from the median to either end of an interval of 95%


def measure(true: float, error: float, rng: random.Random) -> Ratio:
    """One measurement of a true speedup; `error`: the standard error of its logarithm, which its interval knows."""
    median = true * math.exp(rng.gauss(0.0, error))
    margin = math.exp(SIDE * error)
    return Ratio(baseline="eager", median=median, low=median / margin, high=median * margin)


class Noisy(ScriptedExecutor):
    """Measures every candidate with noise: each measurement has its own, between a quiet and a busy machine's."""

    def __init__(self, true: Mapping[str, float], rng: random.Random, errors: Sequence[float]) -> None:
        super().__init__(lambda c: 1.0)
        self.true, self.rng, self.errors = true, rng, errors

    def measure(self, candidate: Candidate) -> Result:
        error = self.rng.choice(self.errors)
        return result_of(candidate, measure(self.true[candidate.units[0].technique], error, self.rng))

    def remeasure(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        return map(self.measure, candidates)

    def confirm(self, candidate: Candidate) -> Result:
        return self.measure(candidate)


def search_noisily(
    true: Mapping[str, float], seed: int, errors: Sequence[float]
) -> tuple[Noisy, list[Attempt]]:
    executor = Noisy(true, random.Random(seed), errors)
    candidates = [attempt(1.0, [unit(technique=name)]).candidate for name in true]
    return executor, [Attempt(c, executor.measure(c)) for c in candidates]


def test_of_thirty_that_are_no_faster_noise_wins_no_more_often_than_the_intervals_say() -> None:
    """Each of up to three leaders has a chance of 2.5%, and what is repeated, for its interval was too wide, no more. The luckiest
    of thirty searches alone would "win" in half of all runs.
    """
    true, trials = {f"t{i}": 1.0 for i in range(30)}, 300
    lucky = false = 0
    for seed in range(trials):
        executor, attempts = search_noisily(true, seed, (0.05, 0.3, 0.6))
        lucky += any(a.result.win for a in attempts)
        best = confirm(finished(executor, *attempts), 3, lambda a: None)  # type: ignore[arg-type]
        false += best is not None and best.result.win
    assert lucky > 0.4 * trials
    assert false <= 0.075 * trials


def test_the_right_one_leads_more_often_by_low_ends_than_by_medians_and_most_often_when_timed_again() -> None:
    """One of twenty is 1.3 times as fast; each was measured once, some on a busy machine."""
    true, trials = {"good": 1.3} | {f"t{i}": 1.0 for i in range(19)}, 200
    by_median = by_low = again = 0
    for seed in range(trials):
        executor, attempts = search_noisily(true, seed, (0.04, 0.3))
        names = [rank_attempts(attempts, by)[0].candidate.units[0].technique for by in ("point", "interval")]
        by_median += names[0] == "good"
        by_low += names[1] == "good"
        asked: list[Attempt] = []
        confirm(finished(executor, *attempts), 1, asked.append)  # type: ignore[arg-type]
        again += asked[0].candidate.units[0].technique == "good"
    assert by_median < by_low < again
