"""A training step as two graphs: together they are the derivative, and what they pass on is no work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from training_modules import Mixer, Pixels, draw_mixer, draw_pixels

from warpsmith.compiling.steps import BACKWARD, FORWARD
from warpsmith.errors import TaskError
from warpsmith.tasks.values import copied_to
from warpsmith.training.searching import drop_passed_on
from warpsmith.training.step import HalfStep, TrainingStep


def capture(module: nn.Module, args: tuple[Any, ...]) -> tuple[TrainingStep, dict[str, HalfStep]]:
    step = TrainingStep(args, {}, 0)
    return step, step.capture(module)


@pytest.mark.parametrize(("make", "draw"), [(Mixer, draw_mixer), (Pixels, draw_pixels)])
def test_the_halves_are_each_others_derivative(
    make: Callable[[], nn.Module], draw: Callable[[], tuple[torch.Tensor, ...]]
) -> None:
    """In float64, by finite differences: what the tasks compute is what a step needs."""
    torch.manual_seed(0)
    module = make().double()
    args = tuple(t.double() if t.is_floating_point() else t for t in draw())
    _, halves = capture(module, args)
    forward, backward = halves[FORWARD], halves[BACKWARD]
    sources = [n for n, value in enumerate(forward.inputs) if value.is_floating_point()]
    returned = forward.module(*forward.inputs)
    buffers = len(list(module.buffers()))
    first = next(n for n, t in enumerate(returned) if n >= buffers)  # updates of buffers come first
    saved_count = len(backward.inputs) - 1

    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
            results = forward.module(*inputs)
            ctx.save_for_backward(*results[len(results) - saved_count :])
            return results[first]

        @staticmethod
        def backward(ctx: Any, direction: torch.Tensor) -> Any:
            return tuple(backward.module(*ctx.saved_tensors, direction))

    differentiated = {
        n
        for n, gradient in zip(range(len(forward.inputs)), backward.module(*backward.inputs), strict=True)
        if gradient is not None
    }
    assert differentiated, "nothing would be checked"
    leaves = [
        value.detach().clone().requires_grad_(n in differentiated and n in sources)
        for n, value in enumerate(forward.inputs)
    ]
    assert torch.autograd.gradcheck(lambda *inputs: Step.apply(*inputs), leaves)


def test_weights_and_views_that_are_only_saved_are_no_work() -> None:
    _, halves = capture(Mixer(), draw_mixer())
    half = halves[FORWARD]
    dropped = drop_passed_on(half)
    names = {n.name for n in next(n for n in dropped.module.graph.nodes if n.op == "output").args[0]}
    assert not names & {n.name for n in half.module.graph.nodes if n.op == "placeholder"}
    results = {
        n.name: t
        for n, t in zip(
            next(n for n in half.module.graph.nodes if n.op == "output").args[0],
            half.module(*half.inputs),
            strict=True,
        )
    }
    for name, value in zip(
        [n.name for n in next(n for n in dropped.module.graph.nodes if n.op == "output").args[0]],
        dropped.module(*half.inputs),
        strict=True,
    ):
        torch.testing.assert_close(value, results[name])
    assert len(names) < len(results)


def test_capturing_leaves_the_module_as_it_is() -> None:
    module, args = Pixels(), draw_pixels()
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    step, _ = capture(module, args)
    collected = step.collect(module)
    for name, buffer in module.named_buffers():
        assert torch.equal(buffer, before[name]), name
    assert len(collected) == len(list(module.parameters())) + len(before)
    assert all(p.grad is None for p in module.parameters())


class Dropped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x * 2.0, 0.5, training=True)


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2.0
        return x * 3.0


class Detached(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.detach() * 2.0


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Branching(), "the training step is no single graph"),
        (Detached(), "nothing that the module returns needs gradients"),
    ],
)
def test_what_is_no_step_is_refused_in_one_line(module: nn.Module, reason: str) -> None:
    with pytest.raises(TaskError, match=reason) as error:
        capture(module, (torch.randn(4, requires_grad=True),))
    assert "\n" not in str(error.value)


def test_inputs_of_a_half_are_copies_with_the_strides_that_they_had() -> None:
    """A part of a larger tensor, and an expanded one: kernels are made for strides, and a copy must not change with what it came from."""
    base = torch.randn(4, 6)
    for tensor in (base[:, 1:3], base[:1].expand(5, 6), base.t()):
        copied = copied_to(tensor, tensor.device, copy=True)
        before = tensor.clone()
        assert copied.stride() == tensor.stride()
        base.add_(1.0)
        assert torch.equal(copied, before)
