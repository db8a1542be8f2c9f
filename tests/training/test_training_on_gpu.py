"""A training step on a GPU: a search of both halves, gradients against float64, attention without torch's fused kernels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
import torch
from torch import nn
from training_modules import Attention, Mixer

import warpsmith
from warpsmith.compiling import steps
from warpsmith.training.step import TrainingStep

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


MODULES: dict[str, Callable[[], nn.Module]] = {
    "mixer": lambda: Mixer(64),
    "attention": lambda: Attention(64, 4, groups=2, is_causal=True),
}


@pytest.mark.parametrize("name", MODULES)
def test_kernels_run_in_the_step_and_gradients_are_right(
    name: str, tmp_path: Path, right_counts_as_faster: Callable[[], AbstractContextManager[None]]
) -> None:
    torch.manual_seed(0)
    module = MODULES[name]().cuda()
    args = (torch.randn(8, 32, 64, device="cuda"),)
    config = warpsmith.Config(
        archive=tmp_path / "a.db", cache=tmp_path / "cache", baselines=("eager",), screening="off"
    )
    with right_counts_as_faster():
        fast = warpsmith.optimize_training(
            module, args, time=warpsmith.Budget(evaluations=4, seconds=None), seed=1, config=config
        )
    assert fast.result is not None
    won = [half for half, summary in fast.result.summaries.items() if summary.status == "win"]
    assert won == ["forward", "backward"]
    print(fast.report())
    step = TrainingStep(args, {}, 3)
    for expected, actual in zip(step.collect(module), step.collect(fast), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("groups", [1, 2])
def test_torchs_fused_attention_is_in_no_half(
    groups: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Efficient, flash and cuDNN attention return random states: no task could hold them. Without the math form one of them is there."""
    module = Attention(64, 2, groups=groups, is_causal=True).to("cuda", dtype)
    step = TrainingStep((torch.randn(4, 128, 64, device="cuda", dtype=dtype),), {}, 0)

    def list_fused() -> list[str]:
        nodes = [node for half in step.capture(module).values() for node in half.module.graph.nodes]
        return [str(node.target) for node in nodes if "scaled_dot_product" in str(node.target)]

    assert not list_fused()
    if groups == 1:  # whether torch has a fused kernel for grouped heads depends on the device
        monkeypatch.setattr(steps, "attention_in_math_form", nullcontext)
        assert list_fused()
