"""Steering by the limit: how much each region may still gain, who gets the candidates, when to stop; and the same switched off."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_attempts import TASK, TOTAL_US, attempt, failure, situation, unit
from scripted_search import searched

from warpsmith.hardware import CPU
from warpsmith.records import Candidate, Profile, RegionProfile, Result
from warpsmith.search.steering import REST, Steering, proportional
from warpsmith.testing import ScriptedExecutor

FIRST, LAST = unit((0, 0)), unit((1, 2))
ONE, TWO = FIRST.region.id, LAST.region.id


def two_regions(first: float, last: float, us: tuple[float, float] = (60.0, 30.0), total: float = 100.0):
    """A candidate of two units, each at a share of its limit."""
    return attempt(2.0, [FIRST, LAST], us={0: us[0], 1: us[1]}, shares={0: first, 1: last}, total=total)


def test_the_gain_left_is_amdahls_with_the_region_at_its_limit() -> None:
    rooms = {r.region: r for r in Steering().rooms(situation([two_regions(0.5, 0.8)]))}
    assert set(rooms) == {ONE, TWO}
    assert rooms[ONE].gain_left == pytest.approx(100 / (100 - 60 * 0.5))
    assert rooms[TWO].gain_left == pytest.approx(100 / (100 - 30 * 0.2))
    assert rooms[ONE].share == pytest.approx((60 + CPU.unit_call_us) / 100)


def test_a_best_that_was_only_screened_has_as_much_room() -> None:
    """On a GPU the search goes on while the first verdicts are awaited."""
    judged = two_regions(0.5, 0.8)
    timing = judged.result.timing
    assert timing is not None
    timing = timing.model_copy(update={"estimate": timing.best, "ratios": ()})
    screened = replace(
        judged, result=judged.result.model_copy(update={"status": "screened", "timing": timing})
    )
    assert screened.result.speedup is None
    here = situation([screened])
    assert Steering().rooms(here) == Steering().rooms(situation([judged]))
    assert Steering().stop(here) is None


def test_a_region_near_its_limit_is_left_alone_and_off_it_is_not() -> None:
    here = situation([two_regions(0.94, 0.5)])
    on, off = Steering(), Steering(on=False)
    assert not on.open(here, ONE)
    assert on.open(here, TWO)
    assert off.open(here, ONE)
    assert on.split(here, 8) == {TWO: 8}
    assert off.split(here, 8) == {ONE: 4, TWO: 4}
    assert {r.region: r.gain_left for r in on.rooms(here)}[ONE] == 1.0
    assert {r.region: r.gain_left for r in off.rooms(here)}[ONE] > 1.03


def test_a_limit_that_is_beaten_leaves_the_region_what_its_bytes_allow() -> None:
    beaten = situation([two_regions(7.6, 0.94)])
    assert Steering().open(beaten, ONE)
    assert {r.region: r.gain_left for r in Steering().rooms(beaten)}[ONE] > 2.0
    assert Steering().stop(beaten) is None
    assert Steering().stop(situation([two_regions(1.02, 0.94)])) is not None


def test_the_split_follows_what_there_is_to_gain() -> None:
    given_ = Steering().split(situation([two_regions(0.3, 0.7)]), 10)
    assert sum(given_.values()) == 10
    assert given_[ONE] > 2 * given_[TWO] > 0


def test_it_stops_when_too_little_is_left_and_off_it_goes_on() -> None:
    here = situation([two_regions(0.94, 0.92)])
    steering = Steering()
    assert steering.stop(here) == "at most 1.00x left in the regions worked on"
    assert Steering(on=False).stop(here) is None
    assert Steering().stop(situation([two_regions(0.94, 0.5)])) is None
    # A small region far from its limit: 100 / (100 - 2) is worth it or not, as `worth` says.
    small = situation([two_regions(0.94, 0.5, us=(80.0, 4.0))])
    assert Steering(worth=1.01).stop(small) is None
    assert Steering(worth=1.03).stop(small) is not None


def test_no_gain_is_promised_beyond_the_limit_of_the_whole() -> None:
    here = situation([two_regions(0.5, 0.5)], limit_us=99.0)
    assert all(r.gain_left <= 100 / 99 + 1e-9 for r in Steering().rooms(here))
    assert Steering(worth=1.02).stop(here) is not None


def test_what_is_left_to_aten_is_room_too() -> None:
    """The unit is at its limit, but two nodes of 40 us each have none."""
    alone = attempt(1.5, [FIRST], us={0: 10.0}, shares={0: 0.95})
    here = situation([alone], node_us=40.0)
    rest = next(r for r in Steering().rooms(here) if r.region == REST)
    assert rest.share == pytest.approx(0.8)
    assert rest.gain_left > 4.0
    assert Steering().stop(here) is None
    assert Steering().split(here, 3) == {REST: 3}


def test_a_faster_unit_of_another_candidate_is_still_to_be_had() -> None:
    """The region is near its limit, but not in the best candidate: joining them gains."""
    best = attempt(2.0, [unit((0, 0), "a"), LAST], us={0: 50.0, 1: 30.0}, shares={0: 0.5, 1: 0.95})
    other = attempt(1.5, [unit((0, 0), "b"), LAST], us={0: 26.0, 1: 30.0}, shares={0: 0.95, 1: 0.95})
    rooms = {r.region: r.gain_left for r in Steering().rooms(situation([best, other]))}
    assert rooms[ONE] == pytest.approx(100 / (100 - 24))
    assert Steering().stop(situation([best, other])) is None


def test_another_cut_of_the_graph_keeps_the_run_going() -> None:
    """Both regions of the best are near their limits; one unit over all of it has a lower limit, and is far from it."""
    best = two_regions(0.95, 0.95)
    whole = attempt(1.2, [unit((0, 2))], us={0: 120.0}, shares={0: 0.4})
    assert Steering().stop(situation([best])) is not None
    assert Steering().stop(situation([best, whole])) is None
    assert Steering().split(situation([best, whole]), 4) == {unit((0, 2)).region.id: 4}


@pytest.mark.parametrize("attempts", [[], [failure()], [attempt(2.0)]])
def test_nothing_is_said_before_anything_was_profiled(attempts) -> None:
    steering, here = Steering(), situation(attempts)
    assert steering.rooms(here) == []
    assert steering.split(here, 5) == {}
    assert steering.stop(here) is None
    assert steering.open(here, ONE)


def test_what_was_saved_is_told_in_words_and_numbers() -> None:
    steering, name = Steering(), TASK.graph.nodes[0].name
    steering.split(situation([two_regions(0.94, 0.5)], round=3), 8)
    steering.split(situation([two_regions(0.94, 0.5)], round=4), 8)
    assert steering.saved.lines(10, 20.0) == (
        f"region {name} left alone at 94% of its limit from round 3; 8 candidates of an even split went elsewhere",
    )
    steering.stop(situation([two_regions(0.94, 0.95)], round=5))
    assert steering.saved.lines(10, 20.0)[1:] == (
        "region n1, n2 left alone at 95% of its limit from round 5",
        "10 evaluations and 20 s of the budget not spent: at most 1.00x left in the regions worked on",
    )
    assert steering.saved.lines(0, 20.0)[2:] == (
        "20 s of the budget not spent: at most 1.00x left in the regions worked on",
    )
    assert len(steering.saved.lines()) == 2  # a run without limits saves no budget
    off = Steering(on=False)
    off.split(situation([two_regions(0.94, 0.94)]), 8)
    off.stop(situation([two_regions(0.94, 0.94)]))
    assert off.saved.lines(10, 20.0) == ()


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 10)), st.integers(0, 50))
def test_a_split_gives_all_and_within_one_of_each_share(weights: dict[str, float], n: int) -> None:
    given_, total = proportional(weights, n), sum(weights.values())
    if total <= 0:
        assert given_ == {}
        return
    assert sum(given_.values()) == n
    for key, count in Counter(given_).items():
        assert abs(count - n * weights[key] / total) < 1


shares = st.floats(0.05, 1.0)


@given(shares, shares, st.floats(1.0, 90.0), st.floats(1.0, 90.0))
def test_gains_are_between_none_and_the_limit_of_the_whole(
    one: float, two: float, a: float, b: float
) -> None:
    total = a + b + 10
    for on in (True, False):
        rooms = Steering(on=on).rooms(
            situation([two_regions(one, two, us=(a, b), total=total)], limit_us=1.0)
        )
        assert all(1.0 <= r.gain_left <= total / 1.0 + 1e-9 and 0 < r.share <= 1.0 for r in rooms)
        assert [r.gain_left for r in rooms] == sorted((r.gain_left for r in rooms), reverse=True)


class Profiled(ScriptedExecutor):
    """Also says at what share of its limit each unit is: the first node's always near, the other's far from it."""

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate, result in zip(candidates, super().run(candidates), strict=True):
            regions = tuple(
                RegionProfile(
                    region=u.region.id, seconds=40e-6, least_bytes=1, flops=1, bottleneck="memory", technique=u.technique,
                    limit_share=0.95 if u.region.nodes == ("n0",) else 0.3, values=u.values,
                )
                for u in candidate.units
            )  # fmt: skip
            timing = result.timing.model_copy(update={"median_us": TOTAL_US})
            yield result.model_copy(update={"profile": Profile(regions=regions), "timing": timing})


def test_a_search_leaves_a_region_near_its_limit_alone_and_unsteered_it_does_not() -> None:
    """Candidates of later rounds that have another unit for the first node than their parents."""

    def first(candidate: Candidate) -> set[str]:
        return {u.code_key for u in candidate.units if u.region.nodes == ("n0",)}

    changed = {}
    for on in (True, False):
        executor = Profiled(lambda c: 1 + sum(u.values["UNROLL"] * u.values["BLOCK"] for u in c.units) / 512)
        search = searched(executor, steering=on, without=("crossover", "restart", "predict"))
        by_id = {a.candidate.id: a.candidate for a in search.attempts}
        later = [a.candidate for a in search.attempts if a.candidate.lineage.round > 0]
        parents = [(c, by_id[c.lineage.parents[0]]) for c in later]
        changed[on] = sum(not first(c) <= first(p) for c, p in parents)
        assert len(later) > 5
    assert changed[True] == 0
    assert changed[False] > 0
