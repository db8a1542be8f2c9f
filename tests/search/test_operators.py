"""Each operator: what it breeds, and that a search without it comes to something else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from scripted_search import Varying, best, ground_of, operators, searched

from warpsmith.agents.base import Attempt, Situation
from warpsmith.errors import UsageError
from warpsmith.records import Candidate, Graph, Hypothesis, Region, Result, Tunable, Unit
from warpsmith.search.confirmation import confirm
from warpsmith.search.operators import TransferSeed
from warpsmith.search.operators.crossover import Crossover
from warpsmith.search.operators.edit import Edit
from warpsmith.search.operators.simplify import code_size
from warpsmith.search.operators.tune import Tune
from warpsmith.testing import FakeBrain, ScriptedExecutor, chain_graph, chain_region

REST = ("rewrite", "edit", "tune", "crossover", "restart")  # but for seeds and simplifications


def techniques(candidate: Candidate) -> list[str]:
    return [u.technique for u in candidate.units]


def by_technique(**gains: float):
    return lambda c: 1.0 + sum(gains.get(t, 0.0) for t in techniques(c))


def without(*names: str) -> dict[str, tuple[str, ...]]:
    return {"without": names}


# ---------------------------------------------------------------- seed, rewrite, edit, tune


def test_seed_fills_whole_cuts_in_the_first_round() -> None:
    def first(**settings) -> int:
        return max(
            len(a.candidate.units)
            for a in searched(lambda c: 1.1, **settings).attempts
            if not a.candidate.lineage.round
        )

    assert first() == 2
    assert first(**without("seed", "predict")) == 1


def test_rewrite_reaches_techniques_that_no_seed_has() -> None:
    speed = by_technique(c=2.0)
    assert best(searched(speed, **without("restart"))) >= 3.0
    assert best(searched(speed, **without("restart", "rewrite"))) == pytest.approx(1.0)


def test_edit_changes_one_unit_and_says_why() -> None:
    speed = by_technique(a_plus=1.0, b_plus=1.0)
    found = searched(speed, brain=Varying())
    assert "edit" in operators(found)
    assert best(found) > 2.5
    assert best(searched(speed, brain=Varying(), **without("edit"))) == pytest.approx(1.0)
    made = next(a.candidate for a in found.attempts if "a_plus" in techniques(a.candidate))
    assert made.lineage.reason == "it is slow; therefore a→a_plus"
    assert len(made.lineage.parents) == 1


def test_a_brain_that_cannot_edit_gets_flags_tried() -> None:
    found = searched(lambda c: 1.5)
    flagged = [a.candidate for a in found.attempts if a.candidate.lineage.operator == "edit"]
    assert flagged
    assert all(c.lineage.reason == "flags -funroll-loops" for c in flagged)


def test_tune_reaches_values_that_nothing_else_does() -> None:
    def speed(candidate: Candidate) -> float:
        return 1.0 + sum(u.values["UNROLL"] * u.values["BLOCK"] / 64 for u in candidate.units)

    assert best(searched(speed, **without("crossover"))) > 10
    assert best(searched(speed, **without("crossover", "tune"))) == pytest.approx(3.0)


def test_tune_keeps_to_its_places() -> None:
    found = searched(lambda c: 1.5, evaluations=6)
    for n in (1, 2, 5):
        assert len(Tune().propose(ground_of(found), n)) == n


# ---------------------------------------------------------------- crossover


class Sided(ScriptedExecutor):
    """Region 0 is only fast with `a`, region 1 only with `b`: no single idea has both."""

    def __init__(self) -> None:
        good = {"n0": "a", "n1": "b"}
        super().__init__(lambda c: 1.0 + 0.1 * sum(good[u.region.nodes[0]] == u.technique for u in c.units))

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        good = {"n0": "a", "n1": "b"}
        for candidate, result in zip(candidates, super().run(candidates), strict=True):
            us = {
                u.region.id: 1.0 if good[u.region.nodes[0]] == u.technique else 50.0 for u in candidate.units
            }
            assert result.timing is not None
            timing = result.timing.model_copy(update={"unit_us": us})
            yield result.model_copy(update={"timing": timing})


def test_crossover_joins_units_that_were_faster_alone() -> None:
    settings = {"evaluations": 12, "brain": FakeBrain(("a", "b"))}
    rest = ("rewrite", "edit", "tune", "restart", "simplify")
    assert best(searched(Sided(), **settings, **without(*rest))) == pytest.approx(1.2)
    assert best(searched(Sided(), **settings, **without(*rest, "crossover"))) == pytest.approx(1.1)


def valued(found, *values: dict[str, int]) -> None:
    """Judges the first candidate's first unit at these values."""
    first = found.attempts[0].candidate
    for chosen in values:
        tunables = tuple(t.model_copy(update={"value": chosen[t.name]}) for t in first.units[0].tunables)
        unit = first.units[0].model_copy(update={"tunables": tunables})
        candidate = first.model_copy(update={"units": (unit,)})
        (result,) = found.executor.run([candidate])
        found.attempts.append(Attempt(candidate, result))
        found.methods.population.add(found.attempts[-1], 0)


