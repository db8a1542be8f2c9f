"""What was seen of units decides which of them are tuned, with which flags, and what is said when none is left."""

from __future__ import annotations

import random
from itertools import count

from test_loop import make_search

from warpsmith.agents.base import Attempt, Situation
from warpsmith.agents.compile import CompileAgent
from warpsmith.agents.expert.facts import Facts
from warpsmith.records import Candidate, Profile, RegionProfile, Unit
from warpsmith.search.operators import tune
from warpsmith.search.tuner import HillClimb
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
    ideas = brain.hypotheses(Situation(TASK, "cpu", Facts(threads=2), None, (), 0), 2)  # type: ignore[arg-type]
    units = tuple(brain.write_units(TASK.graph, idea, 1)[0] for idea in ideas)
    candidate = Candidate(task_id=TASK.id, target="cpu", units=units)
    profile = Profile(regions=tuple(seen(u, s) for u, s in zip(units, shares, strict=False)))
    return Attempt(candidate, scripted_result(candidate, 1.5).model_copy(update={"profile": profile}))


def tuned(attempt: Attempt, brain: FakeBrain, n: int = 2, flags: int = 0) -> list[Candidate]:
    situation = Situation(TASK, "cpu", Facts(threads=2), None, (attempt,), 3)  # type: ignore[arg-type]
    bred = tune(situation, [attempt], HillClimb(), CompileAgent(brain), n, flags, random.Random(0))
    return [b.candidate for b in bred]


def changed_nodes(attempt: Attempt, candidates: list[Candidate]) -> set[str]:
    old = {u.code_key for u in attempt.candidate.units}
    return {u.region.nodes[0] for c in candidates for u in c.units if u.code_key not in old}


def test_the_unit_with_most_to_gain_is_tuned_first() -> None:
    for shares, node in (((0.8, 0.3), "n1"), ((0.3, 0.8), "n0")):
        attempt = parent(shares)
        assert changed_nodes(attempt, tuned(attempt, FakeBrain())) == {node}


def test_units_near_their_limit_are_not_tuned() -> None:
    one, both = parent((0.95, 0.3)), parent((0.95, 0.96))
    assert changed_nodes(one, tuned(one, FakeBrain(), n=12, flags=1)) == {"n1"}
    assert tuned(both, FakeBrain(), n=12, flags=1) == []


def test_flags_are_asked_for_with_what_was_seen_and_none_twice() -> None:
    class Reader(FakeBrain):
        def flag_variants(self, unit: Unit, seen: RegionProfile | None = None) -> list[tuple[str, ...]]:
            return [("-O2",), ("-funroll-loops",)] if seen and seen.limit_share < 0.4 else [("-O1",)]

    far, close = parent((0.3, 0.35)), parent((0.5, 0.55))
    assert tuned(far, Reader(), n=1, flags=1)[-1].lineage.reason == "flags -O2"
    assert tuned(close, Reader(), n=1, flags=1)[-1].lineage.reason == "flags -O1"
    first = tuned(far, Reader(), n=1, flags=1)[-1]
    judged = Attempt(first, scripted_result(first, 1.2))
    situation = Situation(TASK, "cpu", Facts(threads=2), None, (far, judged), 4)  # type: ignore[arg-type]
    again = tune(situation, [far], HillClimb(), CompileAgent(Reader()), 1, 1, random.Random(0))
    assert again[-1].candidate.lineage.reason == "flags -funroll-loops"


def test_a_search_that_ends_at_the_limit_says_so() -> None:
    class Profiled(ScriptedExecutor):
        def run(self, candidates):
            for candidate, result in zip(candidates, super().run(candidates), strict=True):
                profile = Profile(regions=tuple(seen(u, 0.95) for u in candidate.units))
                yield result.model_copy(update={"profile": profile})

    faster = count(1)  # so that it does not stop for want of progress
    search, _ = make_search(Profiled(lambda c: 1.0 + 0.1 * next(faster)))
    assert search.run() == "no new idea left; near its limit: 2 regions"
