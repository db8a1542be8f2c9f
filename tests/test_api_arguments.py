"""What `warpsmith.optimize` takes as example inputs, and for which device it searches."""

from __future__ import annotations

from collections import UserDict
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import warpsmith
from warpsmith.api import call_arguments, target_of
from warpsmith.errors import TaskError, UsageError

X = torch.ones(2, 2)


@pytest.mark.parametrize(
    ("inputs", "keywords", "args", "kwargs"),
    [
        (X, None, (X,), {}), ((X, 3), {"scale": 2.0}, (X, 3), {"scale": 2.0}), ([X], None, (X,), {}),
        ({"x": X}, {"scale": 2.0}, (), {"x": X, "scale": 2.0}), (UserDict(x=X), None, (), {"x": X}),
    ],
)  # fmt: skip
def test_a_tensor_a_sequence_or_a_mapping(inputs: Any, keywords: Any, args: Any, kwargs: Any) -> None:
    assert call_arguments(inputs, keywords) == (args, kwargs)


@pytest.mark.parametrize(("inputs", "keywords"), [(3, None), ("text", None), ({"x": X}, {"x": X})])
def test_other_example_inputs_are_refused_in_one_line(inputs: Any, keywords: Any) -> None:
    with pytest.raises(UsageError, match="example inputs") as caught:
        call_arguments(inputs, keywords)
    assert "\n" not in str(caught.value)


def test_the_target_is_the_device_of_the_module() -> None:
    module = torch.nn.Linear(2, 2)
    assert target_of(module, ((X,), {}), None) == "cpu"
    assert target_of(module, ((X,), {}), "cpu") == "cpu"
    for elsewhere in (torch.nn.Linear(2, 2, device="meta"), torch.nn.Linear(2, 2)):
        with pytest.raises(UsageError, match=r"put both on one device|must be on cpu or cuda"):
            target_of(elsewhere, ((X.to("meta"),), {}) if elsewhere.weight.is_cpu else ((X,), {}), None)
    with pytest.raises(UsageError, match="is on cpu and the target is cuda"):
        target_of(module, ((X,), {}), "cuda")


def test_module_spread_over_devices_of_one_kind_is_refused() -> None:
    """As over two GPUs: what each process sees is one device."""
    first, second = (SimpleNamespace(device=torch.device("cuda", index)) for index in (0, 1))
    spread = SimpleNamespace(parameters=lambda: [first], buffers=lambda: [second])
    with pytest.raises(UsageError, match="are on cuda:0 and cuda:1: put both on one device"):
        target_of(spread, ((), {}), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("module", "inputs", "said"),
    [
        (torch.nn.Linear(2, 2), (X, X, X), "the example inputs do not match forward"),
        (torch.nn.Identity(), (X, (x for x in ())), "the module takes a generator"),
        (torch.jit.script(torch.nn.Sequential(torch.nn.ReLU())), X, "the module is scripted"),
        (lambda x: (x * 2, torch.nn.Linear(1, 1)), X, "returns or keeps a .*Linear, which is a module"),
    ],
)
def test_what_cannot_be_taken_is_refused_before_any_work(module: Any, inputs: Any, said: str) -> None:
    """No file is named where the user has none."""
    with pytest.raises((TaskError, UsageError), match=said) as caught:
        warpsmith.optimize(module, inputs)
    assert "get_inputs" not in str(caught.value)
    assert "\n" not in str(caught.value)
