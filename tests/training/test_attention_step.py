"""Attention in a training step: products and a softmax in both halves, on every device, whatever torch would take."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from training_modules import Attention

import warpsmith
from warpsmith.compiling import steps
from warpsmith.compiling.backend import Backend
from warpsmith.compiling.steps import compile_step
from warpsmith.training.step import HalfStep, TrainingStep

FUSED = "scaled_dot_product"
LENGTH, WIDTH = 6, 16


class Choosing(Attention):
    """The user asks torch for one kernel, and for another one afterwards."""

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            first = super().attend(q, k, v)
        return first + super().attend(k, q, v)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Choosing()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = checkpoint(self.inner, x, use_reentrant=False)
        return answer


class ByTorch(nn.Module):
    """Dynamo leaves the function of `MultiheadAttention` whole."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.inner(x, x, x, need_weights=False)[0]
        return answer


MODULES: dict[str, Callable[[], nn.Module]] = {
    "plain": Attention,
    "causal": lambda: Attention(is_causal=True),
    "causal-gqa": lambda: Attention(groups=2, is_causal=True),
    "mask": lambda: Attention(attn_mask=torch.rand(LENGTH, LENGTH) > 0.5),
    "bias": lambda: Attention(attn_mask=torch.randn(LENGTH, LENGTH), scale=0.3),
    "choosing": Choosing,
    "checkpointed": Checkpointed,
    "by-torch": ByTorch,
}


def make(name: str, dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    module = MODULES[name]().to(dtype)
    options = getattr(module, "options", {})
    mask = options.get("attn_mask")
    if mask is not None and mask.is_floating_point():
        options["attn_mask"] = mask.to(dtype)
    return module


def draw(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor]:
    return (torch.randn(2, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype),)


def list_operations(halves: dict[str, HalfStep]) -> set[str]:
    return {str(node.target) for half in halves.values() for node in half.module.graph.nodes}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MODULES)
def test_attention_is_products_and_a_softmax_in_both_halves(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, step = make(name, dtype), TrainingStep(draw(dtype), {}, 0)
    choices = _cur_sdpa_kernel_backends(with_priority=True)
    operations = list_operations(step.capture(module))
    assert not [operation for operation in operations if FUSED in operation]
    assert {"aten.bmm.default", "aten._softmax_backward_data.default"} <= operations
    assert _cur_sdpa_kernel_backends(with_priority=True) == choices, "what torch takes elsewhere stays"
    monkeypatch.setattr(steps, "attention_in_math_form", nullcontext)
    assert [operation for operation in list_operations(step.capture(module)) if FUSED in operation]


def run_halves(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    return compile_step(graph, inputs, lambda direction, half, examples: half.forward)


@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_the_halves_are_those_of_float64(name: str) -> None:
    """The user's own step in float64, by torch's attention, is the truth."""
    module, exact = make(name, torch.float32), make(name, torch.float64)
    exact.load_state_dict(module.state_dict())
    step, truth = TrainingStep(draw(), {}, 3), TrainingStep(draw(torch.float64), {}, 3)
    torch._dynamo.reset()
    gradients = step(torch.compile(module, backend=run_halves, fullgraph=True))
    expected = truth(exact)
    assert len(gradients) == len(expected)
    for number, (actual, right) in enumerate(zip(gradients, expected, strict=True)):
        torch.testing.assert_close(actual.double(), right, rtol=1e-4, atol=1e-5, msg=f"gradient {number}")


@pytest.mark.parametrize("name", ["causal-gqa", "choosing"])
def test_without_a_winner_the_next_backend_gets_torchs_attention(name: str, tmp_path: Path) -> None:
    """As if the backend were not there: nobody pays for kernels that there are not. The user's choice of kernels stays, too."""
    graphs: list[torch.fx.GraphModule] = []

    def run_rest(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(copy.deepcopy(graph))
        return graph.forward

    backend = Backend(
        {"next": run_rest, "training": True}, config=warpsmith.Config(archive=tmp_path / "a.db")
    )
    module, step = make(name, torch.float32), TrainingStep(draw(), {}, 3)
    torch._dynamo.reset()
    gradients = step(torch.compile(module, backend=backend, fullgraph=True))
    for actual, expected in zip(gradients, step(module), strict=True):
        torch.testing.assert_close(actual, expected)
    assert [report.direction for report in backend.explain().graphs] == ["forward", "backward"]
    (graph,) = graphs
    targets = [node.target for node in graph.graph.nodes]
    assert torch.nn.functional.scaled_dot_product_attention in targets
    chosen = [t for t in targets if t is torch.nn.attention._sdpa_kernel]
    assert len(chosen) == (2 if name == "choosing" else 0)
    assert "_ignore_choice" not in graph.code


def test_active_dropout_of_attention_is_refused_in_one_line(tmp_path: Path) -> None:
    config = warpsmith.Config(archive=tmp_path / "a.db", cache=tmp_path / "cache")
    module = Attention(dropout_p=0.1, is_causal=True)
    with pytest.raises(warpsmith.errors.TaskError, match=r"random op aten\.native_dropout") as error:
        warpsmith.optimize_training(module, draw(), time="1s", config=config)
    assert "\n" not in str(error.value)
