"""What settings did on other tasks: what is learnt of it, and that a search with it goes another way than without."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_search import searched

from warpsmith.archive import Archive
from warpsmith.archive.timings import TimedUnit, list_timed_units
from warpsmith.machine import describe
from warpsmith.records import Candidate, Profile, RegionProfile, Result, Tunable, Unit
from warpsmith.search.experience import MOST, Experience
from warpsmith.search.rounds import MAX_PREDICTED_PER_ROUND
from warpsmith.search.tuner import with_values
from warpsmith.testing import ScriptedExecutor, chain_graph, chain_region, chain_task, scripted_result

NOW, LATER = "2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00"


def timings(task: str, fast: int = 4, factor: float = 0.5, technique: str = "a") -> list[TimedUnit]:
    """Of one task: every UNROLL and BLOCK, one of UNROLL faster than the others by a factor."""
    return [
        TimedUnit(
            (task,), "fake", technique, (("BLOCK", block), ("UNROLL", unroll)), (), factor if unroll == fast else 1.0
        )
        for unroll in (1, 2, 4)
        for block in (64, 128)
    ]  # fmt: skip


def unit(unroll: int, technique: str = "a", flags: tuple[str, ...] = ()) -> Unit:
    tunables = (
        Tunable(name="UNROLL", domain=(1, 2, 4), value=unroll),
        Tunable(name="BLOCK", domain=(64, 128), value=64),
    )
    return Unit(
        region=chain_region(chain_graph(), 0, 0), language="c++", tunables=tunables, source=f"// {technique}", flags=flags,
        family="fake", technique=technique,
    )  # fmt: skip


def times(experience: Experience, *units: Unit, region: str = "here") -> list[float]:
    return experience.log_us(experience.pool(region, units, 0.0))[0].tolist()


# ---------------------------------------------------------------- what is learnt


def test_what_was_fast_on_other_tasks_is_expected_to_be_fast_for_other_techniques_less() -> None:
    experience = Experience([t for i in range(6) for t in timings(f"t{i}")])
    slow, fast = times(experience, unit(1), unit(4))
    assert slow - fast > 0.3
    slow, other = times(experience, unit(1, "b"), unit(4, "b"))
    assert 0.0 < slow - other < 0.6


def test_little_evidence_says_little_and_none_nothing() -> None:
    def gain(tasks: int) -> float:
        slow, fast = times(Experience([t for i in range(tasks) for t in timings(f"t{i}")]), unit(1), unit(4))
        return slow - fast

    assert 0.0 == gain(0) < gain(1) < gain(3) < gain(9) < 0.7


def test_what_this_task_shows_to_be_otherwise_counts_more_in_its_own_region_most() -> None:
    experience = Experience([t for i in range(6) for t in timings(f"t{i}")])
    slow, fast = times(experience, unit(1), unit(4))
    assert slow > fast
    experience.learn(timings("here", fast=4, factor=2.0), {"here": math.log(1e6)})
    fast, slow = times(experience, unit(1), unit(4))
    assert slow > fast
    one, other = times(experience, unit(1), unit(4), region="there")
    assert other - one < slow - fast


def test_what_held_elsewhere_is_given_up_where_it_tells_this_runs_times_badly() -> None:
    """Elsewhere UNROLL 4 halves the time; here it doubles it, in two regions."""
    misled, unled = Experience([t for i in range(12) for t in timings(f"t{i}")]), Experience()
    for experience in (misled, unled):
        for region in ("here", "there"):
            experience.learn(timings(region, factor=2.0), {region: math.log(1e6)})
    slow, fast = times(unled, unit(1), unit(4), region="somewhere")
    assert times(misled, unit(1), unit(4), region="somewhere") == pytest.approx([slow, fast], abs=0.05)


def test_what_held_elsewhere_leads_where_it_tells_this_runs_times_well() -> None:
    led, unled = Experience([t for i in range(12) for t in timings(f"t{i}")]), Experience()
    for experience in (led, unled):
        experience.learn(timings("here")[:3], {"here": math.log(1e6)})

    def gain(experience: Experience) -> float:
        slow, fast = times(experience, unit(1), unit(4), region="there")
        return slow - fast

    assert gain(led) > gain(unled) + 0.1


def test_what_two_values_do_together_is_learnt() -> None:
    """UNROLL 4 is fast with BLOCK 64 alone."""
    units = [t for i in range(6) for t in timings(f"t{i}", factor=1.0)]
    fast = {("BLOCK", 64), ("UNROLL", 4)}
    experience = Experience([replace(t, seconds=0.5 if fast <= set(t.values) else 1.0) for t in units])
    pairs = [
        with_values(unit(u), {"UNROLL": u, "BLOCK": b}) for u, b in ((4, 64), (4, 128), (1, 64), (1, 128))
    ]
    both, one, other, neither = times(experience, *pairs)
    assert (one - both) - (neither - other) > 0.1


def test_what_was_measured_is_known_better_than_what_was_not() -> None:
    experience = Experience()
    pool = experience.pool("here", [unit(1), unit(4)], 0.0)
    assert len(set(experience.log_us(pool)[1])) == 1
    experience.learn(timings("here")[:2], {"here": 0.0})
    known, unknown = experience.log_us(pool)[1]
    assert known < unknown


def test_many_tasks_are_thinned_out() -> None:
    tasks = 2 * MOST // len(timings("t"))
    slow, fast = times(Experience([t for i in range(tasks) for t in timings(f"t{i}")]), unit(1), unit(4))
    assert slow - fast > 0.5


# ---------------------------------------------------------------- what a search makes of it


def at_4_alone(unit: Unit) -> float:
    """The only fast setting is UNROLL 4, which the expert's first guess does not have."""
    return 1e-5 if unit.values["UNROLL"] == 4 else 2e-5


