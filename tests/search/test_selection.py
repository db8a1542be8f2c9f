"""Selection by intervals: ranks, draws and certainty; and what selection by point estimates does instead."""

import math
import random
import statistics

from hypothesis import given, settings
from hypothesis import strategies as st
from made_attempts import attempt, failure, unit

from warpsmith.records import Ratio
from warpsmith.search.selection import beats, draw, pick, rank_attempts

speeds = st.floats(0.05, 50.0)
widths = st.floats(0.0, 1.5)


def make(speed: float, below: float, above: float):
    return attempt(speed, low=speed * math.exp(-below), high=speed * math.exp(above))


attempts = st.builds(make, speeds, widths, widths)


@given(attempts, attempts)
def test_beats_is_certain_or_nothing(one, other) -> None:
    assert not (beats(one, other) and beats(other, one))
    overlap = (
        one.result.speedup.low <= other.result.speedup.high
        and other.result.speedup.low <= one.result.speedup.high
    )
    assert overlap != (beats(one, other) or beats(other, one))


def test_what_works_beats_what_failed() -> None:
    assert beats(attempt(0.1), failure())
    assert not beats(failure(), attempt(0.1))
    assert not beats(failure(), failure())


@given(st.lists(attempts, max_size=8))
def test_ranks_are_by_the_low_end_or_the_median(some) -> None:
    lows = [a.result.speedup.low for a in rank_attempts([*some, failure()])]
    medians = [a.speedup for a in rank_attempts([failure(), *some], "point")]
    assert lows == sorted(lows, reverse=True)
    assert medians == sorted(medians, reverse=True)
    assert len(lows) == len(medians) == len(some)


def test_intervals_change_who_is_first() -> None:
    lucky, solid = attempt(2.0, [unit(technique="a")], low=0.7, high=4.0), attempt(1.8, [unit(technique="b")])
    assert rank_attempts([lucky, solid]) == [solid, lucky]
    assert rank_attempts([lucky, solid], "point") == [lucky, solid]


@given(speeds, widths, widths, st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_draws_have_the_interval_that_was_measured(
    speed: float, below: float, above: float, seed: int
) -> None:
    """The median, and the ends at 2.5% and 97.5%, within what 2,000 draws can tell."""
    ratio, rng = make(speed, below, above).result.speedup, random.Random(seed)
    drawn = sorted(draw(ratio, rng) for _ in range(2000))
    assert abs(math.log(statistics.median(drawn) / ratio.median)) <= 0.1 * (below + above) + 1e-9
    outside = sum(d < ratio.low * (1 - 1e-9) or d > ratio.high * (1 + 1e-9) for d in drawn)
    assert outside <= 0.08 * len(drawn)
    if below > 0.01 and above > 0.01:
        assert outside >= 0.02 * len(drawn)


@given(st.lists(attempts, max_size=6), st.integers(0, 8), st.integers())
def test_parents_are_different_and_no_more_than_asked(some, n: int, seed: int) -> None:
    chosen = pick([*some, failure()], n, random.Random(seed))
    assert len(chosen) == min(n, len(some))
    assert len({id(a) for a in chosen}) == len(chosen)
    assert chosen == pick([*some, failure()], n, random.Random(seed))


def test_a_wide_interval_gets_a_chance_that_point_selection_never_gives() -> None:
    best = attempt(2.0, [unit(technique="a")])
    open_, hopeless = (
        attempt(1.8, [unit(technique="b")], low=1.2, high=2.7),
        attempt(1.0, [unit(technique="c")]),
    )
    rng = random.Random(5)
    first = [pick([best, open_, hopeless], 1, rng)[0] for _ in range(300)]
    assert 30 < sum(a is open_ for a in first) < 150
    assert hopeless not in first
    assert pick([best, open_, hopeless], 1, rng, "point") == [best]


def test_no_draw_is_beyond_the_physical_limit() -> None:
    """A measurement so noisy that its interval reaches to 5,000: at half of its limit it can be 2.0 at the most."""
    solid = attempt(2.1, [unit(technique="a")])
    for share, chance in ((0.5, range(1)), (0.0, range(20, 80))):
        noisy = attempt(1.0, [unit(technique="b")], low=0.5, high=5000.0, limit_share=share)
        first = [pick([solid, noisy], 1, random.Random(seed))[0] for seed in range(100)]
        assert sum(a is noisy for a in first) in chance


def test_a_ratio_without_width_is_itself() -> None:
    assert draw(Ratio(baseline="eager", median=1.5, low=1.5, high=1.5), random.Random(0)) == 1.5
