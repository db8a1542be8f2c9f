"""A weight-only int8 linear layer at decode, sixteen sequences: a scale for each output channel, activations in bfloat16."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 16
inputs = 4096
outputs = 11008

VARIANTS = {
    "ragged": {"sequences": 13, "inputs": 1000, "outputs": 1531},
    "small": {"sequences": 4, "inputs": 256, "outputs": 384},
}


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8))
        self.register_buffer("scale", ((0.5 + torch.rand(outputs, 1)) / (64 * inputs**0.5)).bfloat16())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight.to(x.dtype) * self.scale)


def get_inputs():
    return [torch.randn(sequences, inputs).bfloat16()]


def get_init_inputs():
    return [inputs, outputs]
