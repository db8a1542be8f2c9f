"""Parity of a whole run: honest differences pass, wrong answers do not."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from warpsmith.composition.outputs import MOST_ELEMENTS, collect_outputs
from warpsmith.composition.parity import find_truth
from warpsmith.errors import UsageError


def make_model(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return (
        nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 16)).to(dtype).eval()
    )


def make_run(dtype: torch.dtype = torch.float32, tokens: bool = False):
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(1)).to(dtype)

    def run(model: nn.Module):
        with torch.no_grad():
            logits = model(x)
        return logits.argmax(-1) if tokens else {"loss": logits.float().logsumexp(-1).mean().item()}

    return run


class OtherOrder(nn.Module):
    """The same products, added up in another order."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        return x[..., half:] @ self.weight[:, half:].T + x[..., :half] @ self.weight[:, :half].T + self.bias


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("with_oracle", [True, False])
def test_another_order_of_sums_passes_and_a_small_error_does_not(
    dtype: torch.dtype, with_oracle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_oracle:
        monkeypatch.setattr("warpsmith.composition.parity.MOST_ORACLE_BYTES", 0)
    model, run = make_model(dtype), make_run(dtype)
    truth = find_truth(run, model, seed=0)
    honest, wrong = copy.deepcopy(model), copy.deepcopy(model)
    if dtype is torch.float32:
        honest[3] = OtherOrder(honest[3])
    parity = truth.compare(collect_outputs(run, honest, 0))
    assert (parity.ok, parity.oracle) == (True, with_oracle), parity
    with torch.no_grad():
        wrong[3].weight[:, :8] *= 1.05 if dtype is torch.float32 else 1.5
    assert not truth.compare(collect_outputs(run, wrong, 0)).ok
    assert truth.find_chaos() == ""


def test_lower_precision_inside_is_found() -> None:
    model, run = make_model(), make_run()

    class Half(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.bfloat16().float()

    low = copy.deepcopy(model)
    low.insert(1, Half())
    parity = find_truth(run, model, 0).compare(collect_outputs(run, low, 0))
    assert not parity.ok
    assert "misses its budget" in parity.detail


def test_tokens_must_be_equal() -> None:
    model, run = make_model(), make_run(tokens=True)
    truth = find_truth(run, model, 0)
    outputs = collect_outputs(run, model, 0)
    assert truth.compare(outputs).ok
    other = [t + 1 if t.dtype is torch.int64 else t for t in outputs]
    assert not truth.compare(other).ok
    assert not truth.compare(outputs[:-1]).ok


def test_infinities_stand_where_they_stood() -> None:
    model = nn.Linear(4, 4)
    x = torch.tensor([[float("inf"), 1, 1, 1]])

    def run(module: nn.Module) -> torch.Tensor:
        return torch.cat([x, module(torch.ones(1, 4)).detach()])

    truth = find_truth(run, model, 0)
    outputs = collect_outputs(run, model, 0)
    assert truth.compare(outputs).ok
    assert not truth.compare([t.nan_to_num(0, 0, 0) for t in outputs]).ok


def test_chaotic_run_is_said_to_be_one() -> None:
    class Chaos(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(100):
                x = self.step(3.99 * x * (1 - x))
            return x

    truth = find_truth(lambda m: m(torch.rand(64)), Chaos(), 0)
    assert "rounding alone" in truth.find_chaos()


def test_outputs_are_sampled_and_the_seed_is_fixed() -> None:
    def run(module: nn.Module) -> torch.Tensor:
        return torch.rand(MOST_ELEMENTS + 5)

    one, other = (collect_outputs(run, nn.Identity(), 3) for _ in range(2))
    assert one[0].shape == (MOST_ELEMENTS,)
    assert torch.equal(one[0], other[0])


def test_run_without_outputs_is_refused_and_no_hook_stays() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(UsageError, match="return what should stay"):
        collect_outputs(lambda m: None, model, 0)
    find_truth(lambda m: m(torch.ones(1, 2)), model, 0)
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
