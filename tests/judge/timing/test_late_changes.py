"""The last changes by indices are those that `perturb` makes of slices, whatever was chosen before."""

import random

import pytest
import torch

from warpsmith.judge.timing.input_perturbation import draw_perturbation
from warpsmith.judge.timing.late_changes import SlicedInput
from warpsmith.judge.timing.stopwatch import memory, perturb
from warpsmith.records import GraphInput, TensorSpec

SHAPES = [(1,), (3, 5), (6, 8), (61,), (4, 127), (1 << 10, 1 << 11), (5, 3, 7)]


def make_input(shape: tuple[int, ...], dtype: str) -> tuple[GraphInput, torch.Tensor]:
    tensor = (100 * torch.randn(shape)).to(getattr(torch, dtype))
    spec = TensorSpec(shape=shape, dtype=dtype, stride=tensor.stride())
    return GraphInput(name="x", spec=spec, role="input", target="x"), tensor


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_indices_change_what_slices_change(shape: tuple[int, ...], dtype: str) -> None:
    item, tensor = make_input(shape, dtype)
    flat, expected, rng, sliced = memory(tensor), memory(tensor.clone()), random.Random(3), None
    for _ in range(40):
        for _, *bounds in draw_perturbation(rng, [item])[1]:
            sliced = sliced or SlicedInput((flat, *bounds))
            sliced.choose(*bounds)
            sliced.change()
            perturb(expected, *bounds)
        assert torch.equal(flat, expected)
    assert sliced is not None or (dtype == "int64" and shape[0] < 4)


def test_loading_the_kernels_changes_nothing() -> None:
    _, tensor = make_input((6, 8), "float32")
    before = tensor.clone()
    SlicedInput((memory(tensor), 2, 48, 70)).load_kernels()
    assert torch.equal(tensor, before)
