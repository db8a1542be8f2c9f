"""Mish followed by a per-channel scale and shift on an image batch (N, C, H, W)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 16
channels = 64
side = 32

VARIANTS = {
    "ragged": {"batch": 5, "channels": 37, "side": 31},
    "small": {"batch": 2, "channels": 16, "side": 16},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels, 1, 1))
        self.shift = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.mish(x) * self.scale + self.shift


def get_inputs():
    return [torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [channels]
