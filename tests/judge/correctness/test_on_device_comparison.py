"""What the device finds right the host finds right, with the same shares; what is wrong the device leaves to the host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.judge.correctness.error_budget import ErrorBudget, Piece, compute_error_budget
from warpsmith.judge.correctness.on_device_comparison import compare_on_device
from warpsmith.judge.correctness.oracle import TruthTensors
from warpsmith.judge.correctness.tolerance import Tolerance, Truth

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}


def judged(dtype: str, truth: TruthTensors) -> tuple[torch.Tensor, ErrorBudget]:
    """What each element may miss by, and the whole."""
    made: list[torch.Tensor] = []
    oracle = truth.oracle.reshape(-1)
    ideal = oracle.to(truth.native.dtype).double() if dtype in ("float16", "bfloat16") else None
    piece = Piece(truth.native.double().reshape(-1), oracle, truth.noise.reshape(-1), ideal)
    rule = compute_error_budget(torch, dtype, truth.draws, lambda: iter([piece]), made.append)
    return torch.cat(made).reshape(truth.oracle.shape), rule


def host(dtype: str, truth: TruthTensors, element: torch.Tensor, rule: ErrorBudget) -> Tolerance:
    def numpy(tensor: torch.Tensor) -> np.ndarray:
        return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()

    known = Truth(dtype, numpy(truth.native), truth.oracle.numpy(), element.numpy(), truth.draws, truth.exact)
    return Tolerance(known, rule)


@pytest.mark.parametrize("dtype", DTYPES)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([1e-9, 1e-7, 1e-6, 1e-4, 1e-2]), lone=st.booleans())
@settings(max_examples=25, deadline=None)
def test_both_sides_say_the_same(dtype: str, seed: int, size: float, lone: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    oracle = torch.randn(40, 30, generator=generator, dtype=torch.float64)
    native = oracle.to(DTYPES[dtype])
    noise = oracle.abs() * torch.finfo(DTYPES[dtype]).eps * 0.3
    truth = TruthTensors(native, oracle, noise, 2, False)
    element, rule = judged(dtype, truth)
    off = torch.zeros_like(oracle)
    off[7 if lone else slice(None)] = size
    actual = (oracle + off).to(DTYPES[dtype])
    there = compare_on_device(dtype, replace(truth, noise=element), rule, actual)
    raw = (actual.view(torch.uint16) if dtype == "bfloat16" else actual).numpy()
    here = host(dtype, truth, element, rule).compare(raw)
    assert (there is not None) == here.ok
    if there is not None:
        assert there == pytest.approx((here.error, here.ulp), rel=1e-9)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.0])
def test_what_is_not_surely_right_is_for_the_host(value: float) -> None:
    oracle = torch.linspace(-2, 2, 100, dtype=torch.float64)
    truth = TruthTensors(oracle.float(), oracle, oracle.abs() * 1e-8, 2, False)
    element, rule = judged("float32", truth)
    right, truth = oracle.float(), replace(truth, noise=element)
    assert compare_on_device("float32", truth, rule, right) is not None
    wrong = right.clone()
    wrong[50] = value
    assert compare_on_device("float32", truth, rule, wrong) is None
    assert compare_on_device("float32", truth, rule, right[:99]) is None
    assert compare_on_device("float32", truth, None, right) is None
    never = TruthTensors(wrong, oracle, truth.noise, 2, False)
    if value != 1.0:  # the reference itself is not finite: the host knows what that means
        assert compare_on_device("float32", never, rule, wrong) is None


def test_integers_and_exact_results_must_be_equal_and_bools_are_for_the_host() -> None:
    whole = torch.arange(12).reshape(3, 4)
    truth = TruthTensors(whole, whole, torch.empty((0, 3, 4), dtype=torch.int64), 1, True)
    assert compare_on_device("int64", truth, None, whole.clone()) == (0.0, 0.0)
    assert compare_on_device("int64", truth, None, whole + 1) is None
    exact = TruthTensors(whole.float(), whole.double(), torch.zeros(3, 4).double(), 1, True)
    assert compare_on_device("float32", exact, None, whole.float()) == (0.0, 0.0)
    assert compare_on_device("float32", exact, None, whole.float() + 1e-6) is None
    bools = TruthTensors(whole > 3, whole > 3, torch.empty((0, 3, 4), dtype=torch.bool), 1, True)
    assert compare_on_device("bool", bools, None, whole > 3) is None
