"""Weighted mean squared error over all elements: two large tensors in, one number out."""

import torch
import torch.nn as nn

rows = 2048
width = 1024

VARIANTS = {
    "ragged": {"rows": 521, "width": 1039},
    "small": {"rows": 64, "width": 320},
}


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.5 + torch.rand(width))

    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        difference = prediction - target
        return torch.mean(difference * difference * self.weight)


def get_inputs():
    return [torch.randn(rows, width), torch.randn(rows, width)]


def get_init_inputs():
    return [width]