class Profiled(ScriptedExecutor):
    """A judge by the seconds of a unit alone: a candidate is the faster the more of its units are."""

    def __init__(self, seconds: Callable[[Unit], float] = at_4_alone) -> None:
        super().__init__(lambda c: 1.0 + sum(seconds(u) <= 1e-5 for u in c.units))
        self._seconds = seconds

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate, result in zip(candidates, super().run(candidates), strict=True):
            seen = tuple(profile(u, self._seconds(u)) for u in candidate.units)
            yield result.model_copy(update={"profile": Profile(regions=seen)})


def profile(unit: Unit, seconds: float) -> RegionProfile:
    return RegionProfile(
        region=unit.region.id, seconds=seconds, least_bytes=1, flops=1, limit_share=0.1, bottleneck="memory",
        family=unit.family, technique=unit.technique, values=unit.values, flags=unit.flags,
    )  # fmt: skip


def first(tasks: int, **settings: Any) -> int:
    """UNROLL of the first unit of the first candidate."""
    elsewhere = [t for i in range(tasks) for t in timings(f"t{i}")]
    found = searched(Profiled(), evaluations=12, elsewhere=elsewhere, **settings)
    return found.attempts[0].candidate.units[0].values["UNROLL"]


def test_settings_that_did_well_elsewhere_come_first_unless_switched_off() -> None:
    assert first(6) == 4
    assert first(6, transplant=False) == first(6, without=("predict",)) == first(0) == 1


def test_of_little_evidence_the_known_good_guess_comes_first() -> None:
    weak = [
        TimedUnit(t.group, *(t.family, t.technique, t.values, t.flags), 0.98 if t.seconds < 1 else 1.0)
        for t in timings("t")
    ]
    found = searched(Profiled(), evaluations=12, elsewhere=weak)
    assert [a.candidate.lineage.operator for a in found.attempts[:2]] == ["seed", "tune"]


def test_a_search_goes_on_from_what_it_learnt_itself() -> None:
    """Elsewhere UNROLL 2 was fast; here it is 4."""
    elsewhere = [t for i in range(6) for t in timings(f"t{i}", fast=2)]
    rest = ("rewrite", "edit", "tune", "crossover", "restart")
    found = searched(Profiled(), evaluations=40, elsewhere=elsewhere, patience=9, without=rest)
    assert found.attempts[0].candidate.units[0].values["UNROLL"] == 2
    assert max(a.speedup for a in found.attempts) == pytest.approx(3.0)
    found = searched(Profiled(), evaluations=40, patience=9, without=(*rest, "predict"))
    assert max(a.speedup for a in found.attempts) < 3.0


def test_a_misleading_archive_is_soon_left() -> None:
    """Elsewhere UNROLL 4 was fast; here it is slow, whatever else is set."""

    def seconds(unit: Unit) -> float:
        return 1e-5 * unit.values["UNROLL"]

    elsewhere = [t for i in range(12) for t in timings(f"t{i}", factor=0.4)]
    found = searched(Profiled(seconds), evaluations=MAX_PREDICTED_PER_ROUND, elsewhere=elsewhere).attempts
    assert [u.values["UNROLL"] for u in found[0].candidate.units] == [4, 4]
    assert max(a.speedup for a in found) == 3.0


# ---------------------------------------------------------------- what an archive tells


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    opened = Archive(tmp_path / "a.db")
    yield opened
    opened.close()


def keep(archive: Archive, name: str, outcome: float | str, at: str = NOW, unroll: int = 1) -> str:
    """Returns the id of the task."""
    task = chain_task().model_copy(update={"name": name})
    candidate = Candidate(task_id=task.id, target="cpu", units=(unit(unroll),))
    here = describe()
    archive.begin_run(f"{name}{unroll}{at}", task, "cpu", 1, {}, here)
    result = scripted_result(candidate, outcome).model_copy(
        update={"environment": here.id, "judged_at": at, "profile": Profile(regions=(profile(unit(unroll), 1.0),))}
    )  # fmt: skip
    archive.add_result(f"{name}{unroll}{at}", candidate, result)
    return task.id


def test_an_archive_tells_the_times_of_sound_units_of_other_tasks(archive: Archive) -> None:
    own = keep(archive, "own", 2.0)
    keep(archive, "other", 2.0, unroll=2)
    keep(archive, "wrong", "incorrect")
    keep(archive, "late", 2.0, at=LATER, unroll=4)
    found = list_timed_units(archive, "cpu", before="2026-01-15T00:00:00+00:00", without=own)
    assert [(u.technique, dict(u.values)["UNROLL"], u.seconds) for u in found] == [("a", 2, 1.0)]
    assert len(list_timed_units(archive, "cpu")) == 3
    assert list_timed_units(archive, "cuda") == []
