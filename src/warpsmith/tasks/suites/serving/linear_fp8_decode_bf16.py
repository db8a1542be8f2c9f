"""A linear layer of DeepSeek V3 at decode with weights in float8, cast to bfloat16 and scaled by blocks of 128 × 128."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 16
inputs = 7168
outputs = 4096
block = 128

VARIANTS = {
    "ragged": {"sequences": 13, "inputs": 640, "outputs": 384},
    "small": {"sequences": 4, "inputs": 256, "outputs": 128},
}


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int, block: int) -> None:
        super().__init__()
        blocks = (outputs // block, inputs // block)
        weight = torch.randn(blocks[0], block, blocks[1], block) * 64
        self.register_buffer("weight", weight.to(torch.float8_e4m3fn))
        scale = (0.5 + torch.rand(blocks[0], 1, blocks[1], 1)) / (64 * inputs**0.5)
        self.register_buffer("scale", scale.bfloat16())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight.to(x.dtype) * self.scale
        return F.linear(x, weight.flatten(2).flatten(0, 1))


def get_inputs():
    return [torch.randn(sequences, inputs).bfloat16()]


def get_init_inputs():
    return [inputs, outputs, block]
