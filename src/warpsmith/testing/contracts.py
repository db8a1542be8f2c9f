"""Contracts of tuners and executors, as classes of tests to inherit."""

from __future__ import annotations

import random

from ..executors.executor import Executor
from ..records import Candidate, Tunable, Unit
from ..search.tuner import Tuner
from .fakes import chain_graph, chain_region


class TunerContract:
    """The contract of every tuner. Override `make`."""

    def make(self) -> Tuner:
        raise NotImplementedError

    def unit(self) -> Unit:
        graph = chain_graph()
        tunables = tuple(Tunable(name=f"T{i}", domain=(1, 2, 4, 8), value=2) for i in range(3))
        return Unit(region=chain_region(graph, 0, 0), language="c++", source="//", tunables=tunables)

    def test_stays_in_the_domain_and_below_n(self) -> None:
        unit = self.unit()
        for changed in self.make().propose(unit, [], 5, random.Random(0)):
            assert all(t.value in t.domain for t in changed.tunables)
            assert changed.source == unit.source
        assert len(self.make().propose(unit, [], 5, random.Random(0))) == 5

    def test_never_proposes_what_was_tried_or_the_same_twice(self) -> None:
        unit, rng, tuner = self.unit(), random.Random(1), self.make()
        tried: list[tuple[dict[str, int], float]] = [(unit.values, 1.0)]
        for _ in range(12):
            proposed = [u.values for u in tuner.propose(unit, tried, 6, rng)]
            assert all(v not in [t for t, _ in tried] for v in proposed)
            tried += [(v, 1.0) for v in proposed]
        assert len({tuple(v.items()) for v, _ in tried}) == len(tried) == 64

    def test_a_seed_repeats(self) -> None:
        unit, tuner = self.unit(), self.make()
        assert tuner.propose(unit, [], 4, random.Random(3)) == tuner.propose(unit, [], 4, random.Random(3))


class ExecutorContract:
    """The contract of every executor. Override `make` and `candidates` (any number, some of which may fail)."""

    def make(self) -> Executor:
        raise NotImplementedError

    def candidates(self) -> list[Candidate]:
        raise NotImplementedError

    def test_one_result_a_candidate_in_order(self) -> None:
        candidates = self.candidates()
        results = list(self.make().run(candidates))
        assert [r.content_key for r in results] == [c.content_key for c in candidates]
        assert all(r.status == "ok" or r.reason for r in results)

    def test_nothing_in_nothing_out(self) -> None:
        assert list(self.make().run([])) == []
