"""A clamp chain as in quantisation-aware layers: affine, clamp, hard-swish, leaky ReLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 2048
width = 1024
low = -1.5
high = 2.5

VARIANTS = {
    "ragged": {"rows": 331, "width": 1307},
    "small": {"rows": 128, "width": 128},
}


class Model(nn.Module):
    def __init__(self, width: int, low: float, high: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(1.0 + torch.rand(width))
        self.bias = nn.Parameter(torch.randn(width))
        self.low, self.high = low, high

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.clamp(x * self.scale + self.bias, self.low, self.high)
        return F.leaky_relu(F.hardswish(x), negative_slope=0.1)


def get_inputs():
    return [torch.randn(rows, width)]


def get_init_inputs():
    return [width, low, high]
