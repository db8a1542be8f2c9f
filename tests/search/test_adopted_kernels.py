"""Kernels of authors in a search: tuned, crossed with the agents' own, on islands of their own, with credit; and what is lost without them."""

import pytest
from scripted_search import best, searched

from warpsmith.records import Candidate, Lineage, Tunable, Unit
from warpsmith.search.operators.adopt import number_islands
from warpsmith.testing import FakeBrain, chain_region, chain_task

TASK = chain_task()


def authored(author: str = "claude", node: int = 0, technique: str = "author") -> Candidate:
    unit = Unit(
        region=chain_region(TASK.graph, node, node), language="c++", source=f"// {technique}\n{technique}(UNROLL);", family="fake",
        technique=technique, tunables=(Tunable(name="UNROLL", domain=(1, 2, 4), value=1),),
    )  # fmt: skip
    lineage = Lineage(operator="given", agent="author", model=author)
    return Candidate(task_id=TASK.id, target="cpu", units=(unit,), lineage=lineage)


def speed(candidate: Candidate) -> float:
    """An author's unit is worth 1.5, twice as much with UNROLL = 4; one of the agents' on the second node 1.2."""
    gain = 1.0
    for unit in candidate.units:
        if unit.technique.startswith("author"):
            gain *= 3.0 if unit.values["UNROLL"] == 4 else 1.5
        elif unit.region.nodes == ("n1",):
            gain *= 1.2
    return gain


def winner(search) -> Candidate:
    return max(search.attempts, key=lambda a: a.speedup).candidate


def test_an_authors_kernel_is_tuned_and_the_lineage_names_both() -> None:
    begun = authored()
    search = searched(speed, adopted=[begun], without=("crossover", "rewrite", "predict"))
    tuned = [
        a for a in search.attempts
        if a.candidate.lineage.operator == "tune" and a.candidate.lineage.parents == (begun.id,)
    ]  # fmt: skip
    assert max(a.speedup for a in tuned) > speed(begun)
    assert {a.candidate.lineage.credit for a in tuned} == {("claude", "expert")}
    assert search.attempts[0].candidate.id == begun.id  # with the lineage that its author gave it
    untuned = searched(speed, adopted=[begun], without=("crossover", "rewrite", "predict", "tune"))
    assert best(untuned) < best(search)


def test_an_authors_unit_is_crossed_with_the_agents_and_the_lineage_names_both() -> None:
    search = searched(speed, adopted=[authored()], without=("predict", "rewrite"))
    crossed = [
        a
        for a in search.attempts
        if a.candidate.lineage.operator == "crossover" and len(a.candidate.units) == 2
    ]
    both = [a for a in crossed if any(u.technique == "author" for u in a.candidate.units)]
    assert both
    assert all(set(a.candidate.lineage.credit) == {"claude", "expert"} for a in both)
    assert best(search) == pytest.approx(3.6)
    apart = searched(speed, adopted=[authored()], without=("predict", "rewrite", "crossover", "seed"))
    assert best(apart) < best(search)


def test_without_the_operator_nothing_of_an_author_is_seen() -> None:
    search = searched(speed, adopted=[authored()], without=("adopt",))
    assert best(search) == pytest.approx(1.2)
    assert len(search.methods.population.islands) == 3
    assert {a.candidate.lineage.credit for a in search.attempts} == {("expert",)}


def test_each_author_has_an_island_that_others_reach_by_crossover_and_migration_only() -> None:
    kernels = [authored("claude"), authored("codex", technique="author2"), authored("claude", 1, "author3")]
    search = searched(speed, adopted=kernels, evaluations=3)
    islands = search.methods.population.islands
    assert [sorted(a.candidate.lineage.model for a in i.members.values()) for i in islands[3:]] == [
        ["claude", "claude"], ["codex"],
    ]  # fmt: skip
    assert number_islands([authored(f"a{i}") for i in range(5)], 6) == {
        "a0": 3,
        "a1": 4,
        "a2": 5,
        "a3": 3,
        "a4": 4,
    }


def test_adopted_kernels_that_were_judged_before_cost_no_evaluation() -> None:
    begun = authored()
    earlier = searched(speed, adopted=[begun], evaluations=1).attempts[0].result
    search = searched(speed, adopted=[begun], run=False, evaluations=1)
    search.known = {begun.content_key: earlier}
    search.run()
    assert len(search.attempts) == 2


def test_credit_goes_on_through_generations() -> None:
    first = Lineage(model="claude")
    second = Lineage().share_credit([first])
    assert second.credit == ("claude", "expert")
    assert Lineage(model="codex").share_credit([second, first]).credit == ("claude", "expert", "codex")
    assert second.author == "claude"
    assert "authors" not in Lineage().share_credit([Lineage()]).model_dump()
    assert Candidate.model_validate(authored().model_dump()).id == authored().id


class Silent(FakeBrain):
    def write_units(self, graph, hypothesis, m, situation=None):
        return []


def test_a_search_whose_agents_write_nothing_lives_on_an_authors_kernels() -> None:
    search = searched(speed, brain=Silent(), adopted=[authored()])
    assert best(search) == pytest.approx(3.0)
