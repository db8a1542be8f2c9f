"""Outputs against their truth: who is over the budget by a little is judged again with many draws of noise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from warpsmith.judge.correctness.evidence import check_outputs
from warpsmith.judge.correctness.tolerance import APPEAL, Tolerance, Truth

ORACLE = np.linspace(1.0, 2.0, 4000).reshape(40, 100)
FEW, MANY = 1e-9, 1e-7  # noise of the one odd element, as few and as many draws find it
ODD = (3, 5)


def truth(noise: float, more: Any = None) -> Any:
    spread = np.full(ORACLE.shape, 1e-9)
    spread[ODD] = noise
    budget = Tolerance(Truth("float32", ORACLE.astype(np.float32), ORACLE, spread, 2))
    return SimpleNamespace(tolerances=[budget], float_inputs=(), _input_specs=(), more=more)


@pytest.mark.parametrize(
    ("off", "asked", "ok"), [(1e-7, 0, True), (6e-7, 1, True), (3e-6, 1, False), (1e-2, 0, False)]
)
def test_an_appeal(off: float, asked: int, ok: bool) -> None:
    again = []

    def more() -> Any:
        again.append(1)
        found = truth(MANY)
        found.remove = lambda: again.append("removed")
        return found

    made = ORACLE.astype(np.float32)
    made[ODD] += off
    found = check_outputs(truth(FEW, more), [made])
    assert (found[0], again) == (ok, [1, "removed"] * asked)
    assert check_outputs(truth(FEW), [made])[0] == (off == 1e-7)
    assert off != 1e-2 or found[3] > APPEAL


@pytest.mark.parametrize(("off", "asked", "ok"), [(4e-9, 1, True), (4e-9, 1, False), (1e-6, 0, False)])
def test_beside_a_kink_the_draws_may_all_be_zero(off: float, asked: int, ok: bool) -> None:
    """A ReLU's output: half of it exactly zero, none of it noisy but in many draws, where the reference may be right."""
    oracle = np.maximum(np.linspace(-1.0, 1.0, 4000), 0.0).reshape(40, 100)

    def known(noise: float, more: Any = None) -> Any:
        spread = np.where(oracle > 0, 1e-8, 0.0)
        spread[ODD] = noise
        budget = Tolerance(Truth("float32", oracle.astype(np.float32), oracle, spread, 2))
        remove = lambda: None  # noqa: E731
        return SimpleNamespace(
            tolerances=[budget], float_inputs=(), _input_specs=(), more=more, remove=remove
        )

    again = []

    def more() -> Any:
        again.append(1)
        return known(1e-9 if ok else 0.0)

    made = oracle.astype(np.float32)
    made[ODD] += off
    assert (check_outputs(known(0.0, more), [made])[0], len(again)) == (ok, asked)


def test_only_the_outputs_that_are_asked_for() -> None:
    made, wrong = ORACLE.astype(np.float32), ORACLE.astype(np.float32) + 1
    both = truth(FEW)
    both.tolerances *= 2
    assert not check_outputs(both, [made, wrong])[0]
    assert check_outputs(both, [made, wrong])[2].startswith("output 1: ")
    assert check_outputs(both, [made, wrong], only=[0])[0]
