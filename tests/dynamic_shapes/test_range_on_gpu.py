"""Kernels for a range of sizes on a GPU: a size that was never seen is built there, compared with float64, and answered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from torch.export import Dim

import warpsmith
from warpsmith.dynamic_shapes.dynamic_module import DynamicModule
from warpsmith.dynamic_shapes.measuring import RangeMeter
from warpsmith.records import Ratio

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


class NormGate(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * torch.sigmoid(x)


@torch.no_grad()
def test_sizes_of_the_range_are_right_whoever_answers(
    tmp_path: Path, right_counts_as_faster: Callable[[], AbstractContextManager[None]]
) -> None:
    module = NormGate(256).cuda()
    config = warpsmith.Config(
        archive=tmp_path / "a.db", cache=tmp_path / "cache", baselines=("eager",), screening="off"
    )
    twice = Ratio(baseline="the original", median=2.0, low=1.9, high=2.1)
    with right_counts_as_faster(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(RangeMeter, "_compare", lambda meter, ready, tensors: dict.fromkeys(ready, twice))
        fast = warpsmith.optimize(
            module, (torch.randn(64, 256, device="cuda"),), dynamic_shapes={"x": {0: Dim("batch", min=2, max=4096)}},
            budget=warpsmith.Budget(evaluations=4, seconds=None), seed=1, config=config,
        )  # fmt: skip
    assert isinstance(fast, DynamicModule)
    assert fast.summary is not None
    assert fast.summary.status == "win"
    for rows in (2, 11, 64, 1021, 4096):
        x = torch.randn(rows, 256, device="cuda")
        torch.testing.assert_close(fast(x), module(x))  # the original's answer, while kernels are built
        fast.prepare(x)
        torch.testing.assert_close(fast(x), module(x))
    assert fast.fast_calls >= 5
