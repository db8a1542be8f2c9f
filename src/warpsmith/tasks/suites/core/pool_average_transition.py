"""The transition of a dense block: 2x2 average without overlap between two affine steps, the later one a GELU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 8
channels = 96
side = 56

VARIANTS = {
    "ragged": {"batch": 3, "channels": 29, "side": 43},
    "small": {"batch": 2, "channels": 16, "side": 20},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.randn(channels, 1, 1))
        self.bias = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(F.avg_pool2d(F.silu(x * self.gain), kernel_size=2) + self.bias)


def get_inputs():
    return [torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [channels]