def test_crossover_mixes_the_values_of_one_source() -> None:
    found = searched(lambda c: 1.5, run=False, elites=False)
    found.methods.operators = {}
    bred = searched(lambda c: 1.5, evaluations=1).attempts[:1]
    found.attempts.append(bred[0])
    valued(found, {"UNROLL": 4, "BLOCK": 64}, {"UNROLL": 1, "BLOCK": 128})
    mixed = [
        b.candidate
        for b in Crossover().propose(ground_of(found), 20)
        if b.candidate.lineage.reason.startswith("of both")
    ]
    assert {tuple(c.units[0].values.values()) for c in mixed} <= {(4, 128), (1, 64)}
    assert mixed
    assert all(len(c.lineage.parents) == 2 for c in mixed)


def test_crossover_asks_once_for_two_sources_to_be_combined() -> None:
    class Counting(Varying):
        asked = 0

        def combine_units(self, situation, parents, m):
            self.asked += 1
            assert len({u.region.id for _, u in parents}) == 1
            return super().combine_units(situation, parents, m)

    brain = Counting()
    found = searched(by_technique(a=0.1, b=0.2), brain=brain, **without("crossover"), islands=1)
    brain.asked = 0
    bred = Crossover().propose(ground_of(found), 50)
    combined = [b.candidate for b in bred if any("_and_" in t for t in techniques(b.candidate))]
    assert len(combined) == brain.asked == 1
    Crossover().propose(replace(ground_of(found), free=True), 50)
    assert brain.asked == 2, "this brain asks no model, so that it may be asked at any time"
    found.team.synthesis.asks = True
    Crossover().propose(replace(ground_of(found), free=True), 50)
    assert brain.asked == 2


def test_edits_that_cost_a_question_keep_to_what_was_advised() -> None:
    found = searched(lambda c: 1.5, brain=Varying(), **without("edit"))
    found.team.synthesis.asks = True
    for allowed, wanted in ((0, set()), (1, {"synthesis"})):
        bred = Edit().propose(ground_of(found, edits=allowed), 4)
        made = [b.candidate.lineage.agent for b in bred]
        assert made.count("synthesis") == allowed
        assert set(made) - {"compile"} == wanted


# ---------------------------------------------------------------- transplant


class Known(FakeBrain):
    """Writes `z` when it is asked for it, and never thinks of it."""

    def write_units(
        self, graph: Graph, hypothesis: Hypothesis, m: int, situation: Situation | None = None
    ) -> list[Unit]:
        units = super().write_units(graph, hypothesis, m, situation)
        return [u.model_copy(update={"tunables": _at(u, hypothesis.values)}) for u in units]


def _at(unit: Unit, values: dict[str, int]) -> tuple[Tunable, ...]:
    return tuple(t.model_copy(update={"value": values.get(t.name, t.value)}) for t in unit.tunables)


def stones_of(technique: str, alike: float = 1.0, **fields: object):
    def transfer_seeds(region: Region) -> Sequence[TransferSeed]:
        there = chain_region(chain_graph(("aten.exp.default",), shape=(64, 64)), 0, 0)
        there = there.model_copy(update={"signature": region.signature if alike == 1.0 else "other"})
        tunables = (Tunable(name="UNROLL", domain=(1, 2, 4), value=4),)
        unit = Unit(
            region=there, language="c++", source=f"// {technique}\n{technique}(UNROLL);", tunables=tunables,
            family="fake", technique=technique,
        )  # fmt: skip
        return [TransferSeed(unit.model_copy(update=fields), "origin", alike, 3.0)]

    return transfer_seeds


@pytest.mark.parametrize("alike", [1.0, 0.5])
def test_transplant_tries_what_was_good_elsewhere_after_the_first_guess(alike: float) -> None:
    def first_good(**settings) -> int | None:
        found = searched(by_technique(z=4.0), brain=Known(), transfer_seeds=stones_of("z", alike), **settings)
        return next((i for i, a in enumerate(found.attempts) if "z" in techniques(a.candidate)), None)

    assert first_good() == 1
    assert first_good(transplant=False) is None
    found = searched(by_technique(z=4.0), brain=Known(), transfer_seeds=stones_of("z", alike))
    first = found.attempts[1].candidate
    assert techniques(first) == ["z", "z"]
    assert all(u.values["UNROLL"] == 4 for u in first.units), "it starts from the transfer_seed's values"
    assert first.lineage.parents == ("origin",)
    assert "another task" in first.lineage.reason


class Unable(FakeBrain):
    def write_units(self, graph, hypothesis, m, situation=None):
        known = hypothesis.technique in self.techniques
        return super().write_units(graph, hypothesis, m, situation) if known else []


