"""Islands, migration, elites by behaviour, and pairs that complement each other."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_attempts import attempt, failure, unit

from warpsmith.search.population import Cell, Population, cell_of, complement


def made(speed: float, technique: str = "a", **values: int):
    return attempt(speed, [unit(technique=technique, **values)])


def test_a_cell_is_bottleneck_technique_and_cover() -> None:
    split = attempt(
        1.0, [unit((0, 0), "a"), unit((1, 2), "b")], us={0: 60.0, 1: 20.0}, shares={0: 0.3, 1: 0.95}
    )
    cell = cell_of(split)
    assert cell.technique == "fake/a + fake/b"
    assert cell.cover.split(" + ") == [u.region.id for u in split.candidate.units]
    assert cell.bottleneck == "memory"  # of the unit with most time: far from its limit, it moves too much
    short = attempt(1.0, us={0: 5.0}, shares={0: 0.1})
    assert cell_of(short).bottleneck == "overhead"
    assert cell_of(attempt(1.0)) == Cell("unknown", "fake/a", unit().region.id)


def test_failures_are_ignored() -> None:
    population = Population()
    population.add(failure(), 0)
    assert population.best() is None
    assert population.parents(0, 3, random.Random(0)) == []
    assert population.pairs(0, 3, random.Random(0)) == []


def test_elites_keep_a_slower_behaviour_among_the_parents() -> None:
    """One line of descent: ten settings that move too much, and a slower one whose threads wait for one another."""
    some = [
        attempt(2.0 + 0.1 * i, [unit(UNROLL=i)], us={0: 90.0}, shares={0: 0.3}, bottleneck="memory")
        for i in range(10)
    ]
    slow = attempt(1.0, [unit(UNROLL=11)], us={0: 90.0}, shares={0: 0.3}, bottleneck="compute")
    parents = {}
    for elites in (True, False):
        population = Population(islands=1, elites=elites, by="point")
        for one in [*some, slow]:
            population.add(one, 0)
        parents[elites] = population.parents(0, 2, random.Random(0))
    assert parents[True] == [some[-1], slow]
    assert parents[False] == [some[-1], some[-2]]


def test_parents_are_of_distinct_branches_first() -> None:
    population = Population(islands=1, elites=False, by="point")
    fast, faster, other = made(2.0, "a", UNROLL=1), made(3.0, "a", UNROLL=2), made(1.0, "b")
    for one in (fast, faster, other):
        population.add(one, 0)
    assert population.parents(0, 3, random.Random(0)) == [faster, other, fast]


def test_islands_breed_apart_until_a_migration() -> None:
    population = Population(islands=2, migrate_every=2, by="point")
    here, there = made(2.0, "a"), made(1.0, "b")
    population.add(here, 0)
    population.add(there, 1)
    rng = random.Random(0)
    assert population.parents(1, 5, rng) == [there]
    assert population.migrate(0) == []
    assert population.parents(1, 5, rng) == [there]
    assert population.migrate(1) == [(0, 1, here), (1, 0, there)]
    assert population.parents(1, 5, rng) == [here, there]
    assert population.migrate(3) == []  # both have both
    assert [(m.round, m.source, m.target) for m in population.migrations] == [(1, 0, 1), (1, 1, 0)]


def test_one_island_has_everybody_and_no_migration() -> None:
    one, several = Population(islands=1, by="point"), Population(islands=3, by="point")
    for population in (one, several):
        population.add(made(2.0, "a"), 0)
        population.add(made(1.0, "b"), 1)
    assert len(one.parents(0, 5, random.Random(0))) == 2
    assert len(several.parents(0, 5, random.Random(0))) == 1
    assert one.migrate(2) == []
    assert several.migrate(2) != []


def test_an_empty_island_is_founded_from_the_others() -> None:
    population = Population(islands=3)
    population.add(made(2.0), 0)
    assert population.parents(2, 1, random.Random(0)) == [population.best()]


def test_pairs_put_first_what_promises_most() -> None:
    """Region 0 is fast in one parent, region 1 in the other; a third adds nothing."""
    left = attempt(2.0, [unit((0, 0), "a"), unit((1, 2), "a")], us={0: 1.0, 1: 50.0})
    right = attempt(1.9, [unit((0, 0), "b"), unit((1, 2), "b")], us={0: 50.0, 1: 1.0})
    slow = attempt(1.0, [unit((0, 0), "c"), unit((1, 2), "c")], us={0: 60.0, 1: 60.0})
    population = Population(islands=1)
    for one in (slow, right, left):
        population.add(one, 0)
    assert population.pairs(0, 1, random.Random(3)) == [(left, right)]
    assert len(population.pairs(0, 9, random.Random(3))) == 3
    assert complement(left, right) == 49.0
    assert complement(left, slow) == 0.0


def test_a_unit_for_what_the_other_leaves_to_aten_complements_it() -> None:
    part, rest = attempt(2.0, [unit((0, 0))], us={0: 5.0}), attempt(1.5, [unit((1, 2))], us={0: 7.0})
    whole = attempt(1.5, [unit((0, 2))], us={0: 9.0})
    assert complement(part, rest) == 7.0
    assert complement(part, whole) == 0.0  # they overlap: it cannot be added


@given(
    st.lists(st.tuples(st.floats(0.1, 9.0), st.sampled_from("abc"), st.integers(0, 4), st.integers(0, 5)), max_size=25, unique_by=lambda one: one[1:3]),
    st.booleans(), st.integers(1, 4), st.integers(),
)  # fmt: skip
def test_whatever_happens_the_best_is_kept(added, elites: bool, islands: int, seed: int) -> None:
    population = Population(islands, migrate_every=1, elites=elites)
    for round, (speed, technique, value, island) in enumerate(added):
        population.add(made(speed, technique, V=value), island)
        population.migrate(round)
    first = {}
    for speed, technique, value, _ in added:
        first.setdefault((technique, value), speed)  # a content is judged once
    best = population.best()
    assert (best.speedup if best else None) == max(first.values(), default=None)
    assert sum(len(i.members) for i in population.islands) >= len(first)
    for number, island in enumerate(population.islands):
        parents = population.parents(number, 100, random.Random(seed))
        assert len({p.candidate.content_key for p in parents}) == len(parents)
        assert set(map(id, island.cells.values())) <= set(map(id, island.members.values()))


def test_the_summary_tells_islands_elites_and_arrivals() -> None:
    population = Population(islands=2, migrate_every=1)
    population.add(made(2.0, "a"), 0)
    population.migrate(0)
    first, second = population.summary()
    assert (first.candidates, first.best, first.arrived) == (1, 2.0, ())
    assert [e.technique for e in second.elites] == ["fake/a"]
    assert [(m.source, m.target) for m in second.arrived] == [(0, 1)]


@pytest.mark.parametrize(("islands", "every"), [(0, 3), (3, 0)])
def test_it_has_an_island_and_a_round(islands: int, every: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        Population(islands, every)
