"""What was seen of units decides which of them are tuned, with which flags, and what is said when none is left."""

from __future__ import annotations

from itertools import count

from scripted_search import FACTS, LIMIT, ground_of, searched

from warpsmith.agents.base import Attempt, Situation
from warpsmith.records import Candidate, Profile, RegionProfile, Unit
from warpsmith.search.operators.edit import Edit
from warpsmith.search.operators.tune import Tune
from warpsmith.testing import FakeBrain, ScriptedExecutor, chain_task, scripted_result

TASK = chain_task()


def seen(unit: Unit, share: float) -> RegionProfile:
    return RegionProfile(
        region=unit.region.id, seconds=5e-5, least_bytes=1, flops=1, limit_share=share, bottleneck="memory",
        technique=unit.technique, values=unit.values,
    )  # fmt: skip


def parent(shares: tuple[float, ...]) -> Attempt:
    """A correct candidate with a unit for each node of the chain, each so near to its limit."""
    brain = FakeBrain()
    ideas = brain.hypotheses(Situation(TASK, "cpu", FACTS, LIMIT, (), 0), 2)
    units = tuple(brain.write_units(TASK.graph, idea, 1)[0] for idea in ideas)
    candidate = Candidate(task_id=TASK.id, target="cpu", units=units)
    profile = Profile(regions=tuple(seen(u, s) for u, s in zip(units, shares, strict=False)))
    return Attempt(candidate, scripted_result(candidate, 1.2).model_copy(update={"profile": profile}))


def ground(*attempts: Attempt, brain: FakeBrain | None = None):
    search = searched(lambda c: 1.0, brain=brain, run=False, islands=1)
    for attempt in attempts:
        search.attempts.append(attempt)
        search.methods.population.add(attempt, 0)
    return ground_of(search)


def changed_nodes(attempt: Attempt, candidates: list[Candidate]) -> list[str]:
    old = {u.code_key for u in attempt.candidate.units}
    return [u.region.nodes[0] for c in candidates for u in c.units if u.code_key not in old]


def tuned(attempt: Attempt, n: int) -> list[str]:
    return changed_nodes(attempt, [b.candidate for b in Tune().propose(ground(attempt), n)])


def edited(brain: FakeBrain, *attempts: Attempt) -> list[str]:
    return [b.candidate.lineage.reason for b in Edit().propose(ground(*attempts, brain=brain), 1)]


def test_the_unit_with_most_to_gain_is_tuned_most() -> None:
    for shares, node in (((0.85, 0.1), "n1"), ((0.1, 0.85), "n0")):
        places = tuned(parent(shares), 4)
        assert len(places) == 4
        assert places.count(node) >= 3


def test_units_near_their_limit_are_not_tuned() -> None:
    assert set(tuned(parent((0.95, 0.3)), 12)) == {"n1"}
    assert tuned(parent((0.95, 0.96)), 12) == []


def test_flags_are_asked_for_with_what_was_seen_and_none_twice() -> None:
    class Reader(FakeBrain):
        def flag_variants(self, unit: Unit, seen: RegionProfile | None = None) -> list[tuple[str, ...]]:
            return [("-O2",), ("-funroll-loops",)] if seen and seen.limit_share < 0.4 else [("-O1",)]

    far, close = parent((0.3, 0.35)), parent((0.5, 0.55))
    assert edited(Reader(), far) == ["flags -O2"]
    assert edited(Reader(), close) == ["flags -O1"]
    first = Edit().propose(ground(far, brain=Reader()), 1)[0].candidate
    judged = Attempt(first, scripted_result(first, 1.0))
    assert edited(Reader(), far, judged) == ["flags -funroll-loops"]


def test_a_search_that_ends_at_the_limit_says_so() -> None:
    class Profiled(ScriptedExecutor):
        def run(self, candidates):
            for candidate, result in zip(candidates, super().run(candidates), strict=True):
                profile = Profile(regions=tuple(seen(u, 0.95) for u in candidate.units))
                yield result.model_copy(update={"profile": profile})

    faster = count(1)  # so that it does not stop for want of progress
    search = searched(Profiled(lambda c: 1.0 + 0.1 * next(faster)), run=False, steering=True, worth=1e-9)
    assert search.run() == "no new idea left; near its limit: 2 regions"
