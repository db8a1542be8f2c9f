"""Which settings a tune job screens: all that there are, none twice, the same again after a kill."""

from __future__ import annotations

from warpsmith.authoring.tuning import propose_settings
from warpsmith.records import Candidate, Result, Tunable, Unit
from warpsmith.testing import chain_candidate, chain_region, chain_task, scripted_screening


def base(*domains: tuple[int, ...]) -> Candidate:
    """A candidate of one unit a domain."""
    task = chain_task(("aten.exp.default", "aten.neg.default"))
    units = tuple(
        Unit(
            region=chain_region(task.graph, i, i), language="c++", source=f"// {i}",
            tunables=(Tunable(name="T", domain=domain, value=domain[0]),),
        )
        for i, domain in enumerate(domains)
    )  # fmt: skip
    return Candidate(task_id=task.id, target="cpu", units=units)


def screen(candidate: Candidate) -> Result:
    """Larger values are faster; the values of several units add up."""
    return scripted_screening(candidate, 1.0 + sum(u.values["T"] for u in candidate.units))


def tune(candidate: Candidate, most: int) -> list[tuple[Candidate, Result]]:
    tried = [(candidate, screen(candidate))]
    while batch := propose_settings(candidate, tried, most, "climb"):
        tried += [(c, screen(c)) for c in batch]
    return tried


def test_every_setting_of_a_small_space_is_screened_once() -> None:
    tried = tune(base((1, 2, 4, 8, 16)), 40)
    assert sorted(c.units[0].values["T"] for c, _ in tried) == [1, 2, 4, 8, 16]


def test_no_more_than_asked_for() -> None:
    assert len(tune(base(tuple(range(1, 60))), 9)) == 10  # and the candidate as it was handed in


def test_units_are_tuned_in_turn_at_the_best_of_the_others() -> None:
    best = min(tune(base((1, 2, 4), (1, 3, 9)), 40), key=lambda pair: pair[1].timing.median_us)  # type: ignore[union-attr]
    assert [u.values["T"] for u in best[0].units] == [4, 9]


def test_the_same_results_lead_to_the_same_settings() -> None:
    first, second = (tune(base(tuple(range(1, 60))), 20) for _ in range(2))
    assert [c.content_key for c, _ in first] == [c.content_key for c, _ in second]


def test_a_child_names_its_parent_and_keeps_its_author() -> None:
    parent = base((1, 2))
    child = propose_settings(parent, [(parent, screen(parent))], 5, "climb")[0]
    assert (child.lineage.parents, child.lineage.operator, child.lineage.model) == (
        (parent.id,), "tune", parent.lineage.model,
    )  # fmt: skip


def test_without_tunables_there_is_nothing_to_tune() -> None:
    candidate = chain_candidate("a")
    assert propose_settings(candidate, [(candidate, scripted_screening(candidate, 1.0))], 5, "climb") == []
