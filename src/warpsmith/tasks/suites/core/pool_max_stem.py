"""The stem of a residual network behind its convolution: per-channel scale and shift, ReLU, 3x3 maximum with stride 2."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
channels = 64
side = 112

VARIANTS = {
    "ragged": {"batch": 3, "channels": 37, "side": 55},
    "small": {"batch": 1, "channels": 16, "side": 24},
}


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels, 1, 1))
        self.shift = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(F.relu(x * self.scale + self.shift), kernel_size=3, stride=2, padding=1)


def get_inputs():
    return [torch.randn(batch, channels, side, side)]


def get_init_inputs():
    return [channels]
