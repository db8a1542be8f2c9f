"""RMS normalisation of token vectors with a learned gain, written out as language models do."""

import torch
import torch.nn as nn

rows = 2048
width = 1024
epsilon = 1.0e-3

VARIANTS = {
    "ragged": {"rows": 557, "width": 1087},
    "small": {"rows": 96, "width": 320},
}


class Model(nn.Module):
    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.randn(width))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.epsilon) * self.gain


def get_inputs():
    return [torch.randn(rows, width)]


def get_init_inputs():
    return [width, epsilon]
