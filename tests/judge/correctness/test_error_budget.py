"""A budget is the same wherever it is made: by numpy in the supervisor, by torch in the reference worker, in any pieces."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.judge.correctness import reference, tolerance
from warpsmith.judge.correctness.oracle import TruthTensors
from warpsmith.judge.correctness.reference import split_budget
from warpsmith.judge.correctness.tolerance import Tolerance, Truth, from_float64

SPECIAL = (0.0, -0.0, 1e-310, 3e38, 1e-30, float("inf"), float("nan"))


def made(dtype: str, oracle: np.ndarray, draws: int) -> TruthTensors:  # type: ignore[type-arg]
    """An output with that oracle; its reference misses it by a rounding, and far in one place."""
    exact = torch.from_numpy(oracle)
    native = exact.to(getattr(torch, dtype))
    if native.numel():
        native.view(-1)[-1] += 1
    generator = torch.Generator().manual_seed(1)
    noise = (
        exact.nan_to_num(1.0, 1.0, 1.0).abs()
        * 1e-7
        * torch.rand(exact.shape, generator=generator, dtype=torch.float64)
    )
    return TruthTensors(native, exact, noise, draws, False)


def in_numpy(dtype: str, truth: TruthTensors) -> Tolerance:
    native = truth.native.view(torch.uint16) if dtype == "bfloat16" else truth.native
    return Tolerance(Truth(dtype, native.numpy(), truth.oracle.numpy(), truth.noise.numpy(), truth.draws))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("piece", [7, 1 << 18])
@settings(max_examples=25, deadline=None)
@given(
    values=st.lists(st.one_of(st.floats(-1e4, 1e4), st.sampled_from(SPECIAL)), max_size=60),
    draws=st.sampled_from([1, 2, 8]),
)
def test_numpy_and_torch_agree(dtype: str, piece: int, values: list[float], draws: int) -> None:
    truth = made(dtype, np.array(values, dtype=np.float64), draws)
    ours = in_numpy(dtype, truth)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(reference.PIECE, "cpu", piece)
        elements, rule = split_budget(dtype, truth)
        patch.setattr(tolerance, "PIECE", piece)
        again = in_numpy(dtype, truth)
    assert rule is not None
    np.testing.assert_allclose(elements.numpy(), ours.element, rtol=1e-9)
    np.testing.assert_allclose(again.element, ours.element, rtol=1e-9)
    assert rule.steady == ours.steady == again.steady
    np.testing.assert_allclose([rule.rms, again.rms], ours.rms, rtol=1e-9)


def test_a_budget_that_was_made_elsewhere_judges_the_same() -> None:
    oracle = np.random.default_rng(0).normal(size=(64, 33))
    truth = made("float32", oracle, 2)
    elements, rule = split_budget("float32", truth)
    native = from_float64(oracle, "float32")
    given = Tolerance(Truth("float32", truth.native.numpy(), oracle, elements.numpy(), 2), rule)
    assert given.compare(native).ok
    assert in_numpy("float32", truth).compare(native) == given.compare(native)
    wrong = native.copy()
    wrong[3, 4] += 1e-3
    assert given.compare(wrong).rule == "budget"
    assert in_numpy("float32", truth).compare(wrong) == given.compare(wrong)


def test_what_must_agree_in_every_bit_needs_no_allowance() -> None:
    truth = made("float32", np.ones(4), 1)
    exact = TruthTensors(truth.native, truth.oracle, truth.noise, 1, True)
    assert split_budget("float32", exact) == (truth.noise, None)
    whole = TruthTensors(
        torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.int64), torch.zeros(2, 3), 1, False
    )
    assert split_budget("int64", whole)[1] is None
