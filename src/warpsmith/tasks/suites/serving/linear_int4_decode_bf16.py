"""A weight-only int4 linear layer at decode, as AWQ stores it: two weights in a byte, a scale and a zero point for 128 inputs."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 16
inputs = 4096
outputs = 11008
group = 128

VARIANTS = {
    "ragged": {"sequences": 13, "inputs": 640, "outputs": 771},
    "small": {"sequences": 4, "inputs": 256, "outputs": 96},
}


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int, group: int) -> None:
        super().__init__()
        groups = inputs // group
        self.register_buffer(
            "packed", torch.randint(0, 256, (outputs, groups, group // 2), dtype=torch.uint8)
        )
        self.register_buffer("zero", torch.randint(6, 10, (outputs, groups, 1)).bfloat16())
        scale = (0.5 + torch.rand(outputs, groups, 1)) / (4 * inputs**0.5)
        self.register_buffer("scale", scale.bfloat16())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        nibbles = torch.stack([self.packed & 15, self.packed >> 4], dim=-1).flatten(-2)
        weight = (nibbles.to(x.dtype) - self.zero) * self.scale
        return F.linear(x, weight.flatten(1))


def get_inputs():
    return [torch.randn(sequences, inputs).bfloat16()]


def get_init_inputs():
    return [inputs, outputs, group]
