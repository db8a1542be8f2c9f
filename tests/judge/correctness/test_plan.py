"""Which cases a candidate is verified on: fewer where one takes long, all of them somewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith.judge.correctness.evidence import Case
from warpsmith.judge.correctness.input_families import FAMILIES, OWN
from warpsmith.judge.correctness.plan import CONFIRM, LARGE_BYTES, MAIN_SEARCH, Plan
from warpsmith.records import Graph, GraphInput, TensorSpec


def task(elements: int) -> Any:
    def variant(name: str, count: int) -> Any:
        spec = TensorSpec(shape=(count,), dtype="float32", stride=(1,))
        graph = Graph(
            inputs=(GraphInput(name="x", spec=spec, role="input", target="x"),),
            nodes=(),
            outputs=(),
            tree="0",
        )
        return SimpleNamespace(name=name, graph=graph)

    variants = (variant("main", elements), variant("ragged", 100), variant("small", 10))
    return SimpleNamespace(variants=variants, main=variants[0])


def families(cases: list[Case], variant: str) -> tuple[str, ...]:
    return tuple(c.family for c in cases if c.variant == variant)


FRESH = Case("main", OWN, 1)


@pytest.mark.parametrize("quick", [False, True])
def test_a_search_of_a_task_that_takes_long_is_shorter(quick: bool) -> None:
    small, large = (Plan(task(n), 7, quick).search(FRESH) for n in (1000, LARGE_BYTES // 4 + 1))
    assert families(small, "main") == (OWN, *MAIN_SEARCH)
    assert families(large, "main") == (() if quick else (OWN, *MAIN_SEARCH))
    assert bool(families(large, "ragged")) == (not quick)


def test_a_confirmation_of_a_task_that_takes_long_draws_a_family() -> None:
    assert families(Plan(task(1000), 7, True).confirm(FRESH, 3), "main") == (OWN, *CONFIRM)
    plan, drawn = Plan(task(LARGE_BYTES // 4 + 1), 7, True), set()
    for seed in range(20):
        cases = plan.confirm(FRESH, seed)
        own, first, second = families(cases, "main")
        assert (own, first) == (OWN, CONFIRM[0])
        assert families(cases, "ragged") == CONFIRM
        assert families(cases, "small") == tuple(FAMILIES)
        drawn.add(second)
    assert drawn == set(CONFIRM[1:])


def test_families_of_a_confirmation_are_scaled_by_the_own_values_of_it() -> None:
    for case in Plan(task(1000), 7, True).confirm(FRESH, 3):
        assert case.scaled_by == (FRESH.seed if case.variant == "main" and case.family != OWN else None)
