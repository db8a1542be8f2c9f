"""The trace: operations, their arithmetic, and what was written behind torch's back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
import torch

from warpsmith.solutions.tracing import trace

X, W = torch.randn(8, 16), torch.randn(16, 4)


def behind(tensor: torch.Tensor) -> torch.Tensor:
    """As native code writes: torch does not see it."""
    ctypes.memset(tensor.data_ptr(), 0, tensor.numel() * tensor.element_size())
    return tensor


def traced(call: Callable[[], object]) -> dict[str, object]:
    return trace(call, [X, W], cuda=False)


def test_counts_operations_and_flops() -> None:
    found = traced(lambda: (X @ W).relu_() * 2)
    assert found["ops"] == {"aten.mm": 1, "aten.relu": 1, "aten.mul": 1}
    assert found["flops"] == 2 * 8 * 16 * 4 + 2 * 8 * 4
    assert found["foreign"] == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.empty_like(X).copy_(X).t().contiguous(),
        lambda: torch.zeros(8).add_(1)[2:],
        lambda: torch.mm(X, W, out=torch.empty(8, 4)),
        lambda: torch.cat([X, X]).split(3)[1],
        lambda: torch.nn.functional.softmax(X, 1).max(1),
        lambda: X,
    ],
)
def test_torch_alone_leaves_nothing_foreign(call: Callable[[], object]) -> None:
    assert traced(call)["foreign"] == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: behind(torch.empty(8, 4)),
        lambda: behind(torch.empty(8, 4)).relu_(),
        lambda: behind(X @ W),  # in place, after torch
        lambda: behind(X @ W) + 1,
        lambda: behind(torch.ones(1 << 20)[5:]),
        lambda: torch.from_numpy(X.numpy() @ W.numpy()),
    ],
)
def test_what_others_write_is_noticed(call: Callable[[], object]) -> None:
    assert int(str(traced(call)["foreign"])) > 0


def test_an_operation_of_its_own_is_named_and_looked_into() -> None:
    library = torch.library.Library("warpsmith_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    found = traced(lambda: torch.ops.warpsmith_test.twice(X))
    assert found["own_ops"] == ["warpsmith_test.twice"]
    assert found["ops"] == {"aten.mul": 1}
    assert found["foreign"] == 0
