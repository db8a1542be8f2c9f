"""A weight-only int4 linear layer at prefill, as GPTQ stores it: eight weights in an int32 down the inputs, packed zero points."""

import torch
import torch.nn as nn

tokens = 512
inputs = 4096
outputs = 4096
group = 128

VARIANTS = {
    "ragged": {"tokens": 67, "inputs": 384, "outputs": 200},
    "small": {"tokens": 8, "inputs": 256, "outputs": 64},
}


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int, group: int) -> None:
        super().__init__()
        groups, words = inputs // group, (-(2**31), 2**31)
        self.register_buffer("packed", torch.randint(*words, (groups, group // 8, 1, outputs)).int())
        self.register_buffer("zeros", torch.randint(*words, (groups, 1, outputs // 8, 1)).int())
        self.register_buffer("scale", ((0.5 + torch.rand(groups, 1, outputs)) / (4 * inputs**0.5)).half())
        self.register_buffer("shift", torch.arange(0, 32, 4).int())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = ((self.packed >> self.shift[:, None]) & 15).flatten(1, 2)
        zeros = ((self.zeros >> self.shift) & 15).flatten(2)
        weight = (steps - zeros).to(x.dtype) * self.scale
        return torch.matmul(x, weight.flatten(0, 1))


def get_inputs():
    return [torch.randn(tokens, inputs).half()]


def get_init_inputs():
    return [inputs, outputs, group]
