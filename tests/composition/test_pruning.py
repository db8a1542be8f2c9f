"""Pruning: every part goes in, and only what helps together stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from warpsmith.composition.parity import Parity
from warpsmith.composition.pruning import ORIGINAL, Pruned, prune
from warpsmith.composition.side_by_side import Blocks

SAVINGS = {"mlp": 0.3, "norm": 0.1, "head": 0.05}


def play(
    seconds: Mapping[str, float],
    wrong: Sequence[str] = (),
    clash: Sequence[str] = (),
    idle: Sequence[str] = (),
) -> Pruned:
    """`seconds`: that each part takes away from the 100 of the original."""

    def time_of(names: Sequence[str]) -> float:
        return 100 - sum(seconds[name] for name in names)

    def check(names: Sequence[str]) -> Parity:
        bad = [n for n in names if n in wrong] or (clash if set(clash) <= set(names) else [])
        return Parity(ok=not bad, error=2.0 if bad else 0.5, detail="bad" if bad else "")

    def measure(sets: Mapping[str, Sequence[str]]) -> Blocks:
        return Blocks({name: [[time_of(names)]] * 6 for name, names in {**sets, ORIGINAL: ()}.items()})

    return prune(SAVINGS, check, measure, lambda name: "another shape" if name in idle else "")


def test_all_stay_where_all_help() -> None:
    outcome = play({"mlp": 30, "norm": 10, "head": 5})
    assert outcome.names == ("mlp", "norm", "head")
    assert outcome.speedup is not None
    assert outcome.speedup.median == pytest.approx(100 / 55)
    assert outcome.speedup.low > 1
    assert outcome.parity is not None
    assert outcome.dropped == {}


def test_part_without_which_the_model_is_no_slower_goes() -> None:
    outcome = play({"mlp": 30, "norm": -2, "head": 5})
    assert outcome.names == ("mlp", "head")
    assert "not slower without it" in outcome.dropped["norm"]


def test_wrong_part_goes_and_the_others_stay() -> None:
    outcome = play({"mlp": 30, "norm": 10, "head": 5}, wrong=["mlp"])
    assert outcome.names == ("norm", "head")
    assert "answers: bad" in outcome.dropped["mlp"]


def test_parts_that_are_wrong_together_lose_the_least() -> None:
    outcome = play({"mlp": 30, "norm": 10, "head": 5}, clash=["mlp", "head"])
    assert outcome.names == ("mlp", "norm")
    assert "beside the others" in outcome.dropped["head"]


def test_idle_part_goes_with_its_reason() -> None:
    outcome = play({"mlp": 30, "norm": 10, "head": 5}, idle=["norm"])
    assert outcome.dropped == {"norm": "its kernels never ran: another shape"}


def test_nothing_stays_where_nothing_surely_helps() -> None:
    """One percent is less than two processes differ by."""
    outcome = play({"mlp": 0.5, "norm": 0.3, "head": 0.2})
    assert (outcome.names, outcome.speedup, outcome.parity) == ((), None, None)
    assert set(outcome.dropped) == set(SAVINGS)


def test_slow_parts_all_go() -> None:
    assert play({"mlp": -3, "norm": -1, "head": -2}).names == ()
