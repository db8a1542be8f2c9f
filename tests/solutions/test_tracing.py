"""The trace: operations, their arithmetic, and what was written behind torch's back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

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


def test_inference_mode_and_other_threads_are_seen() -> None:
    def infer() -> torch.Tensor:
        with torch.inference_mode():
            return torch.softmax(X, 1)

    assert traced(infer)["ops"] == traced(lambda: torch.softmax(X, 1))["ops"] == {"aten._softmax": 1}
    with ThreadPoolExecutor(2) as pool:
        pool.submit(int).result()
        found = traced(lambda: pool.submit(lambda: torch.nn.functional.linear(X, W.t())).result())
    assert found["ops"] == {"aten.mm": 1}
    assert found["flops"] == 2 * 8 * 16 * 4


def test_what_hides_from_the_mode_is_seen_by_the_profiler() -> None:
    def hide() -> torch.Tensor:
        return X if torch._C._len_torch_dispatch_stack() else torch.softmax(X, 1)

    assert traced(hide)["ops"] == {"aten._softmax": 1}


@pytest.mark.slow
def test_a_compiled_region_is_seen() -> None:
    compiled = torch.compile(lambda x: x.relu() + 1)
    with torch.no_grad():
        compiled(X)  # as the warm-up does
    assert traced(lambda: compiled(X))["compiled"]
    assert not traced(lambda: X.relu())["compiled"]