def test_a_source_that_nobody_can_write_is_moved_over_when_it_is_general() -> None:
    def moved(**transfer_seed: object) -> set[str]:
        found = searched(by_technique(z=4.0), brain=Unable(), transfer_seeds=stones_of("z", **transfer_seed))
        return {u.source for a in found.attempts for u in a.candidate.units if u.technique == "z"}

    assert moved() == {"// z\nz(UNROLL);"}
    assert moved(requires=("in0_shape[0] == 64",)) == set()
    assert moved(alike=0.5) == set()


def test_a_transplant_is_judged_like_any_other() -> None:
    found = searched(
        lambda c: "incorrect" if "z" in techniques(c) else 1.2, brain=Known(), transfer_seeds=stones_of("z")
    )
    wrong = [a for a in found.attempts if "z" in techniques(a.candidate)]
    assert wrong
    assert found.methods.population.best() not in wrong


# ---------------------------------------------------------------- simplify, restart


class Idle(ScriptedExecutor):
    """The unit for n1 saves nothing: alone it takes as long as ATen; without it all is as fast."""

    def __init__(self) -> None:
        super().__init__(lambda c: 2.0 if any(u.region.nodes == ("n0",) for u in c.units) else 0.9)

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate, result in zip(candidates, super().run(candidates), strict=True):
            assert result.timing is not None
            us = {u.region.id: 10.0 if u.region.nodes == ("n0",) else 40.0 for u in candidate.units}
            yield result.model_copy(update={"timing": result.timing.model_copy(update={"unit_us": us})})


def test_simplify_drops_a_unit_that_saves_nothing_and_it_wins() -> None:
    def winner(**settings) -> Attempt:
        found = searched(
            Idle(), **settings, evaluations=30, islands=1, without=("rewrite", "restart", "tune")
        )
        confirmed = confirm(found, 1, lambda a: None)
        assert confirmed is not None
        return confirmed

    assert [u.region.nodes for u in winner().candidate.units] == [("n0",)]
    assert len(winner(simplify=False).candidate.units) == 2


def test_of_equals_the_shorter_is_confirmed_and_a_slower_one_is_not() -> None:
    def winner(short: float, **settings) -> int:
        def speed(candidate: Candidate) -> float:
            return short if len(candidate.units) == 1 else 2.0

        found = searched(speed, brain=Single(), evaluations=8, **settings, **without(*REST))
        confirmed = confirm(found, 1, lambda a: None)
        assert confirmed is not None
        return len(confirmed.candidate.units)

    assert winner(1.995) == 1
    assert winner(1.9) == 2
    assert winner(1.995, simplify=False) == 2


class Single(FakeBrain):
    """Two cuts: both nodes, or the first alone."""

    def plans(self, graph, facts):
        both = tuple(chain_region(graph, i, i) for i in range(2))
        return [both, both[:1]]


def test_code_is_counted_without_comments_and_blanks() -> None:
    unit = searched(lambda c: 1.0, evaluations=1).attempts[0].candidate.units[0]
    candidate = Candidate(task_id="t", target="cpu", units=(unit,))

    def size(**fields: object) -> int:
        return code_size(candidate.model_copy(update={"units": (unit.model_copy(update=fields),)}))

    assert size(source=f"// a comment\n\n{unit.source} /* more */") == size()
    assert size(source=unit.source + "x") == size() + 1
    assert size(flags=("-O2",)) > size() > size(tunables=())


class Hidden(FakeBrain):
    """A third cut, as one region, that the first round has no place for, and no hypothesis of a round that knows of others."""

    def plans(self, graph, facts):
        single = [(chain_region(graph, i, i),) for i in range(2)]
        return [*single, (chain_region(graph, 0, 1),)]

    def hypotheses(self, situation, k):
        regions = [plan[0] for plan in self.plans(situation.graph, situation.facts)]
        seeded = {u.region.id for a in situation.attempts for u in a.candidate.units}
        offered = [r for r in regions if k > 100 or r.id in seeded or not seeded]
        return [
            Hypothesis(
                region=r, family="fake", technique=t, bottleneck="memory", expected_gain=1.5, evidence=("because",)
            )
            for t in self.techniques
            for r in offered
        ][:k]  # fmt: skip


def test_restart_seeds_a_cut_that_was_never_tried_when_nothing_gains() -> None:
    def speed(candidate: Candidate) -> float:
        return 3.0 if any(len(u.region.nodes) == 2 for u in candidate.units) else 1.5

    found = searched(speed, brain=Hidden(), evaluations=100)
    restarted = [a for a in found.attempts if a.candidate.lineage.operator == "restart"]
    assert max(a.speedup for a in restarted) == best(found) == 3.0
    assert best(searched(speed, brain=Hidden(), evaluations=100, **without("restart"))) == 1.5


def test_an_operator_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match="no operator named mutate; known: predict, transplant, seed"):
        searched(lambda c: 1.0, **without("mutate"))
