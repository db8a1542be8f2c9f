"""A linear layer of an int8 Llama 3 8B at prefill: rows of activations to int8 by their largest element, int8 weights, two scales."""

import torch
import torch.nn as nn

tokens = 512
inputs = 4096
outputs = 4096

VARIANTS = {
    "ragged": {"tokens": 67, "inputs": 200, "outputs": 317},
    "small": {"tokens": 8, "inputs": 128, "outputs": 64},
}


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8))
        self.register_buffer("scale", (0.5 + torch.rand(outputs)) / (64 * inputs**0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        step = wide.abs().amax(dim=-1, keepdim=True).clamp(min=1e-8) / 127
        steps = torch.round(wide / step).to(torch.int8)
        product = torch.matmul(steps.float(), self.weight.float().t())
        return (product * step * self.scale).to(x.dtype)


def get_inputs():
    return [torch.randn(tokens, inputs).bfloat16()]


def get_init_inputs():
    return [inputs, outputs]
