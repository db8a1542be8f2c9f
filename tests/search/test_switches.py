"""Each part of the search has an off switch that changes what is judged; and a run takes the same path when it is taken up again."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_search import Varying, searched
from test_operators import techniques

from warpsmith.records import Candidate, Profile, RegionProfile, Unit
from warpsmith.search.loop import Search
from warpsmith.testing import FakeBrain, ScriptedExecutor


def speed(candidate: Candidate) -> float:
    gains = {"a": 0.2, "b": 0.35, "c": 0.3, "a_plus": 0.5}
    unrolled = sum(0.05 * u.values["UNROLL"] for u in candidate.units)
    return 1.0 + unrolled + sum(gains.get(t, 0.1) for t in techniques(candidate))


def story(search: Search) -> list[tuple[str, str, str]]:
    return [(a.candidate.id, a.candidate.lineage.operator, a.result.status) for a in search.attempts]


class Wider(Varying):
    """Enough cuts for every island."""

    def plans(self, graph, facts):
        both = super().plans(graph, facts)[0]
        return [both, both[:1], both[1:]]


@pytest.mark.parametrize(
    "change",
    [{"islands": 1}, {"elites": False}, {"selection": "point"}, {"policy": "even"}, {"without": ("edit",)}],
    ids=str,
)
def test_a_setting_changes_the_path_and_the_same_settings_do_not(change: dict[str, Any]) -> None:
    def path(**settings: Any) -> list[str]:
        found = searched(speed, brain=Wider(), evaluations=60, patience=9, **settings)
        return [a.candidate.content_key for a in found.attempts]

    usual = path()
    assert path() == usual
    assert path(**change) != usual


class Renaming(FakeBrain):
    """Its techniques differ by the name of a local variable."""

    def write_units(self, graph, hypothesis, m, situation=None):
        (unit,) = super().write_units(graph, hypothesis, m, situation)
        source = f"static float f(float {unit.technique}) {{ return {unit.technique} * run(UNROLL, BLOCK); }}"
        return [unit.model_copy(update={"source": source})]


def test_the_same_code_in_other_words_is_judged_once() -> None:
    new, all_of_them = (searched(speed, brain=Renaming(), novelty=n, evaluations=80) for n in (0.995, 0.0))
    assert new.methods.novelty.rejected["same source"] > 0
    assert not all_of_them.methods.novelty.rejected

    def codes(found: Search) -> list[object]:
        """All that is left to tell candidates apart: regions, values and flags."""
        return [[(u.region.id, u.values, u.flags) for u in a.candidate.units] for a in found.attempts]

    for found, twice in ((new, False), (all_of_them, True)):
        told = [str(code) for code in codes(found)]
        assert (len(told) > len(set(told))) is twice


def test_the_same_machine_code_is_judged_once() -> None:
    def code(unit: Unit) -> str:
        return f"{unit.technique} {unit.values['UNROLL']}"  # BLOCK changes nothing

    found = searched(speed, assembly=code, evaluations=60)
    assert found.methods.novelty.rejected["same assembly"] > 0
    judged = [tuple((code(u), u.region.id) for u in a.candidate.units) for a in found.attempts]
    assert len(judged) == len(set(judged))
    plain = searched(speed, evaluations=60)
    judged = [tuple((code(u), u.region.id) for u in a.candidate.units) for a in plain.attempts]
    assert len(judged) > len(set(judged))


def test_machine_code_is_prepared_for_all_of_a_round_before_it_is_asked_for() -> None:
    prepared: set[str] = set()
    asked: set[str] = set()

    def code(unit: Unit) -> str:
        asked.add(unit.code_key)
        return unit.code_key

    found = searched(speed, assembly=code, run=False)
    found.methods.prepare = lambda units: prepared.update(u.code_key for u in units)
    found.run()
    assert asked
    assert asked <= prepared


class NearTheLimit(ScriptedExecutor):
    def run(self, candidates):
        for candidate, result in zip(candidates, super().run(candidates), strict=True):
            seen = tuple(
                RegionProfile(
                    region=u.region.id, seconds=5e-5, least_bytes=1, flops=1, limit_share=0.97, bottleneck="memory"
                )
                for u in candidate.units
            )  # fmt: skip
            yield result.model_copy(update={"profile": Profile(regions=seen)})


def test_steering_ends_a_run_in_which_nothing_is_left_to_gain() -> None:
    runs = {on: searched(NearTheLimit(speed), steering=on, run=False) for on in (True, False)}
    stopped = {on: found.run() for on, found in runs.items()}
    assert "left in the regions worked on" in stopped[True]
    assert runs[True].meter.evaluations < runs[False].meter.evaluations
    assert runs[True].methods.steering.saved.lines(10, None)
    assert not runs[False].methods.steering.saved.lines(10, None)


@pytest.mark.parametrize("killed", [1, 5, 11, 23])
def test_a_run_that_is_taken_up_again_goes_as_it_would_have_gone(killed: int) -> None:
    """What was judged before the kill is taken from the record, everything else is bred as it would have been."""
    settings: dict[str, Any] = {"brain": Varying(), "evaluations": 40, "patience": 9}
    whole = searched(speed, **settings)
    assert len(whole.attempts) == 40
    before = {a.candidate.content_key: a.result for a in whole.attempts[:killed]}
    executor = ScriptedExecutor(speed)
    again = searched(executor, run=False, **settings)
    again.known, again.own = before, frozenset(before)
    again.run()
    assert story(again) == story(whole)
    assert again.uses == whole.uses
    assert len(executor.judged) == 40 - killed


def test_results_of_other_runs_come_in_the_order_of_breeding_too() -> None:
    """Some of a round known from another run: killed in the midst of it, the run still goes the same way."""
    settings: dict[str, Any] = {"evaluations": 20, "patience": 9}
    first = searched(speed, **settings)
    others = {a.candidate.content_key: a.result for a in first.attempts[1::2]}
    whole = searched(speed, run=False, **settings)
    whole.known = others
    whole.run()
    own = {
        a.candidate.content_key: a.result for a in whole.attempts[:7] if a.candidate.content_key not in others
    }
    again = searched(speed, run=False, **settings)
    again.known, again.own = others | own, frozenset(own)
    again.run()
    assert story(again) == story(whole)
