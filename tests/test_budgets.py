"""Budgets as people write them in Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import warpsmith
from warpsmith import Budget, Config, api
from warpsmith.budgets import parse_budget
from warpsmith.errors import UsageError


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("2m", 120.0), ("90s", 90.0), (" 1.5 H ", 5400.0), ("45", 45.0), (30, 30.0), (0.5, 0.5)],
)
def test_a_budget_that_is_a_time_is_limited_by_nothing_else(written: str | float, seconds: float) -> None:
    assert parse_budget(written) == Budget(evaluations=None, seconds=seconds)


def test_a_record_is_taken_as_it_is_and_none_is_the_usual_one() -> None:
    record = Budget(evaluations=3, seconds=None)
    assert parse_budget(record) is record
    assert parse_budget(None) == Budget()


NO_TIMES = ["soon", "", "2 fortnights", "-5s", 0, "0", -1.0, math.nan, math.inf, True, {"seconds": 5}, ["2m"]]


@pytest.mark.parametrize("written", NO_TIMES)
def test_anything_else_is_refused_in_one_line_that_says_what_to_give(written: Any) -> None:
    with pytest.raises(UsageError) as refused:
        parse_budget(written)
    (line,) = str(refused.value).splitlines()
    assert repr(written) in line
    assert '"2m"' in line


@pytest.mark.parametrize(
    "call",
    [
        lambda: warpsmith.optimize(abs, [1.0], budget="soon"),  # type: ignore[arg-type]
        lambda: warpsmith.optimize_task("no/such/task.py", budget="soon"),
        lambda: warpsmith.run_suite("no such suite", budget="soon"),
    ],
)
def test_each_search_refuses_it_before_anything_is_loaded(call: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="budget='soon'"):
        call()


def test_a_search_of_a_task_gets_the_budget_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []

    class Run:
        def __init__(self, task: Any, target: Any, budget: Budget, *_: Any, **__: Any) -> None:
            seen.append(budget)

        def play(self) -> Any:
            return SimpleNamespace(summary=None)

    monkeypatch.setattr(api, "Run", Run)
    monkeypatch.setattr(api, "_load", lambda *_: None)
    monkeypatch.setattr(api, "make_target", lambda *_: None)
    config = Config(archive=tmp_path / "archive.db", cache=tmp_path)
    api.optimize_task("task.py", budget="2m", config=config)
    assert seen == [Budget(evaluations=None, seconds=120.0)]
